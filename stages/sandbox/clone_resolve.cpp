#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "stages/sandbox/clone.h"
#include "stages/sandbox/clone_view.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

bool isProgram(const fs::path& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 0111) != 0;
}

// By the bits alone: what another user may run cannot be asked of the kernel.
bool mayRun(const fs::path& path, const Identity& identity) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return false;
    if (identity.uid == 0) return (info.st_mode & 0111) != 0;
    if (info.st_uid == identity.uid) return (info.st_mode & 0100) != 0;
    if (info.st_gid == identity.gid) return (info.st_mode & 0010) != 0;
    return (info.st_mode & 0001) != 0;
}

std::string valueIn(const std::vector<std::string>& environment, const std::string& name) {
    for (const std::string& line : environment)
        if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
    return {};
}

/// The places where a program of that name would be looked for, in order.
std::vector<fs::path> candidates(const std::string& program, const std::string& path, const fs::path& directory) {
    if (program.find('/') != std::string::npos) return {(directory / program).lexically_normal()};
    std::vector<fs::path> all;
    for (std::size_t start = 0; start <= path.size();) {
        const std::size_t end = std::min(path.find(':', start), path.size());
        all.push_back((directory / path.substr(start, end - start) / program).lexically_normal());
        start = end + 1;
    }
    return all;
}

struct Found {
    fs::path name;  ///< as it was looked for
    fs::path file;  ///< the host's file it is
};

template <typename Look>
std::optional<Found> search(const std::vector<fs::path>& places, Look look) {
    for (const fs::path& place : places)
        if (const std::optional<fs::path> file = look(place); file && isProgram(*file)) return Found{place, *file};
    return std::nullopt;
}

std::optional<fs::path> onHost(const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    return error ? std::nullopt : std::optional(real);
}

// "#!/usr/bin/env python3" names /usr/bin/env; what env finds is a question of its own.
std::optional<fs::path> interpreterOf(const fs::path& file) {
    std::array<char, 256> buffer{};
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return std::nullopt;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    ::close(fd);
    const std::string_view text(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    if (!text.starts_with("#!")) return std::nullopt;
    const std::string_view line = text.substr(2, text.find('\n') - 2);
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == std::string_view::npos) return std::nullopt;
    return fs::path(line.substr(start, line.find_first_of(" \t\r", start) - start));
}

std::string cureFor(const ClonePlan& plan, const fs::path& missing) {
    const CloneView view(plan.workspace);
    if (view.names(missing)) return "it is hidden there";
    if (!view.shows(missing))
        return fmt::format("of that place only tools are shown; put {} on PATH, and it is shown read-only",
                           missing.parent_path().native());
    return "it leads to a place that is not shown";
}

std::string describeDifference(const ClonePlan& plan, const std::string& program, const Found& outside,
                               const std::optional<Found>& inside) {
    if (inside)
        return fmt::format("{} is {} outside and {} inside: {}", program, outside.name.native(), inside->name.native(),
                           cureFor(plan, outside.name));
    const std::string real = outside.file == outside.name ? "" : fmt::format(" ({})", outside.file.native());
    return fmt::format("{} is {}{} outside and not there inside: {}", program, outside.name.native(), real,
                       cureFor(plan, CloneView(plan.workspace).shows(outside.name) ? outside.file : outside.name));
}

}  // namespace

std::optional<std::string> resolvesDifferently(const ClonePlan& plan, const CloneRequest& request,
                                               const std::string& program) {
    const CloneView view(plan.workspace);
    const std::string outerPath = request.environment("PATH").value_or("");
    const auto outside = search(candidates(program, outerPath, request.directory), onHost);
    if (!outside) return std::nullopt;  // then the command says so itself
    const auto inside = search(candidates(program, valueIn(plan.environment, "PATH"), request.directory),
                               [&](const fs::path& place) { return view.find(place); });
    // A program of the project's own may be another in a snapshot or a commit; that is what was asked for.
    const bool isMeant = inside && (inside->file == outside->file || isWithin(inside->name, request.project));
    if (!isMeant) return describeDifference(plan, program, *outside, inside);
    if (!mayRun(inside->file, plan.identity))
        return fmt::format("{} is {}, which uid {} may not run: give it the right (chmod), or call as its owner",
                           program, inside->file.native(), plan.identity.uid);
    const auto interpreter = interpreterOf(inside->file);
    if (interpreter && onHost(*interpreter) && !view.find(*interpreter))
        return fmt::format("{} runs with {}, which is not there inside: {}", program, interpreter->native(),
                           cureFor(plan, *interpreter));
    return std::nullopt;
}

}  // namespace gradus
