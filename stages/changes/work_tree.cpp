#include "stages/changes/work_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "stages/changes/git_objects.h"
#include "stages/changes/git_work_tree.h"
#include "stages/changes/work_tree_walk.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint32_t kDirectoryMode = 0755;
constexpr std::uint64_t kLongestPointer = 1024;
constexpr std::string_view kPointerStart = "version https://git-lfs.github.com/spec/";

/// The tree of a commit, to be asked by path.
class HeadTree {
  public:
    explicit HeadTree(std::vector<GitTreeItem> items) : items_(std::move(items)) {
        std::sort(items_.begin(), items_.end(),
                  [](const GitTreeItem& a, const GitTreeItem& b) { return a.path < b.path; });
        for (const GitTreeItem& item : items_) byPath_.emplace(item.path, &item);
    }

    const std::vector<GitTreeItem>& items() const { return items_; }
    const GitTreeItem* find(std::string_view path) const {
        const auto found = byPath_.find(path);
        return found == byPath_.end() ? nullptr : found->second;
    }
    bool hasBlob(std::string_view path) const {
        const GitTreeItem* item = find(path);
        return item != nullptr && item->isBlob();
    }

  private:
    std::vector<GitTreeItem> items_;
    std::unordered_map<std::string_view, const GitTreeItem*> byPath_;
};

Entry normalised(const Entry& entry) {
    Entry plain = entry;
    if (entry.type == EntryType::kFile) plain.mode = (entry.mode & 0100) != 0 ? 0755 : 0644;
    return plain;
}

Entry headEntry(const GitTreeItem& item, const KnownBlob& blob) {
    if (item.isLink()) return {EntryType::kSymlink, 0777, blob.digest, blob.size};
    return {EntryType::kFile, item.isExecutable() ? 0755U : 0644U, blob.digest, blob.size};
}

bool isSame(const GitTreeItem& item, const WorkTreeWalk::Found& found) {
    const bool isLink = found.entry.type == EntryType::kSymlink;
    if (item.isLink() != isLink || item.id != found.blob) return false;
    return isLink || item.isExecutable() == ((found.entry.mode & 0100) != 0);
}

/// Directories, each with all that it lies in.
class Ancestors {
  public:
    void addThoseOf(std::string_view path) {
        // Files come by directory: most often it is the one of the last.
        for (std::string_view above = parentOf(path); !above.empty() && above != last_; above = parentOf(above))
            if (!all_.emplace(above).second) break;
        last_ = parentOf(path);
    }
    bool contains(const std::string& directory) const { return all_.contains(directory); }

  private:
    static std::string_view parentOf(std::string_view path) {
        const std::size_t slash = path.rfind('/');
        return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
    }

    std::unordered_set<std::string> all_;
    std::string last_;
};

/// From a commit to the files.
class Comparison {
  public:
    Comparison(const WorkTreeRequest& request, const GitObjects& git, HeadTree head, StatCache& cache)
        : request_(request), git_(git), head_(std::move(head)), seen_(head_.items().size()), cache_(cache) {}

    void run(BlobNaming naming, WorkTree& result) {
        WalkRequest walking{.root = request_.project, .excludesFile = request_.excludesFile, .naming = naming};
        walking.tracked.has = [&](const std::string& path) { return head_.hasBlob(path); };
        walking.tracked.hasBeneath = [&](const std::string& path) {
            const GitTreeItem* item = head_.find(path);
            return item != nullptr && item->isDirectory();
        };
        walking.tracked.isSubmodule = [&](const std::string& path) {
            const GitTreeItem* item = head_.find(path);
            return item != nullptr && item->isSubmodule();
        };
        WorkTreeWalk walk(walking, cache_);
        walk.run();
        for (WorkTreeWalk::Found& found : walk.files()) compare(walk, found);
        for (const GitTreeItem& item : head_.items()) judgeUnseen(walk, item);
        judgeDirectories(walk);
        readBefores();
        result.notes = walk.notes();
        finish(result);
    }

  private:
    struct Difference {
        const GitTreeItem* item = nullptr;  ///< what the commit has there, unless it is nothing or a directory
        bool wasDirectory = false;
        std::optional<Entry> after{};
    };

    std::size_t numberOf(const GitTreeItem& item) const {
        return static_cast<std::size_t>(&item - head_.items().data());
    }

    void compare(WorkTreeWalk& walk, WorkTreeWalk::Found& found) {
        const GitTreeItem* item = head_.find(found.path);
        filled_.addThoseOf(found.path);
        if (item != nullptr) seen_[numberOf(*item)] = true;
        if (item != nullptr && item->isBlob() && isSame(*item, found)) return;
        const bool isStored = request_.keep == nullptr || request_.keep->refresh(found.entry.digest);
        if (!isStored) found.entry = walk.keep(found.path, *request_.keep).entry;
        Difference difference{.after = normalised(found.entry)};
        if (item != nullptr && item->isBlob()) difference.item = item;
        difference.wasDirectory = item != nullptr && item->isDirectory();
        differences_[found.path] = difference;
    }

    // What the commit has and the walk did not see: gone, or left out on purpose.
    void judgeUnseen(WorkTreeWalk& walk, const GitTreeItem& item) {
        if (item.isDirectory() || seen_[numberOf(item)]) return;
        const bool isLeftAlone = item.isSubmodule() || walk.isSkipped(item.path);
        if (isLeftAlone) return left_.addThoseOf(item.path);
        if (pathFault(item.path)) return;  // said by the walk where it is there
        Difference difference{.item = &item};
        if (filled_.contains(item.path)) difference.after = Entry{EntryType::kDirectory, kDirectoryMode, {}, 0};
        differences_[item.path] = difference;
    }

    void judgeDirectories(const WorkTreeWalk& walk) {
        for (const GitTreeItem& item : head_.items())
            if (item.isDirectory() && !walk.directories().contains(item.path) && !left_.contains(item.path) &&
                !differences_.contains(item.path) && !pathFault(item.path))
                differences_[item.path] = {.wasDirectory = true};
    }

    void readBefores() {
        std::vector<std::string> ids;
        for (const auto& [path, difference] : differences_)
            if (difference.item != nullptr && !isKnown(difference.item->id)) ids.push_back(difference.item->id);
        std::sort(ids.begin(), ids.end());
        ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        git_.blobs(ids, [&](std::size_t number, std::uint64_t size, ByteSource& content) {
            cache_.remember(ids[number], readBlob(size, content));
        });
    }

    bool isKnown(const std::string& id) {
        const KnownBlob* blob = cache_.blob(id);
        return blob != nullptr && (request_.keep == nullptr || request_.keep->refresh(blob->digest));
    }

    KnownBlob readBlob(std::uint64_t size, ByteSource& content) {
        if (size <= kLongestPointer) {
            const std::string text = readWhole(content);
            return {request_.keep != nullptr ? request_.keep->put(text) : sha256(text), size,
                    text.starts_with(kPointerStart)};
        }
        return {request_.keep != nullptr ? request_.keep->put(content) : digestOf(content), size, false};
    }

    void finish(WorkTree& result) {
        std::vector<PathChange> changes;
        std::vector<std::string> elsewhere;
        for (const auto& [path, difference] : differences_) {
            PathChange change{path, std::nullopt, difference.after};
            if (difference.wasDirectory) change.before = Entry{EntryType::kDirectory, kDirectoryMode, {}, 0};
            const KnownBlob* blob = difference.item != nullptr ? cache_.blob(difference.item->id) : nullptr;
            if (blob != nullptr) change.before = headEntry(*difference.item, *blob);
            const bool isLfs =
                blob != nullptr && blob->isLfsPointer && change.after && change.after->type == EntryType::kFile;
            if (isLfs) elsewhere.push_back(path);
            if (!isLfs && change.before != change.after) changes.push_back(std::move(change));
        }
        if (!elsewhere.empty())
            result.notes.push_back(
                fmt::format("{}{}: kept by git LFS, left alone", printable(elsewhere.front()),
                            elsewhere.size() > 1 ? fmt::format(" and {} more", elsewhere.size() - 1) : std::string()));
        result.differences = ChangeSet(std::move(changes));
    }

    const WorkTreeRequest& request_;
    const GitObjects& git_;
    HeadTree head_;
    std::vector<bool> seen_;  ///< of the commit's items
    StatCache& cache_;
    Ancestors filled_;  ///< directories that hold a file of the walk
    Ancestors left_;    ///< directories of the commit that hold what is left alone
    std::map<std::string, Difference> differences_;
};

// Without a commit: the files themselves.
void readManifest(const WorkTreeRequest& request, StatCache& cache, WorkTree& result) {
    const WalkRequest walking{.root = request.project, .excludesFile = request.excludesFile};
    WorkTreeWalk walk(walking, cache);
    walk.run();
    std::vector<Manifest::Item> items;
    for (const auto& [path, mode] : walk.directories()) {
        if (path.empty()) continue;
        if (pathFault(path))
            result.notes.push_back(fmt::format("{}: left out, as a change cannot have that name", printable(path)));
        else
            items.push_back({path, {EntryType::kDirectory, mode, {}, 0}});
    }
    for (WorkTreeWalk::Found& found : walk.files()) {
        if (S_ISREG(found.mode) && (found.mode & 07000) != 0) {
            result.notes.push_back(fmt::format("{}: left out, as it has a set-user-ID, set-group-ID or sticky bit",
                                               printable(found.path)));
            continue;
        }
        items.push_back({std::move(found.path), found.entry});
    }
    result.notes.insert(result.notes.end(), walk.notes().begin(), walk.notes().end());
    result.manifest = Manifest(std::move(items));
    result.fingerprint.tree = result.manifest.digest();
}

}  // namespace

WorkTree readWorkTree(const WorkTreeRequest& request) {
    WorkTree result;
    StatCache cache(request.cache);
    const auto tree = findWorkTree(request.project);
    std::optional<std::string> commit;
    if (tree) {
        refuseForeign(*tree, request.project);
        const GitObjects git(tree->directory);
        commit = git.findCommit("HEAD");
        if (commit) {
            std::string prefix = tree->prefix;
            if (!prefix.empty()) prefix.pop_back();
            HeadTree head(git.tree(*commit, prefix).value_or(std::vector<GitTreeItem>()));
            Comparison(request, git, std::move(head), cache).run(namingOf(*commit), result);
            result.fingerprint = {*commit, result.differences.digest()};
        }
    }
    if (!commit) readManifest(request, cache, result);
    cache.save();
    return result;
}

Manifest workTreeFiles(const WorkTreeRequest& request) {
    WorkTree result;
    StatCache cache(request.cache);
    if (const auto tree = findWorkTree(request.project)) refuseForeign(*tree, request.project);
    readManifest(request, cache, result);
    return std::move(result.manifest);
}

}  // namespace gradus
