#include "stages/changes/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "stages/changes/text_merge.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint32_t kExecutable = 0111;
constexpr std::uint32_t kReadable = 0444;

using Side = std::optional<Entry>;

bool isDirectory(const Side& side) { return side && side->type == EntryType::kDirectory; }
bool isExecutable(std::uint32_t mode) { return (mode & 0100) != 0; }

bool hasSameContent(const Entry& a, const Entry& b) {
    return a.type == b.type && a.digest == b.digest && a.size == b.size;
}

// What git would call the same: it knows only whether a file can be executed.
bool isSameToGit(const Side& a, const Side& b) {
    if (!a || !b) return !a && !b;
    if (!hasSameContent(*a, *b)) return false;
    return a->type != EntryType::kFile || isExecutable(a->mode) == isExecutable(b->mode);
}

// Patches and commits give 644 and 755; what is there keeps what else it has.
std::optional<std::uint32_t> mergeModes(std::uint32_t before, std::uint32_t after, std::uint32_t now) {
    if (before == after || now == after) return now;
    if (now == before) return after;
    if (isExecutable(before) == isExecutable(after) || isExecutable(now) != isExecutable(before)) return std::nullopt;
    return isExecutable(after) ? now | ((now & kReadable) >> 2) : now & ~kExecutable;
}

std::string_view directoryOf(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string join(std::string_view directory, std::string_view name) { return fmt::format("{}/{}", directory, name); }

std::string_view typeName(const Entry& entry) {
    return entry.type == EntryType::kFile      ? "a file"
           : entry.type == EntryType::kSymlink ? "a symbolic link"
                                               : "a directory";
}

/// One merge: every path by itself, then what only the whole can tell.
class Merger {
  public:
    Merger(const ChangeSet& change, const TreeReader& now, Objects& objects, const EarlierStates& earlier)
        : change_(change), now_(now), objects_(objects), earlier_(earlier) {}

    MergeResult run() {
        for (const PathChange& change : change_.changes()) judge(change);
        for (const PathChange& change : change_.changes()) checkParents(change);
        settleDirectories();
        std::vector<PathChange> merged;
        std::vector<PathChange> whole;
        for (const PathChange& change : change_.changes())
            whole.push_back(merged_.contains(change.path) ? merged_[change.path] : change);
        for (auto& [path, change] : merged_) merged.push_back(std::move(change));
        result_.whole = ChangeSet(std::move(whole));
        result_.merged = ChangeSet(std::move(merged));
        result_.moved = result_.merged != change_;
        std::stable_sort(result_.conflicts.begin(), result_.conflicts.end(),
                         [](const MergeConflict& a, const MergeConflict& b) { return a.path < b.path; });
        return std::move(result_);
    }

  private:
    void refuse(MergeConflictKind kind, const std::string& path, std::string detail) {
        if (refused_.insert(path).second) result_.conflicts.push_back({kind, path, std::move(detail)});
    }

    void judge(const PathChange& change) {
        Side now;
        try {
            if (!isBelowNewDirectory(change.path)) now = now_.at(change.path);
        } catch (const Error& e) {
            if (e.code() != ErrorCode::kNotAllowed) throw;
            return refuse(MergeConflictKind::kType, change.path, e.what());
        }
        if (now == change.after) return;
        // Nothing says more about its permissions than whether it can be executed.
        if (isSameToGit(now, change.after) && (!change.beforeKnown || !change.before)) return;
        // Nothing is there that could be lost.
        if (!change.beforeKnown && !now) return take(change, now, change.after);
        if (!change.beforeKnown)
            return refuse(MergeConflictKind::kUnknownBefore, change.path,
                          "what the change was made on is not known, as it was edited meanwhile");
        if (now == change.before || isEarlier(change.path, now)) return take(change, now, change.after);
        if (!change.before) return judgeBothAdded(change, *now);
        if (!now) return judgeGone(change);
        if (!change.after) return judgeDeletion(change, *now);
        judgeBothChanged(change, *now);
    }

    bool isEarlier(const std::string& path, const Side& side) const {
        const auto known = earlier_.find(path);
        return known != earlier_.end() && std::ranges::find(known->second, side) != known->second.end();
    }

    /// The change itself makes a directory of a file or a link above: nothing is there yet, whatever the way there
    /// says.
    bool isBelowNewDirectory(std::string_view path) const {
        for (std::string_view parent = directoryOf(path); !parent.empty(); parent = directoryOf(parent)) {
            const auto above = merged_.find(parent);
            if (above != merged_.end() && above->second.before && !isDirectory(above->second.before) &&
                isDirectory(above->second.after))
                return true;
        }
        return false;
    }

    void take(const PathChange& change, const Side& before, const Side& after) {
        if (before != after) merged_[change.path] = {change.path, before, after, true};
    }

    void judgeBothAdded(const PathChange& change, const Entry& now) {
        const bool sameType = now.type == change.after->type;
        if (sameType && isDirectory(now)) return;
        if (hasSameContent(now, *change.after))
            return refuse(MergeConflictKind::kMode, change.path, "both sides added it, with different permissions");
        refuse(sameType ? MergeConflictKind::kBothAdded : MergeConflictKind::kType, change.path,
               fmt::format("both sides added it; there it is {}", sameType ? "another one" : typeName(now)));
    }

    void judgeGone(const PathChange& change) {
        if (!change.after) return;
        refuse(MergeConflictKind::kDeletedHere, change.path, "the change edits it, and it is gone there");
    }

    void judgeDeletion(const PathChange& change, const Entry& now) {
        if (isSameToGit(now, change.before)) return take(change, now, std::nullopt);
        const bool sameType = now.type == change.before->type;
        refuse(sameType ? MergeConflictKind::kEditedHere : MergeConflictKind::kType, change.path,
               sameType ? "the change deletes it, and it was edited there"
                        : fmt::format("the change deletes it, and it is {} there", typeName(now)));
    }

    void judgeBothChanged(const PathChange& change, const Entry& now) {
        const Entry& before = *change.before;
        const Entry& after = *change.after;
        if (now.type != before.type)
            return refuse(MergeConflictKind::kType, change.path,
                          fmt::format("it was {} and is {} there", typeName(before), typeName(now)));
        if (after.type != before.type) {
            if (isSameToGit(now, before)) return take(change, now, after);
            return refuse(MergeConflictKind::kType, change.path,
                          fmt::format("the change makes it {}, and it was edited there", typeName(after)));
        }
        const auto mode = mergeModes(before.mode, after.mode, now.mode);
        if (!mode)
            return refuse(MergeConflictKind::kMode, change.path,
                          fmt::format("its permissions were {:o}; the change makes them {:o}, there they are {:o}",
                                      before.mode, after.mode, now.mode));
        auto content = mergeContent(change, now);
        if (!content) return;
        content->mode = *mode;
        take(change, now, content);
    }

    // Type, digest and size of the result; nothing after a conflict.
    std::optional<Entry> mergeContent(const PathChange& change, const Entry& now) {
        if (hasSameContent(*change.before, *change.after)) return now;
        if (hasSameContent(*change.before, now) || hasSameContent(*change.after, now)) return change.after;
        if (now.type == EntryType::kFile) return mergeFile(change, now);
        refuse(MergeConflictKind::kContent, change.path, "both sides made the link point elsewhere");
        return std::nullopt;
    }

    std::optional<Entry> mergeFile(const PathChange& change, const Entry& now) {
        if (!objects_.contains(change.before->digest)) {
            refuse(MergeConflictKind::kNoAncestor, change.path,
                   "both sides edited it, and what they began with is not stored");
            return std::nullopt;
        }
        if (std::max({change.before->size, change.after->size, now.size}) > kMostMerged) {
            refuse(MergeConflictKind::kBinary, change.path, "both sides edited it, and it is too large to be merged");
            return std::nullopt;
        }
        const std::string ancestor = objects_.readAll(change.before->digest, kMostMerged);
        const std::string ours = contentNow(change.path, now);
        const std::string theirs = objects_.readAll(change.after->digest, kMostMerged);
        if (isBinary(ancestor) || isBinary(ours) || isBinary(theirs)) {
            refuse(MergeConflictKind::kBinary, change.path, "both sides edited it, and it is not a text");
            return std::nullopt;
        }
        const auto merged = mergeOverAny(change.path, ancestor, ours, theirs);
        if (!merged) {
            refuse(MergeConflictKind::kContent, change.path, "both sides edited the same lines");
            return std::nullopt;
        }
        if (*merged == ours) return now;
        result_.mergedPaths.push_back(change.path);
        return Entry{EntryType::kFile, now.mode, objects_.put(*merged), merged->size()};
    }

    // Over an earlier state the change's own edits may count as there already while they are not: what comes of it must
    // still hold all that the change wants of what it was made on.
    std::optional<std::string> mergeOverAny(const std::string& path, const std::string& ancestor,
                                            const std::string& ours, const std::string& theirs) {
        auto merged = mergeText(ancestor, ours, theirs);
        const auto known = earlier_.find(path);
        if (merged || known == earlier_.end()) return merged;
        for (const Side& side : known->second) {
            if (!side || side->type != EntryType::kFile || !objects_.contains(side->digest)) continue;
            const std::string between = objects_.readAll(side->digest, kMostMerged);
            if (isBinary(between)) continue;
            merged = mergeText(between, ours, theirs);
            if (merged && mergeText(ancestor, *merged, theirs) == merged) return merged;
        }
        return std::nullopt;
    }

    std::string contentNow(const std::string& path, const Entry& seen) {
        const Side kept = now_.keep(path, objects_);
        if (kept != seen)
            throw Error(ErrorCode::kBusy, "'{}' changed while it was merged", printable(path)).hint("call again");
        return objects_.readAll(seen.digest, kMostMerged);
    }

    // What is written needs directories above, there or by the change itself.
    void checkParents(const PathChange& change) {
        if (!merged_.contains(change.path) || !merged_[change.path].after) return;
        for (std::string_view parent = directoryOf(change.path); !parent.empty(); parent = directoryOf(parent)) {
            const auto mine = merged_.find(parent);
            const Side there = mine != merged_.end() ? mine->second.after : parentNow(std::string(parent));
            if (!there && mine == merged_.end()) continue;
            if (isDirectory(there)) return;
            return refuse(MergeConflictKind::kType, change.path,
                          fmt::format("'{}' is {} there", printable(parent), there ? typeName(*there) : "gone"));
        }
    }

    const Side& parentNow(const std::string& path) {
        const auto known = parents_.find(path);
        if (known != parents_.end()) return known->second;
        Side side;
        try {
            side = now_.at(path);
        } catch (const Error& e) {
            if (e.code() != ErrorCode::kNotAllowed) throw;
            side = Entry{EntryType::kSymlink, 0777, {}, 0};
        }
        return parents_[path] = side;
    }

    // Deepest first: a directory goes only when all that it holds goes with it. What else it holds is somebody's, and
    // keeps it in place, as with git.
    void settleDirectories() {
        std::vector<std::string> going;
        for (const auto& [path, change] : merged_)
            if (isDirectory(change.before) && !isDirectory(change.after)) going.push_back(path);
        for (auto path = going.rbegin(); path != going.rend(); ++path) {
            const auto kept = whatStays(*path);
            if (!kept) continue;
            if (merged_[*path].after)
                refuse(MergeConflictKind::kType, *path,
                       fmt::format("the directory holds '{}', which is not part of the change", printable(*kept)));
            else
                merged_.erase(*path);
        }
    }

    std::optional<std::string> whatStays(const std::string& directory) const {
        for (const std::string& name : now_.names(directory)) {
            const auto child = merged_.find(join(directory, name));
            if (child == merged_.end() || child->second.after) return name;
        }
        return std::nullopt;
    }

    const ChangeSet& change_;
    const TreeReader& now_;
    Objects& objects_;
    const EarlierStates& earlier_;
    std::map<std::string, PathChange, std::less<>> merged_;
    std::map<std::string, Side> parents_;
    std::set<std::string> refused_;
    MergeResult result_;
};

}  // namespace

MergeResult mergeOnto(const ChangeSet& change, const TreeReader& now, Objects& objects, const EarlierStates& earlier) {
    return Merger(change, now, objects, earlier).run();
}

}  // namespace gradus
