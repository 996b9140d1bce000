#include "stages/changes/hazards.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "stages/changes/link_rule.h"
#include "store/model/error.h"
#include "store/model/name_fold.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint64_t kMostLinkText = 4096;
constexpr std::uint64_t kMostHead = 4096;  // git reads 256 bytes; a larger file is none
constexpr int kMostLookedAt = 1000;        // names of a directory that is asked whether anything of it stays

std::string directoryPart(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string lastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string below(const std::string& directory, const std::string& name) {
    return directory.empty() ? name : directory + "/" + name;
}

bool isLink(const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kSymlink; }
bool isDirectory(const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kDirectory; }

/// The tree with the change in it.
class After {
  public:
    After(const ChangeSet& changes, const Objects& objects, const TreeReader* there)
        : changes_(changes.changes()), objects_(objects), there_(there) {
        for (const PathChange& change : changes_) {
            if (!change.after) continue;
            for (std::string path = change.path; !path.empty(); path = directoryPart(path))
                if (!brought_[directoryPart(path)].insert(lastPart(path)).second) break;
        }
    }

    std::optional<Entry> at(const std::string& path) const {
        if (const PathChange* change = find(path)) return change->after;
        return before(path);
    }
    std::optional<Entry> before(const std::string& path) const {
        try {
            return there_ != nullptr ? there_->at(path) : std::nullopt;
        } catch (const Error&) {  // behind a link, or nothing that a change can hold: none of its own
            return std::nullopt;
        }
    }
    const std::map<std::string, std::set<std::string>>& brought() const { return brought_; }

    /// Something is there afterwards.
    bool stays(const std::string& path) const {
        int left = kMostLookedAt;
        return stays(path, left);
    }
    /// The names that were there before.
    std::vector<std::string> names(const std::string& directory) const {
        try {
            return there_ != nullptr ? there_->names(directory) : std::vector<std::string>();
        } catch (const Error&) {
            return {};
        }
    }
    /// Nothing: it is larger than what is looked for, or not kept any more.
    std::optional<std::string> text(const Entry& entry, std::uint64_t most) const {
        if (entry.size > most || !objects_.contains(entry.digest)) return std::nullopt;
        return objects_.readAll(entry.digest, most);
    }

  private:
    const PathChange* find(const std::string& path) const {
        const auto found = std::lower_bound(changes_.begin(), changes_.end(), path,
                                            [](const PathChange& one, const std::string& p) { return one.path < p; });
        return found != changes_.end() && found->path == path ? &*found : nullptr;
    }
    bool stays(const std::string& path, int& left) const {
        if (const PathChange* change = find(path)) return change->after.has_value();
        if (const auto known = brought_.find(path); known != brought_.end()) return true;
        const std::vector<std::string> inside = names(path);
        if (inside.empty()) return before(path).has_value();
        return std::any_of(inside.begin(), inside.end(),
                           [&](const std::string& name) { return --left < 0 || stays(below(path, name), left); });
    }

    const std::vector<PathChange>& changes_;
    const Objects& objects_;
    const TreeReader* there_;
    std::map<std::string, std::set<std::string>> brought_;  ///< by directory: names that the change has something at
};

bool namesGit(const std::filesystem::path& text) {
    const std::u32string git = foldedName(".git");
    return std::any_of(text.begin(), text.end(),
                       [&](const std::filesystem::path& part) { return foldedName(part.native()) == git; });
}

void judgeLink(const PathChange& change, const After& after, std::set<std::string>& found) {
    if (!isLink(change.after)) return;
    if (isLink(change.before) && change.before->digest == change.after->digest) return;
    const auto text = after.text(*change.after, kMostLinkText);
    const std::string from =
        fmt::format("'{}' is a link to '{}'", printable(change.path), printable(text.value_or("")));
    if (!text)
        found.insert(fmt::format("'{}' is a link whose text is not kept", printable(change.path)));
    else if (std::filesystem::path(*text).is_absolute())
        found.insert(from + ", an absolute path");
    else if (!staysInside(change.path, *text))
        found.insert(from + ", which can lead out of the project");
    else if (namesGit(*text))
        found.insert(from + ", inside of a git repository");
}

bool isHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/// As git's validate_headref does.
bool isGitHead(const std::optional<Entry>& entry, const After& after) {
    if (!entry || isDirectory(entry)) return false;
    const auto text = after.text(*entry, kMostHead);
    if (!text) return false;
    if (isLink(entry)) return text->starts_with("refs/");
    if (text->starts_with("ref:")) {
        const std::size_t begin = text->find_first_not_of(" \t\n\v\f\r", 4);
        return begin != std::string::npos && text->compare(begin, 5, "refs/") == 0;
    }
    return text->size() >= 40 && std::all_of(text->begin(), text->begin() + 40, isHexDigit);
}

/// What git obeys in a repository: where `path` is such a thing, the directory that it would be one of.
std::optional<std::string> repositoryOf(const std::string& path) {
    constexpr std::array kNames{"head", "config", "config.worktree", "commondir"};
    const std::string name = lastPart(path);
    const std::u32string folded = foldedName(name);
    if (std::any_of(kNames.begin(), kNames.end(), [&](const char* one) { return folded == foldedName(one); }))
        return directoryPart(path);
    if (foldedName(lastPart(directoryPart(path))) == foldedName("hooks")) return directoryPart(directoryPart(path));
    return std::nullopt;
}

// A file `HEAD` that git takes for one is told of even where the rest is not there yet: the rest can come later, in
// files that nothing is to be said about.
void judgeRepository(const PathChange& change, const After& after, std::set<std::string>& found) {
    if (!change.after || isDirectory(change.after) || change.after == change.before) return;
    const auto directory = repositoryOf(change.path);
    if (!directory) return;
    const bool isHead = foldedName(lastPart(change.path)) == foldedName("HEAD");
    if (!isGitHead(isHead ? change.after : after.at(below(*directory, "HEAD")), after)) return;
    const std::string where = directory->empty() ? "the project's top directory" : "'" + printable(*directory) + "'";
    found.insert(fmt::format("'{}' makes git take {} for a repository and obey its configuration",
                             printable(change.path), where));
}

void judgeName(const PathChange& change, const After& after, std::set<std::string>& found) {
    if (!change.after || after.before(change.path)) return;
    for (std::string_view rest = change.path; !rest.empty();) {
        const CodePoint point = firstCodePoint(rest);
        if (isUnsafe(point)) {
            found.insert(fmt::format("the name '{}' has characters that hide or reorder text", printable(change.path)));
            return;
        }
        rest.remove_prefix(point.length);
    }
}

/// Names that are new in a directory, held against all that are in it afterwards.
void judgeNames(const std::string& directory, const std::set<std::string>& brought, const After& after,
                std::set<std::string>& found) {
    const std::vector<std::string> before = after.names(directory);
    std::set<std::string> fresh = brought;
    for (const std::string& name : before) fresh.erase(name);
    if (fresh.empty()) return;
    std::map<std::u32string, std::set<std::string>> alike;
    for (const std::string& name : brought) alike[foldedName(name)].insert(name);
    for (const std::string& name : before)
        if (const auto same = alike.find(foldedName(name)); same != alike.end())
            if (after.stays(below(directory, name))) same->second.insert(name);
    for (const std::string& name : fresh)
        for (const std::string& other : alike.at(foldedName(name)))
            if (other != name)
                found.insert(fmt::format("'{}' and '{}' are one name where case or Unicode form is not told apart",
                                         printable(std::min(below(directory, name), below(directory, other))),
                                         printable(std::max(below(directory, name), below(directory, other)))));
}

}  // namespace

std::vector<std::string> hazardsOf(const ChangeSet& changes, const Objects& objects, const TreeReader* there) {
    const After after(changes, objects, there);
    std::set<std::string> found;
    for (const PathChange& change : changes.changes()) {
        judgeLink(change, after, found);
        judgeRepository(change, after, found);
        judgeName(change, after, found);
    }
    for (const auto& [directory, brought] : after.brought()) judgeNames(directory, brought, after, found);
    return {found.begin(), found.end()};
}

}  // namespace gradus
