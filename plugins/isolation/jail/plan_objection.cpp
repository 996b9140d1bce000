#include <algorithm>
#include <limits>

#include "plugins/isolation/jail/protocol.h"

namespace gradus {

namespace {

// An absolute path in its one normal spelling: no empty, "." or ".." component, no trailing slash.
bool isPlainPath(std::string_view path) {
    if (path.size() < 2 || path.size() > 4000 || path[0] != '/') return false;
    while (!path.empty()) {
        path.remove_prefix(1);
        const std::string_view component = path.substr(0, path.find('/'));
        if (component.empty() || component == "." || component == ".." || component.size() > 255) return false;
        path.remove_prefix(component.size());
    }
    return true;
}

bool isBeneath(std::string_view path, std::string_view directory) {
    return path == directory || (path.starts_with(directory) && path[directory.size()] == '/');
}

// The kernel's own views and the jail's own directories: nothing of a plan is put there.
bool isReserved(std::string_view path) {
    for (const std::string_view directory : {"/proc", "/sys", "/dev"})
        if (isBeneath(path, directory)) return true;
    return false;
}

std::optional<std::string> targetObjection(std::string_view target) {
    if (!isPlainPath(target)) return "'" + std::string(target) + "' is not an absolute path in normal form";
    if (isReserved(target))
        return "'" + std::string(target) + "' lies in /proc, /sys or /dev, which the jail makes itself";
    return std::nullopt;
}

std::optional<std::string> overlayObjection(const JailOverlay& overlay) {
    const bool whole = overlay.target == "/";
    if (overlay.lowers.empty() || overlay.lowers.size() > 500) return overlay.target + ": 1 to 500 lower layers";
    if (overlay.upper.empty() != overlay.work.empty()) return overlay.target + ": upper and work belong together";
    for (const std::string& lower : overlay.lowers)
        if (!isPlainPath(lower) && !(whole && lower == "/"))
            return "'" + lower + "' is not an absolute path in normal form";
    for (const std::string& path : {overlay.upper, overlay.work})
        if (!path.empty() && !isPlainPath(path)) return "'" + path + "' is not an absolute path in normal form";
    return std::nullopt;
}

std::vector<std::string> targetsOf(const JailSetup& setup) {
    std::vector<std::string> targets = setup.hidden;
    for (const JailOverlay& overlay : setup.overlays) targets.push_back(overlay.target);
    for (const JailBind& bind : setup.binds) targets.push_back(bind.target);
    for (const JailPrivate& directory : setup.privates) targets.push_back(directory.target);
    for (const JailFile& file : setup.files) targets.push_back(file.target);
    return targets;
}

// Only an overlay can be put over everything; named twice, it is refused as any other place.
bool hasWholeOverlay(const JailSetup& setup) {
    return std::any_of(setup.overlays.begin(), setup.overlays.end(),
                       [](const JailOverlay& overlay) { return overlay.target == "/"; });
}

// A copy of the system has an overlay of "/", is root's inside, and nothing else is either.
std::optional<std::string> systemObjection(const JailSetup& setup) {
    const auto whole = std::count_if(setup.overlays.begin(), setup.overlays.end(),
                                     [](const JailOverlay& overlay) { return overlay.target == "/"; });
    if (whole != (setup.system ? 1 : 0)) return "a copy of the system is one with an overlay of /, and nothing else is";
    if (setup.system && (setup.uid != 0 || setup.gid != 0 || setup.bare))
        return "a copy of the system is root's inside";
    if (!setup.system && !setup.seeds.empty()) return "only a copy of the system can be seeded";
    for (const JailFile& seed : setup.seeds)
        if (auto reason = targetObjection(seed.target)) return reason;
    if (!setup.fuseProgram.empty() && !isPlainPath(setup.fuseProgram)) return "the FUSE program needs its whole path";
    return std::nullopt;
}

std::optional<std::string> imagesObjection(const JailSetup& setup) {
    for (const JailImage& image : setup.images)
        if (!isPlainPath(image.file) || !isPlainPath(image.at) || isReserved(image.at))
            return "'" + image.file + "' at '" + image.at + "': an image needs two absolute paths in normal form";
    return std::nullopt;
}

std::optional<std::string> limitsObjection(const Limits& limits) {
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const std::optional<Limit>& limit = limits[static_cast<LimitName>(i)];
        if (!limit) continue;
        if (limit->value == 0) return "a limit of zero for " + std::string(kLimitNames[i]);
        if (limit->value > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
            return "the limit for " + std::string(kLimitNames[i]) + " is too large";
    }
    return std::nullopt;
}

std::optional<std::string> routesObjection(const JailSetup& setup) {
    constexpr std::uint32_t kSynthetic = 0xc6120000;  // 198.18.0.0/16, set apart for measurements
    if (setup.routes.size() > kMostRoutes)
        return "a network by name has at most " + std::to_string(kMostRoutes) + " destinations";
    if (!setup.routes.empty() && (setup.bare || setup.hostNetwork)) return "only a network of its own can be by name";
    for (const JailRoute& route : setup.routes)
        if ((route.address & 0xffff0000) != kSynthetic || route.port == 0) return "a route that leads nowhere";
    return std::nullopt;
}

}  // namespace

std::optional<std::string> objection(const JailSetup& setup) {
    std::vector<std::string> targets = targetsOf(setup);
    if (setup.bare && !targets.empty()) return "'" + targets.front() + "' cannot be shown otherwise than it is";
    if (setup.bare && setup.uid == 0) return "without a boundary nothing is run as root";
    for (const std::string& target : targets)
        if (auto reason = target == "/" && hasWholeOverlay(setup) ? std::nullopt : targetObjection(target))
            return reason;
    if (auto reason = systemObjection(setup)) return reason;
    if (auto reason = imagesObjection(setup)) return reason;
    std::sort(targets.begin(), targets.end());
    const auto twice = std::adjacent_find(targets.begin(), targets.end());
    if (twice != targets.end()) return "'" + *twice + "' is named twice";
    for (const JailOverlay& overlay : setup.overlays)
        if (auto reason = overlayObjection(overlay)) return reason;
    for (const JailBind& bind : setup.binds)
        if (!isPlainPath(bind.source)) return "'" + bind.source + "' is not an absolute path in normal form";
    if (!isPlainPath(setup.cgroupRoot)) return "the cgroup root must be an absolute path";
    if (setup.hostname.empty() || setup.hostname.size() > 64) return "the host name must have 1 to 64 characters";
    if (auto reason = routesObjection(setup)) return reason;
    return limitsObjection(setup.limits);
}

std::optional<std::string> objection(const JailRun& run) {
    if (run.program.empty() || run.arguments.empty()) return "there is no command";
    if (run.directory != "/" && (!isPlainPath(run.directory) || isReserved(run.directory)))
        return "'" + run.directory + "' cannot be the working directory";
    for (const std::string& variable : run.environment)
        if (variable.find('=') == std::string::npos || variable[0] == '=')
            return "'" + variable + "' is not of the form NAME=value";
    return std::nullopt;
}

}  // namespace gradus
