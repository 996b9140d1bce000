#include <unistd.h>

#include "pipeline/service/service.h"
#include "stages/changes/git_work_tree.h"
#include "stages/drivers/git_plumbing.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 31;

/// Contents as files, for git to read; gone with this.
class Desk {
  public:
    explicit Desk(const fs::path& state) : directory_(state / fmt::format("export-{}", ::getpid())) {
        fs::remove_all(directory_);
        makeDirectories(directory_);
    }
    Desk(const Desk&) = delete;
    Desk& operator=(const Desk&) = delete;
    ~Desk() {
        std::error_code ignored;
        fs::remove_all(directory_, ignored);
    }
    fs::path put(const std::string& bytes) {
        fs::path file = directory_ / std::to_string(++count_);
        writeFileDurably(file, bytes, 0600);
        return file;
    }
    fs::path index() const { return directory_ / "index"; }

  private:
    fs::path directory_;
    int count_ = 0;
};

bool isFile(const std::optional<Entry>& entry) { return entry && entry->type != EntryType::kDirectory; }

std::string modeOf(const Entry& entry) {
    if (entry.type == EntryType::kSymlink) return "120000";
    return (entry.mode & 0100) != 0 ? "100755" : "100644";
}

/// What the change expects must be what the commit has: another ground would make another change of it.
void requireGround(const GitPlumbing& git, const GitEntries& entries, const std::string& prefix,
                   const ChangeSet& changes) {
    std::vector<const PathChange*> expected;
    std::vector<std::string> ids;
    const auto refuse = [](const std::string& path) {
        throw Error(ErrorCode::kNotAllowed, "the change was made on a '{}' that is in no commit", path)
            .hint("export it as a patch, or commit what it was made on and submit again");
    };
    for (const PathChange& change : changes.changes()) {
        const auto found = entries.find(prefix + change.path);
        if (!isFile(change.before) && found != entries.end() && isFile(change.after)) refuse(change.path);
        if (!isFile(change.before)) continue;
        if (found == entries.end() || found->second.mode != modeOf(*change.before)) refuse(change.path);
        expected.push_back(&change);
        ids.push_back(found->second.id);
    }
    git.readBlobs(ids, [&](std::size_t which, std::string_view bytes) {
        if (sha256(bytes) != expected.at(which)->before->digest) refuse(expected[which]->path);
    });
}

/// git makes room by itself: a file below another one would take that one away without a word.
void requireRoom(GitEntries entries, const GitPlumbing::NewCommit& made) {
    for (const std::string& path : made.removed) entries.erase(path);
    for (const auto& [path, entry] : made.set) entries[path] = entry;
    const auto refuse = [](const std::string& path, const std::string& other) {
        throw Error(ErrorCode::kNotAllowed,
                    "the change does not fit the commit it was made on: '{}' cannot be there beside '{}'",
                    printable(other), printable(path))
            .hint("submit the change again, made on what the project is now");
    };
    for (const auto& [path, entry] : made.set) {
        const auto below = entries.lower_bound(path + "/");
        if (below != entries.end() && below->first.starts_with(path + "/")) refuse(path, below->first);
        for (std::size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0;
             slash = path.rfind('/', slash - 1))
            if (entries.contains(path.substr(0, slash))) refuse(path.substr(0, slash), path);
    }
}

std::string messageOf(const ChangeView& view, const std::string& handle) {
    std::string text = view.change.title.value_or("a change") + "\n";
    if (!view.change.message.empty()) text += "\n" + view.change.message;
    if (!text.ends_with('\n')) text += '\n';
    return text + "\nGradus-Change: " + handle + "\n";
}

}  // namespace

ExportedCommit Service::exportCommit(const fs::path& directory, const ChangeView& view) {
    const fs::path root = projectRoot(directory);
    const auto tree = findWorkTree(root);
    if (!tree || view.base.commit.empty())
        throw Error(ErrorCode::kNotAllowed, "the change was made on no commit, so it cannot follow one")
            .hint("export it as a patch");
    refuseForeign(*tree, root);
    RealFileOperations files;
    GitPlumbing git(*tree, files);
    const GitEntries entries = git.entriesOf(view.base.commit);
    requireGround(git, entries, tree->prefix, view.changes);
    Desk desk(state().root);
    const Objects store = objects();
    const std::string handle = fmt::format("{}.{}", changeHandle(view.change.id), view.change.revision);
    GitPlumbing::NewCommit made{view.base.commit,
                                {},
                                {},
                                messageOf(view, handle),
                                view.change.author.empty() ? "Gradus <gradus@localhost>" : view.change.author,
                                toMillis(view.change.submittedAt) / 1000};
    std::vector<fs::path> contents;
    std::vector<const PathChange*> written;
    for (const PathChange& change : view.changes.changes()) {
        if (isFile(change.after)) {
            contents.push_back(desk.put(store.readAll(change.after->digest, kLargest)));
            written.push_back(&change);
        } else if (isFile(change.before)) {
            made.removed.push_back(tree->prefix + change.path);
        }
    }
    const std::vector<std::string> blobs = git.writeBlobs(contents);
    for (std::size_t i = 0; i < written.size(); ++i)
        made.set[tree->prefix + written[i]->path] = {modeOf(*written[i]->after), blobs.at(i)};
    requireRoom(entries, made);
    ExportedCommit commit{git.writeCommit(made, desk.index()), "gradus/" + handle};
    // Of the same time as the change: made again, it is the same commit.
    const std::string ref = "refs/heads/" + commit.branch;
    if (git.commitAt(ref) != commit.id && !git.moveRef(ref, std::nullopt, commit.id, "gradus: export"))
        throw Error(ErrorCode::kNotAllowed, "there is another branch '{}' already", commit.branch)
            .hint(fmt::format("git branch -D {}, then again", commit.branch));
    return commit;
}

}  // namespace gradus
