#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "stages/sandbox/clone_draft.h"
#include "stages/sandbox/clone_gitconfig.h"
#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kSmall = 64U << 10;
constexpr int kDeepestAlternate = 5;  // as in git

std::string firstLine(const fs::path& file) {
    try {
        const std::string text = readSmallFile(file, kSmall, "a file of git");
        return text.substr(0, text.find_first_of("\r\n"));
    } catch (const Error&) {
        return {};
    }
}

fs::path real(const fs::path& path) {
    std::error_code error;
    const fs::path found = fs::canonical(path, error);
    return error ? fs::path() : found;
}

/// The git directory that a file `.git` names, and the one it shares with other work trees.
struct GitDirectory {
    fs::path own;
    fs::path common;
};

bool isOurs(const CloneDraft& draft, const fs::path& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && (info.st_uid == draft.identity.uid || info.st_uid == ::geteuid());
}

bool isRepository(const fs::path& directory) {
    return isThere(directory / "HEAD") && isDirectory(directory / "objects") && isDirectory(directory / "refs");
}

std::vector<GitSetting> readConfig(const fs::path& file) {
    try {
        return parseGitConfig(readSmallFile(file, 1U << 20, "git's configuration")).value_or(std::vector<GitSetting>());
    } catch (const Error&) {
        return {};
    }
}

// What a `.git` file names must name the work tree in return. Otherwise a file that came with somebody's archive could
// have any repository of this user shown inside.
bool leadsBack(const GitDirectory& git, const fs::path& top) {
    if (git.own != git.common) return real(fs::path(firstLine(git.own / "gitdir"))) == top / ".git";
    const auto worktree = gitSetting(readConfig(git.own / "config"), "core", "worktree");
    return worktree && real(git.own / *worktree) == top;
}

/// Why a git directory is not to be trusted; empty if it is.
std::string objection(const CloneDraft& draft, const GitDirectory& git, const fs::path& top) {
    if (git.own.empty() || git.common.empty() || !isDirectory(git.own)) return "which is not there";
    if (!isOurs(draft, git.own) || !isOurs(draft, git.common)) return "which belongs to somebody else";
    if (!isRepository(git.common)) return "which is no repository";
    if (!isWithin(git.own, git.common)) return "whose common directory lies elsewhere";
    if (draft.touchesSecrets(git.common)) return "which lies beside secrets";
    if (!leadsBack(git, top)) return "which does not lead back here";
    return {};
}

GitDirectory followGitFile(const fs::path& top) {
    const std::string line = firstLine(top / ".git");
    if (!line.starts_with("gitdir: ")) return {};
    GitDirectory git;
    git.own = real(top / line.substr(8));
    const std::string common = git.own.empty() ? "" : firstLine(git.own / "commondir");
    git.common = common.empty() ? git.own : real(git.own / common);
    return git;
}

void keepLast(CloneDraft& draft, std::size_t before) {
    for (std::size_t i = before; i < draft.view.workspace().overlays.size(); ++i) draft.alsoKept.push_back(i);
}

// Objects borrowed from another repository (git clone --shared) must be there to be read.
void showAlternates(CloneDraft& draft, const fs::path& objects, int depth) {
    if (depth > kDeepestAlternate) return;
    std::string text;
    try {
        text = readSmallFile(objects / "info/alternates", kSmall, "a file of git");
    } catch (const Error&) {
        return;
    }
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        const std::string line = text.substr(start, end - start);
        start = end + 1;
        if (line.empty() || line.front() == '#') continue;
        const fs::path other = real(objects / line);
        if (other.empty() || other.filename() != "objects" || !isDirectory(other / "pack")) continue;
        if (!isOurs(draft, other) || draft.touchesSecrets(other)) continue;
        if (!draft.view.shows(other)) draft.view.bind(other, other);
        showAlternates(draft, other, depth + 1);
    }
}

void noteCredentials(CloneDraft& draft, const fs::path& git) {
    for (const GitSetting& setting : readConfig(git / "config"))
        if (holdsCredential(setting)) {
            draft.notes.push_back(fmt::format(
                "{} holds a password or token ({}), which commands inside can read; keep it in a credential "
                "helper instead",
                (git / "config").native(), setting.section + "." + setting.key));
            return;
        }
}

// The nearest `.git`, as git itself looks for it; never from the homes upwards.
std::optional<fs::path> topLevel(const CloneDraft& draft) {
    for (fs::path at = draft.request.project;; at = at.parent_path()) {
        if (at == "/" || draft.holdsSecrets(at)) return std::nullopt;
        std::error_code error;
        if (fs::exists(fs::symlink_status(at / ".git", error))) return at;
    }
}

bool ownGitIsShown(const CloneRequest& request) {
    return request.lowers.empty() || request.lowersHaveGit ||
           std::find(request.lowers.begin(), request.lowers.end(), request.project) != request.lowers.end();
}

// A repository of which the project is only a part, or whose work tree here is the tree of a commit.
void showDirectory(CloneDraft& draft, const fs::path& top) {
    const bool isProject = top == draft.request.project;
    const fs::path git = top / ".git";
    if (isProject && ownGitIsShown(draft.request)) return;
    if (!isOurs(draft, git) || !isRepository(git)) return;
    const std::size_t before = draft.view.workspace().overlays.size();
    draft.copyOnWrite(git, git);
    keepLast(draft, before);
    if (isProject) draft.notOurs.emplace_back(".git");
    if (!isProject)
        draft.notes.push_back(
            fmt::format("the project is a part of the repository {}: git sees the rest of it as deleted "
                        "where that is not shown",
                        top.native()));
}

void showGitFile(CloneDraft& draft, const fs::path& top) {
    const GitDirectory git = followGitFile(top);
    const std::string reason = objection(draft, git, top);
    if (!reason.empty()) {
        draft.notes.push_back(
            fmt::format("git does not work inside: {} names {}, {}; 'git worktree repair' or 'git -C {} config "
                        "core.worktree {}' makes a moved one right",
                        (top / ".git").native(), firstLine(top / ".git"), reason, git.own.native(), top.native()));
        return;
    }
    if (top != draft.request.project || !ownGitIsShown(draft.request)) {
        if (!draft.view.shows(top / ".git") || top == draft.request.project)
            draft.view.bind(top / ".git", top / ".git");
        if (top == draft.request.project) draft.notOurs.emplace_back(".git");
    }
    if (isWithin(git.common, draft.request.project) && ownGitIsShown(draft.request)) return;
    const std::size_t before = draft.view.workspace().overlays.size();
    draft.copyOnWrite(git.common, git.common);
    keepLast(draft, before);
}

}  // namespace

void showGitDirectories(CloneDraft& draft) {
    const std::optional<fs::path> top = topLevel(draft);
    if (!top) return;
    // The project is a mount inside; git does not look beyond one for the repository unless told to.
    if (*top != draft.request.project) draft.variables.emplace_back("GIT_DISCOVERY_ACROSS_FILESYSTEM=1");
    std::error_code error;
    fs::path git = *top / ".git";
    const fs::file_status status = fs::symlink_status(git, error);
    if (fs::is_regular_file(status)) {
        showGitFile(draft, *top);
        git = followGitFile(*top).common;
    } else if (fs::is_directory(status)) {
        showDirectory(draft, *top);
    } else {
        draft.notes.push_back(
            fmt::format("{} is neither a directory nor a file: git may not work inside", git.native()));
        return;
    }
    if (git.empty() || !isOurs(draft, git)) return;
    showAlternates(draft, git / "objects", 1);
    noteCredentials(draft, git);
}

}  // namespace gradus
