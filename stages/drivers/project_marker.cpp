#include "stages/drivers/project_marker.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "store/model/digest.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMarker = "gradus-target";
constexpr std::string_view kMarkersWithoutGit = "/var/tmp";

/// The marker that an older release made: by device too, whose number may have changed since. Of several the one of the
/// device as it is now, else the last by name: any will do, as long as all processes take the same.
std::optional<fs::path> olderMarker(const std::string& now, const std::string& ending) {
    const fs::path directory(kMarkersWithoutGit);
    const std::string beginning = fmt::format(".{}-", kMarker);
    if (::access((directory / (beginning + now + ending)).c_str(), F_OK) == 0)
        return directory / (beginning + now + ending);
    std::optional<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
        const std::string name = it->path().filename().native();
        if (!name.starts_with(beginning) || !name.ends_with(ending)) continue;
        const std::string device = name.substr(beginning.size(), name.size() - beginning.size() - ending.size());
        const bool isDevice = device.find('-') != device.npos && device.find_first_not_of("0123456789-") == device.npos;
        if (isDevice && (!found || *found < it->path())) found = it->path();
    }
    return found;
}

/// Without git nothing beside the files is ours. By inode and time of birth, which keeps a number that is used again
/// from being taken for the directory that had it before; the device's number changes with a reboot, and counts only
/// where nothing else tells file systems apart.
fs::path markerWithoutGit(const fs::path& project, const std::string& what) {
    struct statx info {};
    if (::statx(AT_FDCWD, project.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &info) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot look at {}: {}", project.native(), errnoText(errno));
    const bool isKnown = (info.stx_mask & STATX_BTIME) != 0;
    const std::string device = fmt::format("{}-{}", info.stx_dev_major, info.stx_dev_minor);
    const std::string ending = fmt::format("-{}-{}{}{}", info.stx_ino,
                                           isKnown ? info.stx_btime.tv_sec * 1'000'000'000 + info.stx_btime.tv_nsec : 0,
                                           what.empty() ? "" : "-", what);
    if (!isKnown) return fs::path(kMarkersWithoutGit) / fmt::format(".{}-{}{}", kMarker, device, ending);
    fs::path own = fs::path(kMarkersWithoutGit) / fmt::format(".{}{}", kMarker, ending);
    if (::access(own.c_str(), F_OK) == 0) return own;
    return olderMarker(device, ending).value_or(own);
}

}  // namespace

void requireTrustworthy(const GitWorkTree& git) {
    struct stat directory {};
    struct stat root {};
    if (::stat(git.directory.c_str(), &directory) != 0 || ::stat(git.root.c_str(), &root) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot look at {}: {}", git.directory.native(), errnoText(errno));
    if (directory.st_uid != root.st_uid && directory.st_uid != ::geteuid())
        throw Error(ErrorCode::kNotAllowed, "{} belongs to user {}, the work tree {} to user {}",
                    git.directory.native(), directory.st_uid, git.root.native(), root.st_uid)
            .hint(
                fmt::format("if you trust it: chown -R --reference={} {}", git.root.native(), git.directory.native()));
    if (git.directory == git.common) return;
    const auto back = readPlainFile(AT_FDCWD, git.directory / "gitdir", 8192);
    std::error_code ignored;
    const fs::path leads = back ? git.directory / back->substr(0, back->find('\n')) : fs::path();
    if (!back || !fs::equivalent(leads, git.root / ".git", ignored))
        throw Error(ErrorCode::kNotAllowed, "{} does not know of the work tree {}", git.directory.native(),
                    git.root.native())
            .hint("if it was moved: git worktree repair");
}

fs::path projectMarker(const fs::path& project, const std::optional<GitWorkTree>& git, const std::string& what) {
    const std::string told = what.empty() ? "" : sha256(what).brief();
    if (!git) return markerWithoutGit(project, told);
    requireTrustworthy(*git);
    // Projects in one repository are targets of their own.
    std::string name(kMarker);
    if (!git->prefix.empty()) name += "-" + sha256(git->prefix).brief();
    return git->directory / (told.empty() ? name : name + "-" + told);
}

}  // namespace gradus
