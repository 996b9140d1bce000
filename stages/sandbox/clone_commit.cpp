#include "stages/sandbox/clone_commit.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "stages/changes/git_work_tree.h"
#include "stages/sandbox/clone_git_reader.h"
#include "stages/sandbox/clone_tree_writer.h"
#include "stages/sandbox/clone_view.h"
#include "store/file.h"
#include "store/model/digest.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kUnfinished = ".unfinished-";
constexpr int kMostAttempts = 8;  // to have a tree that a collector keeps taking away

struct Owner {
    uid_t uid;
    gid_t gid;
};

Owner ownerOf(const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0)
        throw Error(ErrorCode::kNotFound, "{} cannot be looked at: {}", path.native(), errnoText(errno));
    return {info.st_uid, info.st_gid};
}

struct Repository {
    fs::path git;     ///< the directory or file named .git
    fs::path prefix;  ///< of the project in the work tree, empty at its top
};

Repository findRepository(const fs::path& project) {
    for (fs::path at = project;; at = at.parent_path()) {
        std::error_code error;
        if (fs::exists(fs::symlink_status(at / ".git", error))) {
            const fs::path prefix = at == project ? fs::path() : project.lexically_relative(at);
            return {at / ".git", prefix};
        }
        if (at == "/" || at.empty())
            throw Error(ErrorCode::kNotFound, "{} lies in no git repository", project.native())
                .hint("leave the commit out to take the directory as it is");
    }
}

/// A directory that holds an unfinished tree. Locked as long as its maker lives: whoever gets the lock later may remove
/// it.
class Unfinished {
  public:
    explicit Unfinished(const fs::path& cache) {
        // Between making and locking somebody may have taken it for an abandoned one.
        do {
            std::string name = (cache / (std::string(kUnfinished) + "XXXXXX")).native();
            if (::mkdtemp(name.data()) == nullptr)
                throw Error(ErrorCode::kInfrastructure, "cannot write in {}: {}", cache.native(), errnoText(errno));
            path_ = name;
            lock_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            if (!lock_ && errno != ENOENT)
                throw Error(ErrorCode::kInfrastructure, "cannot open {}: {}", path_.native(), errnoText(errno));
        } while (!lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 || !isThere(path_));
    }
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    ~Unfinished() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }

    fs::path tree() const { return path_ / "tree"; }
    fs::path notes() const { return path_ / "notes"; }
    int descriptor() const { return lock_.get(); }

  private:
    fs::path path_;
    FileDescriptor lock_;
};

void removeAbandoned(const fs::path& cache) {
    for (const fs::directory_entry& entry : fs::directory_iterator(cache)) {
        if (!entry.path().filename().native().starts_with(kUnfinished)) continue;
        const FileDescriptor lock(::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
        std::error_code ignored;
        fs::remove_all(entry.path(), ignored);
    }
}

// One word per tree: the commit, whose files they are, and which part of the repository.
std::string cacheName(const std::string& commit, const Owner& owner, const fs::path& prefix) {
    const std::string part = prefix.empty() ? "" : "-" + sha256(prefix.native()).hex().substr(0, 16);
    return fmt::format("{}-{}{}", commit, owner.uid, part);
}

std::vector<std::string> readNotes(const fs::path& file) {
    std::vector<std::string> notes;
    const std::string text = readSmallFile(file, 1U << 20, "the notes of a cached commit");
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        notes.push_back(text.substr(start, end - start));
        start = end + 1;
    }
    return notes;
}

void writeNotes(const fs::path& file, const std::vector<std::string>& notes) {
    const FileDescriptor out = openFile(file, O_WRONLY | O_CREAT | O_EXCL);
    for (const std::string& note : notes) writeAll(out.get(), note + "\n", file);
}

// One directory under one name, so that one rename makes all of it appear.
void publish(const Unfinished& made, const fs::path& finished) {
    if (::syncfs(made.descriptor()) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot keep {}: {}", finished.native(), errnoText(errno));
    const fs::path staged = made.tree().parent_path() / "whole";
    fs::create_directory(staged);
    fs::rename(made.tree(), staged / "tree");
    fs::rename(made.notes(), staged / "notes");
    syncDirectory(staged);
    if (::rename(staged.c_str(), finished.c_str()) != 0 && errno != EEXIST && errno != ENOTEMPTY)
        throw Error(ErrorCode::kInfrastructure, "cannot keep {}: {}", finished.native(), errnoText(errno));
    syncDirectory(finished.parent_path());
}

bool isSame(int directory, const fs::path& path) {
    struct stat held {};
    struct stat there {};
    return ::fstat(directory, &held) == 0 && ::lstat(path.c_str(), &there) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino;
}

// Ours as long as it is open; nothing if somebody took it away before we had it. Its time says when it was last wanted.
FileDescriptor useTree(const fs::path& finished) {
    FileDescriptor directory(::open(finished.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory || ::flock(directory.get(), LOCK_SH) != 0 || !isSame(directory.get(), finished)) return {};
    ::futimens(directory.get(), nullptr);
    return directory;
}

Time lastUse(int directory) {
    struct stat info {};
    if (::fstat(directory, &info) != 0) return Time::max();
    return fromMillis(static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000 + info.st_mtim.tv_nsec / 1'000'000);
}

}  // namespace

std::uint64_t collectCommits(const fs::path& cacheDirectory, Time before,
                             const std::function<bool(const std::string&)>& isNeeded, const fs::path& trash) {
    std::uint64_t count = 0;
    std::error_code error;
    for (fs::directory_iterator it(cacheDirectory, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
        const std::string name = it->path().filename();
        if (name.starts_with('.')) continue;  // unfinished: removeAbandoned()
        const FileDescriptor tree(::open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!tree || lastUse(tree.get()) >= before || ::flock(tree.get(), LOCK_EX | LOCK_NB) != 0) continue;
        if (lastUse(tree.get()) >= before || isNeeded(name.substr(0, name.find('-')))) continue;
        const fs::path gone = trash / fmt::format("commit-{}.{}", name, ::getpid());
        if (::rename(it->path().c_str(), gone.c_str()) == 0) ++count;
    }
    return count;
}

MaterialisedCommit materialise(const fs::path& project, const std::string& commit, const fs::path& cacheDirectory) {
    const Repository repository = findRepository(project);
    refuseForeign(repository.git, project);
    const GitObjects reader(repository.git);
    const std::string id = reader.resolveCommit(commit);
    const Owner owner = ownerOf(project);
    const fs::path finished = cacheDirectory / cacheName(id, owner, repository.prefix);
    FileDescriptor use;
    for (int attempt = 0; !(use = useTree(finished)); ++attempt) {
        if (attempt == kMostAttempts)
            throw Error(ErrorCode::kInfrastructure, "{} cannot be used: {}", finished.native(), errnoText(errno));
        makeDirectories(cacheDirectory);
        removeAbandoned(cacheDirectory);
        const Unfinished made(cacheDirectory);
        TreeFiles files(made.tree(), ::geteuid() == 0 ? std::optional(owner.uid) : std::nullopt, owner.gid);
        writeTree(reader, id, repository.prefix, files);
        writeNotes(made.notes(), files.notes());
        publish(made, finished);
    }
    return {finished / "tree", id, readNotes(finished / "notes"), std::move(use)};
}

}  // namespace gradus
