#include "plugins/host/mounts.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "store/paths.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

bool isOctal(std::string_view text) {
    return text.size() == 3 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
}

// Blanks, tabs, line ends and backslashes are written as \040 and the like.
std::string unescape(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string_view digits = text[i] == '\\' ? text.substr(i + 1, 3) : std::string_view();
        if (isOctal(digits)) {
            plain += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find(at, start), text.size());
        parts.push_back(text.substr(start, end - start));
        start = end + 1;
    }
    return parts;
}

// "36 35 98:0 /root /mount/point options optional… - type source options"
std::optional<HostMount> parseLine(std::string_view line) {
    const std::vector<std::string_view> fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() < 6 || fields.end() - dash < 2) return std::nullopt;
    const bool readOnly = fields[5] == "ro" || fields[5].starts_with("ro,");
    return HostMount{std::string(fields[2]), unescape(fields[3]), unescape(fields[4]), std::string(*(dash + 1)),
                     readOnly};
}

// `path` below `from`, put below `to` instead.
fs::path moved(const fs::path& path, const fs::path& from, const fs::path& to) {
    const std::string rest = from == "/" ? path.native() : path.native().substr(from.native().size());
    if (rest.empty() || rest == "/") return to;
    return to == "/" ? fs::path(rest) : fs::path(to.native() + rest);
}

}  // namespace

std::vector<HostMount> parseMounts(std::string_view mountInfo) {
    std::vector<HostMount> mounts;
    for (const std::string_view line : split(mountInfo, '\n'))
        if (auto mount = parseLine(line)) mounts.push_back(std::move(*mount));
    return mounts;
}

std::vector<HostMount> hostMounts() {
    std::ifstream file("/proc/self/mountinfo");
    std::stringstream text;
    text << file.rdbuf();
    return parseMounts(text.str());
}

std::vector<HostMount> topmost(const std::vector<HostMount>& mounts) {
    std::map<std::string, HostMount> last;
    for (const HostMount& mount : mounts) last[mount.path.native()] = mount;
    std::vector<HostMount> seen;
    for (auto& [path, mount] : last) seen.push_back(std::move(mount));
    return seen;
}

std::vector<HostMount> mountsBelow(const std::vector<HostMount>& mounts, const fs::path& directory) {
    std::vector<HostMount> below;
    for (const HostMount& mount : mounts)
        if (mount.path != directory && isWithin(mount.path, directory)) below.push_back(mount);
    return below;
}

std::vector<fs::path> aliasesOf(const fs::path& path, const std::vector<HostMount>& mounts) {
    const HostMount* own = nullptr;
    for (const HostMount& mount : mounts)
        if (isWithin(path, mount.path) && (own == nullptr || mount.path.native().size() >= own->path.native().size()))
            own = &mount;
    std::vector<fs::path> aliases;
    if (own == nullptr) return aliases;
    const fs::path inside = moved(path, own->path, own->top);
    for (const HostMount& mount : mounts) {
        if (mount.device != own->device) continue;
        if (isWithin(inside, mount.top))
            aliases.push_back(moved(inside, mount.top, mount.path));
        else if (isWithin(mount.top, inside))
            aliases.push_back(mount.path);
    }
    std::erase_if(aliases, [&](const fs::path& alias) { return isWithin(alias, path) || alias == "/"; });
    return aliases;
}

bool isOfTheKernel(std::string_view type) {
    constexpr std::array<std::string_view, 19> kTypes{
        "proc",   "sysfs",  "devpts",      "devtmpfs", "cgroup", "cgroup2",  "securityfs", "debugfs", "tracefs",  "bpf",
        "mqueue", "autofs", "binfmt_misc", "configfs", "pstore", "efivarfs", "rpc_pipefs", "nsfs",    "hugetlbfs"};
    return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

}  // namespace gradus
