#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "stages/changes/git_blob_id.h"
#include "stages/changes/patch.h"
#include "stages/changes/patch_binary.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint32_t kTypeBits = 0170000;
constexpr std::uint32_t kRegular = 0100000;
constexpr std::uint32_t kLink = 0120000;
constexpr std::uint32_t kGitlink = 0160000;
constexpr std::uint32_t kDirectoryMode = 0755;
constexpr std::size_t kFullId = 40;
constexpr std::size_t kMostCompared = 20'000'000;  // lines, to find the places of all hunks of a file

/// Why one file does not fit. Caught where the file's faults are listed, and nowhere else.
struct Misfit {
    std::string reason;
    std::size_t hunk = 0;
    std::size_t line = 0;
};

/// What is at a path while the patch is applied.
struct Item {
    std::optional<Entry> entry{};  ///< its digest and size count only if `text` is absent
    std::optional<std::string> text{};
};

struct TextLine {
    std::string_view text;
    bool endsInNewline = true;
};

std::vector<TextLine> linesOf(std::string_view text) {
    std::vector<TextLine> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        lines.push_back({text.substr(0, end), end != std::string_view::npos});
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

/// The old lines are walked once; each hunk says where it belongs.
class HunkApplier {
  public:
    explicit HunkApplier(std::string_view old) : old_(linesOf(old)) {}

    std::string apply(const std::vector<PatchHunk>& hunks) {
        for (std::size_t i = 0; i < hunks.size(); ++i) apply(hunks[i], i + 1);
        while (at_ < old_.size()) put(old_[at_++], 0, 0);
        return std::move(made_);
    }

    /// One sentence for each hunk that is not where it says.
    const std::vector<std::string>& moved() const { return moved_; }

  private:
    void apply(const PatchHunk& hunk, std::size_t number) {
        const std::size_t start = placeOf(hunk, number);
        if ((hunk.oldCount > 0 && hunk.oldStart == 0) || start < at_ || start > old_.size())
            throw Misfit{fmt::format("it begins at line {}, and the file has {}", hunk.oldStart, old_.size()), number,
                         hunk.line};
        while (at_ < start) put(old_[at_++], number, hunk.line);
        for (const PatchHunk::Line& line : hunk.lines) {
            if (line.kind != '+') match(line, number);
            if (line.kind == ' ') put(old_[at_], number, line.line);
            if (line.kind != '+') ++at_;
            if (line.kind == '+') put({line.text, line.endsInNewline}, number, line.line);
        }
    }

    // Where the hunk says, unless its lines are in one other place and nowhere else. After a hunk that was moved, where
    // it says is no better than any other place.
    std::size_t placeOf(const PatchHunk& hunk, std::size_t number) {
        // Of nothing, the line after which it comes.
        const std::size_t said = hunk.oldCount == 0 ? hunk.oldStart : hunk.oldStart - 1;
        const auto isKept = [](const PatchHunk::Line& line) { return line.kind == ' '; };
        const bool hasContext = std::any_of(hunk.lines.begin(), hunk.lines.end(), isKept);
        const bool fitsThere = hunk.oldStart > 0 && said >= at_ && fits(hunk, said);
        if (!hasContext || (fitsThere && moved_.empty())) return said;
        std::vector<std::size_t> places;
        for (std::size_t at = at_; at + hunk.oldCount <= old_.size() && places.size() < 2; ++at)
            if (fits(hunk, at)) places.push_back(at);
        if (places.size() > 1)
            throw Misfit{fmt::format("its lines are in the file more than once, at lines {} and {}", places[0] + 1,
                                     places[1] + 1),
                         number, hunk.line};
        if (places.empty() || places[0] == said) return said;
        const std::size_t by = std::max(places[0], said) - std::min(places[0], said);
        moved_.push_back(fmt::format("hunk {} fits at line {}, {} line{} {} than the patch says", number, places[0] + 1,
                                     by, by == 1 ? "" : "s", places[0] > said ? "further down" : "further up"));
        return places[0];
    }

    bool fits(const PatchHunk& hunk, std::size_t at) {
        for (const PatchHunk::Line& line : hunk.lines) {
            if (line.kind == '+') continue;
            if (++compared_ > kMostCompared || at >= old_.size()) return false;
            const TextLine& there = old_[at++];
            if (there.text != line.text || there.endsInNewline != line.endsInNewline) return false;
        }
        return true;
    }

    void match(const PatchHunk::Line& line, std::size_t number) const {
        if (at_ >= old_.size()) throw Misfit{"the file ends before the hunk does", number, line.line};
        const TextLine& there = old_[at_];
        if (there.text != line.text)
            throw Misfit{fmt::format("line {} of the file is another", at_ + 1), number, line.line};
        if (there.endsInNewline != line.endsInNewline)
            throw Misfit{fmt::format("line {} of the file {} in a newline", at_ + 1,
                                     there.endsInNewline ? "ends" : "does not end"),
                         number, line.line};
    }

    void put(const TextLine& line, std::size_t number, std::size_t patchLine) {
        if (isClosed_) throw Misfit{"a line without a newline is not the last one", number, patchLine};
        made_ += line.text;
        if (line.endsInNewline) made_ += '\n';
        isClosed_ = !line.endsInNewline;
    }

    std::vector<TextLine> old_;
    std::size_t at_ = 0;
    std::size_t compared_ = 0;
    std::vector<std::string> moved_;
    std::string made_;
    bool isClosed_ = false;
};

bool isExecutable(std::uint32_t mode) { return (mode & 0100) != 0; }

EntryType typeOf(std::uint32_t mode) { return (mode & kTypeBits) == kLink ? EntryType::kSymlink : EntryType::kFile; }

void requireMode(const std::optional<std::uint32_t>& mode) {
    if (!mode) return;
    const std::uint32_t type = *mode & kTypeBits;
    if (type == kGitlink) throw Misfit{"a submodule cannot be part of a change"};
    if (type != kRegular && type != kLink)
        throw Misfit{fmt::format("mode {:o} is neither a file's nor a link's", *mode)};
    if ((*mode & 07000) != 0) throw Misfit{"set-user-ID, set-group-ID and sticky bits are refused"};
}

class Applier {
  public:
    Applier(const TreeReader& tree, Objects& objects) : tree_(tree), objects_(objects) {}

    PatchedChange run(const Patch& patch) {
        result_.faults = patch.faults;
        if (patch.hasBareNames)
            result_.notes.emplace_back("the patch has names without a/ and b/: they are taken as they are");
        std::size_t series = 0;
        for (const PatchFile& file : patch.files) {
            if (file.series != series || &file == &patch.files.front()) beginSeries(patch, series = file.series);
            try {
                apply(file);
            } catch (const Misfit& misfit) {
                result_.faults.push_back(
                    {file.path(), misfit.hunk, misfit.line > 0 ? misfit.line : file.line, misfit.reason});
            }
        }
        std::stable_sort(result_.faults.begin(), result_.faults.end(),
                         [](const PatchFault& a, const PatchFault& b) { return a.line < b.line; });
        if (result_.faults.empty()) finish();
        return std::move(result_);
    }

  private:
    void beginSeries(const Patch& patch, std::size_t series) {
        original_ = state_;
        leaving_.clear();
        made_.clear();
        for (const PatchFile& file : patch.files)
            if (file.series == series && (file.isRename || file.isDeleted)) leaving_.insert(file.oldPath);
    }

    Item& itemAt(const std::string& path) {
        const auto known = state_.find(path);
        if (known != state_.end()) return known->second;
        Item item;
        try {
            item.entry = tree_.at(path);
        } catch (const Error& e) {
            if (e.code() != ErrorCode::kNotAllowed) throw;
            throw Misfit{e.what()};
        }
        return state_.emplace(path, std::move(item)).first->second;
    }

    // A rename or a copy speaks of what was there before the patch, whatever else the patch does to it.
    Item& source(const PatchFile& file) {
        const auto before = original_.find(file.oldPath);
        if (!file.isRename && !file.isCopy) return itemAt(file.oldPath);
        if (before != original_.end()) return before->second;
        Item& now = itemAt(file.oldPath);
        if (!touched_.contains(file.oldPath)) return now;
        Item fresh;
        fresh.entry = tree_.at(file.oldPath);
        return original_.emplace(file.oldPath, std::move(fresh)).first->second;
    }

    const std::string& textOf(const std::string& path, Item& item) {
        if (item.text) return *item.text;
        if (item.entry->size > kLongestPatch) throw Misfit{"it is too large to be patched"};
        const auto kept = tree_.keep(path, objects_);
        if (kept != item.entry)
            throw Error(ErrorCode::kBusy, "'{}' changed while it was read", printable(path)).hint("call again");
        item.text = objects_.readAll(item.entry->digest, kLongestPatch);
        return *item.text;
    }

    void apply(const PatchFile& file) {
        for (const std::string* path : {&file.oldPath, &file.newPath})
            if (!path->empty())
                if (const auto fault = pathFault(*path)) throw Misfit{"the name cannot be part of a change: " + *fault};
        if (file.path().empty()) throw Misfit{"it has no name"};
        requireMode(file.oldMode);
        requireMode(file.newMode);
        if (file.isNew || isNewInPlain(file)) return create(file);
        Item& old = source(file);
        if (!old.entry || old.entry->type == EntryType::kDirectory)
            throw Misfit{old.entry ? "it is a directory" : "it is not there"};
        if (file.oldMode && typeOf(*file.oldMode) != old.entry->type)
            throw Misfit{"it is not of the type that the patch expects"};
        // A rename or a copy as it is takes whatever is there; lines are for files, unless the patch says otherwise.
        const bool isWhole = (file.isRename || file.isCopy) && file.hunks.empty() && !file.binary;
        if (!file.oldMode && !isWhole && old.entry->type != EntryType::kFile) throw Misfit{"it is a symbolic link"};
        if (file.isDeleted) return remove(file, old);
        modify(file, old);
    }

    // `diff -N` names a file that is not there as if it were empty.
    bool isNewInPlain(const PatchFile& file) {
        return !file.isRename && !file.isCopy && !file.isDeleted && file.hunks.size() == 1 && !file.oldMode &&
               file.hunks.front().oldCount == 0 && file.hunks.front().oldStart == 0 && !itemAt(file.oldPath).entry;
    }

    void create(const PatchFile& file) {
        requireFree(file.newPath);
        Item item;
        item.text = patched(file, "");
        const std::uint32_t mode = file.newMode.value_or(kRegular | 0644);
        item.entry = Entry{typeOf(mode), isExecutable(mode) ? 0755U : 0644U, {}, 0};
        put(file.newPath, std::move(item));
    }

    void remove(const PatchFile& file, Item& old) {
        const std::string rest = patched(file, textOf(file.oldPath, old));
        if (!rest.empty()) throw Misfit{"the patch deletes it and does not name all of its content"};
        if (!made_.contains(file.oldPath)) take(file.oldPath);
    }

    void modify(const PatchFile& file, Item& old) {
        Item item;
        item.entry = old.entry;
        item.text = patched(file, textOf(file.oldPath, old));
        if (file.newMode && typeOf(*file.newMode) != old.entry->type)
            throw Misfit{"a change of type is a deletion and an addition"};
        item.entry->mode = newMode(file, old.entry->mode);
        if (file.isRename || file.isCopy) requireFree(file.newPath);
        if (file.isRename && !made_.contains(file.oldPath)) take(file.oldPath);
        put(file.newPath, std::move(item));
    }

    static std::uint32_t newMode(const PatchFile& file, std::uint32_t mode) {
        if (!file.oldMode || !file.newMode || file.oldMode == file.newMode || typeOf(*file.newMode) != EntryType::kFile)
            return mode;
        if (isExecutable(*file.oldMode) != isExecutable(mode))
            throw Misfit{fmt::format("its mode is {:o}, the patch expects {:o}", mode, *file.oldMode & 0777)};
        return isExecutable(*file.newMode) ? mode | ((mode & 0444) >> 2) : mode & ~0111U;
    }

    // Git writes whole ids beside binary patches, so that they are applied to the right content only.
    static void requireId(const std::string& id, const std::string& text, std::string_view what) {
        if (id.size() < kFullId || id.find_first_not_of('0') == std::string::npos) return;
        BlobHasher hasher(namingOf(id), text.size());
        hasher.update(text);
        if (hasher.finish() != id) throw Misfit{std::string(what)};
    }

    std::string patched(const PatchFile& file, const std::string& old) {
        if (!file.binary) {
            HunkApplier applier(old);
            std::string made = applier.apply(file.hunks);
            for (const std::string& moved : applier.moved())
                result_.notes.push_back(fmt::format("{}: {}", printable(file.path()), moved));
            return made;
        }
        requireId(file.oldId, old, "it is not the file that the patch was made from");
        std::string made = file.binary->bytes;
        if (file.binary->isDelta) {
            auto applied = appliedDelta(old, file.binary->bytes);
            if (!applied) throw Misfit{"the binary patch does not fit it"};
            made = std::move(*applied);
        }
        requireId(file.newId, made, "the binary patch does not make what it says");
        return made;
    }

    void requireFree(const std::string& path) {
        const Item& there = itemAt(path);
        // A directory may go with all that it holds; that is seen at the end.
        if (there.entry && there.entry->type != EntryType::kDirectory &&
            (!leaving_.contains(path) || made_.contains(path)))
            throw Misfit{"it is there already"};
    }

    void put(const std::string& path, Item item) {
        if (item.entry->type == EntryType::kSymlink) {
            item.entry->mode = 0777;
            if (item.text->empty() || item.text->find('\0') != std::string::npos)
                throw Misfit{"no symbolic link can have that text"};
        }
        for (std::size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/', slash - 1)) {
            const std::string parent = path.substr(0, slash);
            const Item& above = itemAt(parent);
            if (!above.entry) continue;
            if (above.entry->type == EntryType::kDirectory) break;
            if (leaving_.contains(parent) && !made_.contains(parent)) continue;
            throw Misfit{fmt::format("its parent '{}' is a {}", printable(parent),
                                     above.entry->type == EntryType::kSymlink ? "symbolic link" : "file")};
        }
        made_.insert(path);
        touched_.insert(path);
        state_[path] = std::move(item);
    }

    void take(const std::string& path) {
        touched_.insert(path);
        state_[path] = Item();
    }

    // Before and after of every path that was touched, and of directories that come and go with them.
    void finish() {
        for (const std::string& path : touched_) addChange(path);
        for (const std::string& path : touched_)
            if (!state_[path].entry) leaveDirectories(path);
        std::vector<PathChange> changes;
        for (auto& [path, change] : changes_)
            if (change.before != change.after) changes.push_back(std::move(change));
        if (result_.faults.empty()) result_.changes = ChangeSet(std::move(changes));
    }

    void addChange(const std::string& path) {
        Item& item = state_[path];
        PathChange change{path, tree_.keep(path, objects_), std::nullopt};
        if (item.entry) {
            item.entry->digest = objects_.put(*item.text);
            item.entry->size = item.text->size();
            change.after = item.entry;
        } else if (hasMadeBeneath(path)) {
            change.after = Entry{EntryType::kDirectory, kDirectoryMode, {}, 0};
        }
        if (change.before && change.before->type == EntryType::kDirectory && change.after && isLeft(path))
            result_.faults.push_back({path, 0, 0, "it is a directory that holds more than the patch deletes"});
        changes_[path] = std::move(change);
    }

    bool hasMadeBeneath(const std::string& path) const {
        const auto next = touched_.lower_bound(path + '/');
        for (auto it = next; it != touched_.end() && it->starts_with(path + '/'); ++it)
            if (state_.at(*it).entry) return true;
        return false;
    }

    // As git: a directory that holds nothing any more goes.
    void leaveDirectories(const std::string& path) {
        for (std::size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/', slash - 1)) {
            const std::string parent = path.substr(0, slash);
            if (changes_.contains(parent)) continue;
            const auto there = tree_.at(parent);
            if (!there || isLeft(parent)) return;
            changes_[parent] = {parent, there, std::nullopt};
        }
    }

    // Whether anything stays in a directory of the tree.
    bool isLeft(const std::string& directory) const {
        if (hasMadeBeneath(directory)) return true;
        const std::vector<std::string> names = tree_.names(directory);
        return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            const std::string path = directory + '/' + name;
            const auto touched = touched_.find(path);
            if (touched != touched_.end()) return state_.at(path).entry.has_value();
            const auto entry = tree_.at(path);
            return !entry || entry->type != EntryType::kDirectory || tree_.names(path).empty() || isLeft(path);
        });
    }

    const TreeReader& tree_;
    Objects& objects_;
    std::map<std::string, Item> state_;
    std::map<std::string, Item> original_;  ///< when the series began, as far as it was known then
    std::set<std::string> leaving_;         ///< renamed or deleted by this series
    std::set<std::string> made_;            ///< written by this series
    std::set<std::string> touched_;
    std::map<std::string, PathChange> changes_;
    PatchedChange result_;
};

}  // namespace

PatchedChange applyPatch(const Patch& patch, const TreeReader& tree, Objects& objects) {
    return Applier(tree, objects).run(patch);
}

}  // namespace gradus
