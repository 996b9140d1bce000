#include "stages/changes/change_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "stages/changes/file_scan.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint32_t kDirectoryMode = 0755;
constexpr std::uint64_t kLongestPointer = 1024;
constexpr std::string_view kPointerStart = "version https://git-lfs.github.com/spec/";
constexpr int kDeepestJson = 8;

using Tree = std::map<std::string, GitTreeItem>;

Tree treeOf(const GitObjects& git, const std::string& commit, const std::filesystem::path& prefix) {
    auto items = git.tree(commit, prefix);
    if (!items)
        throw Error(ErrorCode::kNotFound, "the commit {} has no directory '{}'", commit, prefix.native())
            .hint("the project was elsewhere then, or the repository is damaged: git fsck");
    Tree tree;
    for (GitTreeItem& item : *items) tree.emplace(item.path, std::move(item));
    return tree;
}

/// Tree against tree.
class TreeComparison {
  public:
    TreeComparison(const GitObjects& git, Objects& objects) : git_(git), objects_(objects) {}

    void compare(const Tree& from, const Tree& to, FoundChange& found) {
        for (const auto& [path, item] : from) note(path, &item, to.contains(path) ? &to.at(path) : nullptr, found);
        for (const auto& [path, item] : to)
            if (!from.contains(path)) note(path, nullptr, &item, found);
        readBlobs();
        std::vector<PathChange> changes;
        for (const Pair& pair : pairs_) {
            PathChange change{pair.path, entryOf(pair.from), entryOf(pair.to)};
            if (isElsewhere(pair.from) || isElsewhere(pair.to))
                found.notes.push_back(fmt::format("{}: kept by git LFS, left alone", printable(pair.path)));
            else if (change.before != change.after)
                changes.push_back(std::move(change));
        }
        found.changes = ChangeSet(std::move(changes));
    }

  private:
    struct Pair {
        std::string path;
        const GitTreeItem* from = nullptr;
        const GitTreeItem* to = nullptr;
    };
    struct Blob {
        Digest digest;
        std::uint64_t size = 0;
        bool isElsewhere = false;
    };

    void note(const std::string& path, const GitTreeItem* from, const GitTreeItem* to, FoundChange& found) {
        if (from != nullptr && to != nullptr && from->id == to->id && from->mode == to->mode) return;
        if ((from != nullptr && from->isSubmodule()) || (to != nullptr && to->isSubmodule()))
            return found.notes.push_back(fmt::format("{}: a submodule, left alone", printable(path)));
        const bool wasDirectory = from != nullptr && from->isDirectory();
        const bool isDirectory = to != nullptr && to->isDirectory();
        // A directory that stays, or comes with what it holds, is no change of its own.
        if (isDirectory && (wasDirectory || from == nullptr)) return;
        pairs_.push_back({path, from, to});
    }

    void readBlobs() {
        std::vector<std::string> ids;
        for (const Pair& pair : pairs_)
            for (const GitTreeItem* item : {pair.from, pair.to})
                if (item != nullptr && item->isBlob() && blobs_.try_emplace(item->id).second) ids.push_back(item->id);
        git_.blobs(ids, [&](std::size_t number, std::uint64_t size, ByteSource& content) {
            Blob& blob = blobs_[ids[number]];
            blob.size = size;
            if (size > kLongestPointer) {
                blob.digest = objects_.put(content);
                return;
            }
            const std::string text = readWhole(content);
            blob.digest = objects_.put(text);
            blob.isElsewhere = text.starts_with(kPointerStart);
        });
    }

    bool isElsewhere(const GitTreeItem* item) const {
        return item != nullptr && item->isBlob() && blobs_.at(item->id).isElsewhere;
    }

    std::optional<Entry> entryOf(const GitTreeItem* item) const {
        if (item == nullptr) return std::nullopt;
        if (item->isDirectory()) return Entry{EntryType::kDirectory, kDirectoryMode, {}, 0};
        const Blob& blob = blobs_.at(item->id);
        if (item->isLink()) return Entry{EntryType::kSymlink, 0777, blob.digest, blob.size};
        return Entry{EntryType::kFile, item->isExecutable() ? 0755U : 0644U, blob.digest, blob.size};
    }

    const GitObjects& git_;
    Objects& objects_;
    std::vector<Pair> pairs_;
    std::map<std::string, Blob> blobs_;
};

bool isFile(const std::optional<Entry>& entry) { return entry && entry->type != EntryType::kDirectory; }

/// Of a key that is given twice the parser would take the last and say nothing.
class ListGuard {
  public:
    bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
        using Event = nlohmann::json::parse_event_t;
        if (depth > kDeepestJson) throw Error(ErrorCode::kUsage, "the list of files is nested too deeply");
        if (event == Event::object_start) keys_.emplace_back();
        if (event == Event::object_end) keys_.pop_back();
        if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second)
            throw Error(ErrorCode::kUsage, "the list of files has the key '{}' twice in one item",
                        printable(parsed.get<std::string>()))
                .hint("give it once");
        return true;
    }

  private:
    std::vector<std::set<std::string>> keys_;
};

nlohmann::json parseList(std::string_view text) {
    ListGuard guard;
    const auto checked = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
        return guard(depth, event, parsed);
    };
    try {
        auto json = nlohmann::json::parse(text, checked);
        if (json.is_array()) return json;
    } catch (const nlohmann::json::parse_error& e) {
        throw Error(ErrorCode::kUsage, "the list of files is not JSON: byte {}", e.byte);
    }
    throw Error(ErrorCode::kUsage, "the list of files is no list")
        .hint(R"(write [{"relative_path": "a.txt", "operation": "create", "new_content": "…"}])");
}

void requireKnownKeys(const nlohmann::json& item) {
    constexpr std::array<std::string_view, 3> kKnown{"relative_path", "operation", "new_content"};
    if (!item.is_object()) return;
    for (const auto& [key, value] : item.items())
        if (std::ranges::find(kKnown, key) == kKnown.end())
            throw Error(ErrorCode::kUsage, "the key '{}' is not known; known are {}", printable(key),
                        fmt::join(kKnown, ", "));
}

/// One item of the list against the tree; throws Error with the reason.
PathChange changeOf(const nlohmann::json& item, const TreeReader& tree, Objects& objects) {
    const auto text = [&](const char* key) -> std::optional<std::string> {
        if (!item.is_object() || !item.contains(key) || item[key].is_null()) return std::nullopt;
        if (!item[key].is_string()) throw Error(ErrorCode::kUsage, "'{}' is no text", key);
        return item[key].get<std::string>();
    };
    requireKnownKeys(item);
    const std::string path = text("relative_path").value_or("");
    if (const auto fault = pathFault(path))
        throw Error(ErrorCode::kUsage, "the path cannot be part of a change: {}", *fault);
    const std::string operation = text("operation").value_or("");
    const auto content = text("new_content");
    PathChange change{path, tree.keep(path, objects), std::nullopt};
    if (change.before && change.before->type != EntryType::kFile)
        throw Error(ErrorCode::kUsage, "it is a {}, not a file", nameOf(kEntryTypes, change.before->type));
    if (operation != "create" && operation != "modify" && operation != "delete")
        throw Error(ErrorCode::kUsage, "the operation is '{}', not create, modify or delete", printable(operation));
    if (operation == "create" && change.before) throw Error(ErrorCode::kUsage, "it is there already");
    if (operation != "create" && !change.before) throw Error(ErrorCode::kUsage, "it is not there");
    if (operation == "delete") return change;
    if (!content) throw Error(ErrorCode::kUsage, "'new_content' is missing");
    change.after =
        Entry{EntryType::kFile, change.before ? change.before->mode : 0644U, objects.put(*content), content->size()};
    return change;
}

/// Why nothing can lie at `path` once all of the list is done. A file that makes room for it becomes a directory, as a
/// patch would have it.
std::optional<std::string> parentFault(const std::string& path, std::map<std::string, PathChange>& changes,
                                       const TreeReader& tree) {
    for (std::size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/', slash - 1)) {
        const std::string parent = path.substr(0, slash);
        const auto listed = changes.find(parent);
        const bool makesRoom =
            listed != changes.end() && (!listed->second.after || listed->second.after->type == EntryType::kDirectory);
        if (makesRoom) {
            listed->second.after = Entry{EntryType::kDirectory, kDirectoryMode, {}, 0};
            continue;
        }
        const auto there = listed != changes.end() ? listed->second.after : tree.at(parent);
        if (!there) continue;
        if (there->type == EntryType::kDirectory) return std::nullopt;
        return fmt::format("its parent '{}' is a {}", printable(parent),
                           there->type == EntryType::kSymlink ? "symbolic link" : "file");
    }
    return std::nullopt;
}

/// One item of the list, for people.
std::string itemText(const nlohmann::json& list, std::size_t number) {
    const auto& item = list[number];
    const bool named = item.is_object() && item.contains("relative_path") && item["relative_path"].is_string();
    return fmt::format("item {}{}", number + 1,
                       named ? ", " + printable(item["relative_path"].get<std::string>()) : "");
}

}  // namespace

FoundChange changeOfCommits(const GitObjects& git, const std::filesystem::path& prefix,
                            const std::optional<std::string>& from, const std::string& to, Objects& objects) {
    FoundChange found;
    const GitCommit commit = git.commit(to);
    found.title = commit.title();
    const std::size_t rest = commit.message.find_first_not_of('\n', found.title.size());
    if (rest != std::string::npos) found.message = commit.message.substr(rest);
    found.author = commit.author;
    const Tree before = from ? treeOf(git, *from, prefix) : Tree();
    TreeComparison(git, objects).compare(before, treeOf(git, to, prefix), found);
    found.base = {from.value_or(""), from ? ChangeSet().digest() : Manifest().digest()};
    return found;
}

FoundChange changeOfFiles(std::string_view json, const TreeReader& tree, Objects& objects) {
    FoundChange found;
    std::map<std::string, PathChange> changes;
    std::map<std::string, std::size_t> numbers;
    const nlohmann::json list = parseList(json);
    const auto attempt = [&](std::size_t number, const auto& act) {
        try {
            act();
        } catch (const Error& e) {
            if (e.code() == ErrorCode::kInfrastructure || e.code() == ErrorCode::kBusy) throw;
            found.faults.push_back(fmt::format("{}: {}", itemText(list, number), e.what()));
        }
    };
    for (std::size_t i = 0; i < list.size(); ++i)
        attempt(i, [&] {
            PathChange change = changeOf(list[i], tree, objects);
            const std::string path = change.path;
            if (!changes.emplace(path, std::move(change)).second)
                throw Error(ErrorCode::kUsage, "'{}' is named twice", printable(path));
            numbers[path] = i;
        });
    // Only now is it known what else the list makes and takes away.
    for (const auto& [path, number] : numbers)
        if (isFile(changes.at(path).after))
            attempt(number, [&, &path = path] {
                if (const auto fault = parentFault(path, changes, tree)) throw Error(ErrorCode::kUsage, "{}", *fault);
            });
    if (!found.faults.empty()) return found;
    std::vector<PathChange> all;
    for (auto& [path, change] : changes)
        if (change.before != change.after) all.push_back(std::move(change));
    found.changes = ChangeSet(std::move(all));
    return found;
}

ChangeSet withContents(const ChangeSet& changes, const TreeReader& before, Objects& objects) {
    const auto isStored = [&](const std::optional<Entry>& side) {
        return !side || side->type == EntryType::kDirectory || objects.refresh(side->digest);
    };
    std::vector<PathChange> kept;
    for (PathChange change : changes.changes()) {
        if (!isStored(change.after))
            throw Error(ErrorCode::kDamaged, "the new content of '{}' is not stored", printable(change.path));
        if (change.beforeKnown && !isStored(change.before) && before.keep(change.path, objects) != change.before) {
            change.before.reset();
            change.beforeKnown = false;
        }
        kept.push_back(std::move(change));
    }
    return ChangeSet(std::move(kept));
}

}  // namespace gradus
