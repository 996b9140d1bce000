#include "stages/changes/source_tree.h"

#include <algorithm>
#include <map>

#include "stages/changes/tree_record.h"
#include "store/model/canonical.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

/// Walks what lies in a directory, links not followed.
class LeftOverWalk {
  public:
    LeftOverWalk(const fs::path& root, const OutputPatterns& patterns, const Manifest& tree)
        : root_(root), patterns_(patterns) {
        for (const Manifest::Item& item : tree.items()) known_.insert(item.path);
    }

    /// Whether all of the directory is left over.
    bool visit(const std::string& directory) {
        bool isAll = !directory.empty();
        bool isAny = false;
        std::vector<std::string> here;
        std::error_code error;
        for (fs::directory_iterator it(root_ / directory, error), end; !error && it != end; it.increment(error)) {
            const std::string name = it->path().filename();
            if (name == ".git") continue;
            const std::string path = directory.empty() ? name : directory + "/" + name;
            const bool isOver = isLeftOver(path, it->symlink_status().type());
            isAll = isAll && isOver;
            isAny = isAny || isOver;
            if (isOver) here.push_back(path);
        }
        const bool isWhole = isAll && isAny && !known_.contains(directory);
        if (!isWhole) found_.insert(found_.end(), here.begin(), here.end());
        return isWhole;
    }

    std::vector<std::string> take() { return std::move(found_); }

  private:
    bool isLeftOver(const std::string& path, fs::file_type type) {
        if (type == fs::file_type::directory) return patterns_.mayMatchBelow(path) && visit(path);
        return !known_.contains(path) && patterns_.matches(path);
    }

    const fs::path& root_;
    const OutputPatterns& patterns_;
    std::set<std::string> known_;
    std::vector<std::string> found_;
};

bool isExecutable(const Entry& entry) { return (entry.mode & 0100) != 0; }

}  // namespace

bool PartialReader::isLeftOut(const std::string& path) const {
    if (without_.empty()) return false;
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
        if (without_.contains(path.substr(0, slash))) return true;
    return without_.contains(path);
}

std::optional<Entry> PartialReader::at(const std::string& path) const {
    return isLeftOut(path) ? std::nullopt : whole_.at(path);
}

std::optional<Entry> PartialReader::keep(const std::string& path, Objects& objects) const {
    return isLeftOut(path) ? std::nullopt : whole_.keep(path, objects);
}

std::vector<std::string> PartialReader::names(const std::string& directory) const {
    std::vector<std::string> names = whole_.names(directory);
    std::erase_if(
        names, [&](const std::string& name) { return isLeftOut(directory.empty() ? name : directory + "/" + name); });
    return names;
}

Manifest filesIn(const fs::path& directory, const std::vector<std::string>& leftOut) {
    const std::set<std::string> without(leftOut.begin(), leftOut.end());
    RecordRequest request;
    request.isLeftOut = [&](const std::string& path) {
        return without.contains(path) || fs::path(path).filename() == ".git";
    };
    // What no tree can hold is no part of it either.
    request.strange = [](const std::string&, const std::string&) {};
    return recordTree(TreeRoot(directory), request).manifest();
}

Digest sourceDigest(const Manifest& tree, const ChangeSet& changes) {
    std::map<std::string, Entry> files;
    for (const Manifest::Item& item : tree.items()) files[item.path] = item.entry;
    for (const PathChange& change : changes.changes()) {
        files.erase(change.path);
        if (change.after) files[change.path] = *change.after;
    }
    std::erase_if(files, [](const auto& file) { return file.second.type == EntryType::kDirectory; });
    Canonical form("gradus.source.1");
    form.list(files.size());
    for (const auto& [path, entry] : files)
        form.text(path)
            .text(nameOf(kEntryTypes, entry.type))
            .number(entry.type == EntryType::kFile && isExecutable(entry) ? 1 : 0)
            .digest(entry.digest);
    return form.hash();
}

std::vector<std::string> leftOvers(const fs::path& directory, const OutputPatterns& patterns, const Manifest& tree) {
    LeftOverWalk walk(directory, patterns, tree);
    walk.visit("");
    return walk.take();
}

}  // namespace gradus
