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

/// Without git nothing beside the files is ours. The time of birth keeps a number that is used again from being taken
/// for the directory that had it before.
fs::path markerWithoutGit(const fs::path& project, const std::string& what) {
    struct statx info {};
    if (::statx(AT_FDCWD, project.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &info) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot look at {}: {}", project.native(), errnoText(errno));
    const bool isKnown = (info.stx_mask & STATX_BTIME) != 0;
    return fs::path(kMarkersWithoutGit) /
           fmt::format(".{}-{}-{}-{}-{}{}{}", kMarker, info.stx_dev_major, info.stx_dev_minor, info.stx_ino,
                       isKnown ? info.stx_btime.tv_sec * 1'000'000'000 + info.stx_btime.tv_nsec : 0,
                       what.empty() ? "" : "-", what);
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
