#include "stages/drivers/branch_side.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kSmall = 8192;

bool isGitDirectory(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path / "HEAD", ignored) && fs::is_directory(path / "objects", ignored) &&
           fs::is_directory(path / "refs", ignored);
}

bool leadsTo(const fs::path& head, const std::string& ref) {
    const auto text = readPlainFile(AT_FDCWD, head, kSmall);
    return text && text->substr(0, text->find('\n')) == "ref: " + ref;
}

/// A rebase or bisect that will come back to the branch.
bool isAboutToReturn(const fs::path& directory, const std::string& ref) {
    for (const char* name : {"rebase-merge/head-name", "rebase-apply/head-name"}) {
        const auto text = readPlainFile(AT_FDCWD, directory / name, kSmall);
        if (text && text->substr(0, text->find('\n')) == ref) return true;
    }
    return false;
}

bool uses(const fs::path& directory, const std::string& ref) {
    return leadsTo(directory / "HEAD", ref) || isAboutToReturn(directory, ref);
}

fs::path workTreeOf(const fs::path& linked) {
    const auto text = readPlainFile(AT_FDCWD, linked / "gitdir", kSmall);
    return text ? fs::path(text->substr(0, text->find('\n'))).parent_path() : linked;
}

}  // namespace

GitWorkTree openRepository(const fs::path& path, const fs::path& project) {
    std::error_code error;
    fs::path real = fs::canonical(path, error);
    // Named by its git directory, it has a work tree all the same.
    if (real.filename() == ".git") real = real.parent_path();
    if (!error && isGitDirectory(real)) {
        refuseForeign(real, project);
        return {real, real, real, ""};
    }
    auto found = error ? std::nullopt : findWorkTree(real);
    if (!found)
        throw Error(ErrorCode::kUsage, "{} is no git repository", path.native())
            .hint("name one, or make it: git init --bare " + path.native());
    refuseForeign(*found, project);
    // One name for one repository, whichever work tree leads to it.
    found->directory = fs::canonical(found->directory);
    found->common = fs::canonical(found->common);
    return *found;
}

BranchSide::BranchSide(const GitWorkTree& git, std::string ref, std::string name, FileOperations& files)
    : git_(git), ref_(std::move(ref)), name_(std::move(name)), plumbing_(git, files) {}

bool BranchSide::holds(const std::string& commit) const {
    const auto now = tip();
    return now && (*now == commit || plumbing_.isAncestor(commit, *now));
}

// Its files would stay as they are, and show as edits that undo whatever lands on the branch.
std::optional<fs::path> BranchSide::checkedOutIn() const {
    if (!plumbing_.isBare() && uses(git_.common, ref_))
        return git_.directory == git_.common ? git_.root : git_.common.parent_path();
    std::error_code error;
    for (fs::directory_iterator it(git_.common / "worktrees", error), end; !error && it != end; it.increment(error))
        if (uses(it->path(), ref_)) return workTreeOf(it->path());
    return std::nullopt;
}

std::optional<Conflict> BranchSide::obstacle() const {
    if (plumbing_.isSymbolic(ref_))
        return Conflict{ConflictKind::kInTheWay, name_, "a branch", "another name for another branch", std::nullopt};
    const auto where = checkedOutIn();
    if (!where) return std::nullopt;
    return Conflict{ConflictKind::kInTheWay, name_, "a branch that no work tree shows",
                    fmt::format("checked out in {0}; 'git -C {0} switch --detach' frees it", where->native()),
                    std::nullopt};
}

std::optional<Conflict> BranchSide::land(const std::optional<std::string>& from, const std::string& commit) {
    if (holds(commit)) return std::nullopt;
    if (auto found = obstacle()) return found;
    if (plumbing_.moveRef(ref_, from, commit, "gradus: promote")) return std::nullopt;
    return Conflict{ConflictKind::kEdited, name_, from.value_or("no commit"), tip().value_or("no commit"),
                    std::nullopt};
}

void BranchSide::takeBack(const std::string& commit, const std::optional<std::string>& to, RollbackOutcome& outcome) {
    if (!holds(commit)) return;
    if (tip() == commit) {
        if (const auto found = obstacle()) {
            outcome.problems.push_back(describe(*found));
            return;
        }
        if (plumbing_.moveRef(ref_, commit, to, "gradus: roll back") || !holds(commit)) return;
    }
    outcome.kept.push_back({name_, fmt::format("there are commits after {0}, so that one stays: 'git revert {0}' "
                                               "undoes it",
                                               commit.substr(0, 12))});
}

}  // namespace gradus
