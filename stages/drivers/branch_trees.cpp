#include "stages/drivers/branch_trees.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "stages/changes/git_objects.h"
#include "stages/changes/tree_record.h"
#include "stages/sandbox/clone_git_reader.h"
#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kUnfinished = ".new-";
constexpr const char* kTree = "tree";
constexpr const char* kDigest = "digest";
constexpr std::uint64_t kSmall = 4096;

[[noreturn]] void fail(const fs::path& path, int error) {
    throw Error(ErrorCode::kInfrastructure, "cannot keep the tree of a branch as {}: {}", path.native(),
                errnoText(error));
}

std::optional<HeldTree> finishedAt(const fs::path& path) {
    const auto digest = readPlainFile(AT_FDCWD, path / kDigest, kSmall);
    if (!digest) return std::nullopt;
    const auto known = Digest::fromHex(*digest);
    return known ? std::optional(HeldTree{path / kTree, *known}) : std::nullopt;
}

/// A tree that is being written. Locked as long as its writer lives, so that nobody takes it for one that was left.
class Unfinished {
  public:
    explicit Unfinished(const fs::path& root) {
        std::string name = (root / (std::string(kUnfinished) + "XXXXXX")).native();
        if (::mkdtemp(name.data()) == nullptr) fail(root, errno);
        path_ = name;
        lock_ = openFile(path_, O_RDONLY | O_DIRECTORY);
        if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 || ::fchmod(lock_.get(), 0755) != 0) fail(path_, errno);
    }
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    ~Unfinished() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }

    const fs::path& path() const { return path_; }
    /// Of two who finish the same tree, one wins.
    void nameIt(const fs::path& name) const {
        if (::syncfs(lock_.get()) != 0) fail(name, errno);
        std::error_code ignored;
        if (!finishedAt(name)) fs::remove_all(name, ignored);
        if (::rename(path_.c_str(), name.c_str()) != 0 && errno != EEXIST && errno != ENOTEMPTY) fail(name, errno);
        syncDirectory(name.parent_path());
    }

  private:
    fs::path path_;
    FileDescriptor lock_;
};

struct stat lookAt(const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) fail(path, errno);
    return info;
}

bool isBeingWritten(const fs::path& path) {
    const FileDescriptor lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace

BranchTrees::BranchTrees(const DriverContext& context) : root_(context.state / "trees"), project_(context.project) {
    makeDirectoriesDurably(root_);
}

HeldTree BranchTrees::at(const GitWorkTree& git, const GitPlumbing& plumbing, const std::string& commit) const {
    const auto tree = plumbing.treeOf(commit, git.prefix);
    const fs::path name = root_ / tree.value_or("nothing");
    if (auto known = finishedAt(name)) return *known;
    const Unfinished made(root_);
    const struct stat owner = lookAt(project_);
    TreeFiles files(made.path() / kTree, ::geteuid() == 0 ? std::optional(owner.st_uid) : std::nullopt, owner.st_gid);
    if (tree) writeTree(GitObjects(git.directory), commit, fs::path(git.prefix).parent_path(), files);
    const Digest digest = recordTree(TreeRoot(made.path() / kTree), {}).manifest().digest();
    writeFileDurably(made.path() / kDigest, digest.hex());
    made.nameIt(name);
    return {name / kTree, digest};
}

void BranchTrees::tidy(const std::set<fs::path>& wanted) const {
    std::vector<fs::path> all;
    for (const fs::directory_entry& entry : fs::directory_iterator(root_)) all.push_back(entry.path());
    for (const fs::path& path : all) {
        if (wanted.contains(path / kTree)) continue;
        if (path.filename().native().starts_with(kUnfinished) && isBeingWritten(path)) continue;
        std::error_code ignored;
        // Without it the rest is no tree any more, should this end half-way.
        fs::remove(path / kDigest, ignored);
        fs::remove_all(path, ignored);
    }
}

}  // namespace gradus
