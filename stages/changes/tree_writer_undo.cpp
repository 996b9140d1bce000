#include "stages/changes/tree_writer_undo.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "stages/changes/room.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint32_t kOwnerMayWrite = 0700;
/// What a small file takes on most disks.
constexpr std::uint64_t kBlock = 4096;

std::uint64_t onDisk(std::uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

bool isDirectory(const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kDirectory; }
bool hasContent(const std::optional<Entry>& entry) { return entry && entry->type != EntryType::kDirectory; }

/// Between one type and another the name is free for a moment.
bool passesThroughNothing(const PathChange& change) {
    return change.before && change.after && isDirectory(change.before) != isDirectory(change.after);
}

/// The change itself makes a link of a directory above, or a directory of a link: behind the link there is nothing.
bool isBelowOwnLink(const ChangeSet& changes, std::string_view path) {
    const auto isLink = [](const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kSymlink; };
    const std::vector<PathChange>& all = changes.changes();
    for (std::string_view parent = directoryOf(path); !parent.empty(); parent = directoryOf(parent)) {
        const auto above = std::ranges::lower_bound(all, parent, {}, &PathChange::path);
        if (above != all.end() && above->path == parent && (isLink(above->before) || isLink(above->after))) return true;
    }
    return false;
}

bool isThere(const Place& place, const Sighting& seen, const std::optional<Entry>& entry) {
    if (!entry) return !seen.exists;
    if (entry->type == EntryType::kDirectory) return seen.isDirectoryOf(entry->mode);
    return isExactly(place.at(), place.name, seen, *entry);
}

/// A directory that one way makes and the other way removes.
bool isMadeOrRemoved(const PathChange& change) { return isDirectory(change.before) != isDirectory(change.after); }

bool isAt(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

std::string textOf(ByteSource& content, std::uint64_t size) {
    std::string text(size, '\0');
    for (std::size_t filled = 0; filled < size;) {
        const std::size_t got = content.read(std::span(text).subspan(filled));
        if (got == 0) break;
        filled += got;
    }
    return text;
}

std::string_view reasonOf(Obstacle obstacle) {
    switch (obstacle) {
        case Obstacle::kLink:
            return "a directory on the way is now a symbolic link";
        case Obstacle::kMount:
            return "another file system is now mounted on the way";
        case Obstacle::kDenied:
            return "a directory on the way is closed to us now";
        default:
            return "the directory it belongs in is not there";
    }
}

}  // namespace

namespace {

Standing standingOf(const PathChange& change, const Place& place, const Sighting& seen) {
    const bool isSameDirectory = isDirectory(change.before) && isDirectory(change.after);
    // Of two modes of one directory each may be the other one opened to its owner: the exact one counts first.
    if (isSameDirectory && couldBe(seen, *change.after)) return Standing::kAfter;
    if (isThere(place, seen, change.before)) return Standing::kBefore;
    return isThere(place, seen, change.after) ? Standing::kAfter : Standing::kNeither;
}

}  // namespace

Look lookAt(const TreeRoot& root, const ChangeSet& changes, std::size_t index) {
    const PathChange& change = changes.changes()[index];
    Look look{.place = root.placePatiently(change.path)};
    const Obstacle obstacle = look.place.obstacle;
    const bool isNothingThere =
        obstacle == Obstacle::kMissing || (obstacle == Obstacle::kLink && isBelowOwnLink(changes, change.path));
    if (!look.place && !isNothingThere) return look;
    if (look.place) look.seen = sight(look.place.at(), look.place.name);
    look.standing = standingOf(change, look.place, look.seen);
    return look;
}

namespace {

/// Cut off between two steps of its own, not edited by anybody.
bool isHalfWay(const PathChange& change, const Look& look) {
    if (!look.place) return look.place.obstacle == Obstacle::kMissing && passesThroughNothing(change);
    // Made, and not yet given its mode.
    if (isMadeOrRemoved(change) && (look.seen.isDirectoryOf(0) || look.seen.isDirectoryOf(kOwnerMayWrite))) return true;
    return !look.seen.exists && passesThroughNothing(change);
}

/// Modes of the plan's own that keep us out are no obstacle: undoing opens such directories.
bool closesSome(const Journal& journal) {
    const auto isClosed = [](const std::optional<Entry>& entry) {
        return isDirectory(entry) && (entry->mode & kOwnerMayWrite) != kOwnerMayWrite;
    };
    return !journal.locked.empty() || std::ranges::any_of(journal.changes.changes(), [&](const PathChange& change) {
        return isClosed(change.before) || isClosed(change.after);
    });
}

void addClosed(const TreeRoot& root, const std::set<std::string>& directories, std::vector<Kept>& blocked) {
    for (const std::string& path : directories) {
        Obstacle obstacle = Obstacle::kNone;
        const FileDescriptor directory = root.directory(path, O_PATH, obstacle);
        const int denied = directory ? accessOf(directory.get()) : 0;
        if (denied != 0)
            blocked.push_back(
                {path.empty() ? "." : path, fmt::format("it cannot be written in: {}", errnoText(denied))});
    }
}

}  // namespace

UndoOutlook outlookOf(const TreeRoot& root, const Journal& journal) {
    UndoOutlook outlook;
    if (journal.state == WriteState::kPlanned || journal.state == WriteState::kUndone) return outlook;
    Obstacle none = Obstacle::kNone;
    const FileDescriptor staged = root.directory(journal.staging, O_PATH, none);
    std::set<std::string> written;
    for (std::size_t i = 0; i < journal.changes.changes().size(); ++i) {
        const PathChange& change = journal.changes.changes()[i];
        const Look look = lookAt(root, journal.changes, i);
        const Standing standing = look.standing;
        if (standing == Standing::kBlocked && look.place.obstacle != Obstacle::kDenied)
            outlook.blocked.push_back({change.path, std::string(reasonOf(look.place.obstacle))});
        // What an applied change has there besides is somebody's, and stays.
        const bool isOurs = standing == Standing::kNeither && journal.state != WriteState::kApplied;
        if (standing != Standing::kAfter && !isOurs) continue;
        written.insert({std::string(), std::string(directoryOf(change.path))});
        if (!hasContent(change.before) || (staged && sight(staged.get(), Staging::slot(i)).exists)) continue;
        outlook.bytes += onDisk(change.before->size);
        ++outlook.files;
    }
    if (!closesSome(journal)) addClosed(root, written, outlook.blocked);
    if (written.empty() || staged) return outlook;
    outlook.bytes += kBlock;
    ++outlook.files;
    return outlook;
}

UndoPack& Undoer::pack() {
    if (!pack_) pack_.emplace(objects_.open(journal_.undo), journal_.changes);
    return *pack_;
}

std::vector<Kept> Undoer::left() {
    std::vector<Kept> all = kept();
    for (const std::string& path : saved_) all.push_back({path, "an edit that lost its place is kept under this name"});
    for (const std::size_t change : staging_.strangers(proven_))
        all.push_back(
            {changes()[change].path, "an edit of it that lost its place is kept beside it, as *.gradus-kept-*"});
    std::ranges::stable_sort(all, {}, &Kept::path);
    return all;
}

std::vector<std::string> Undoer::tidy() {
    std::vector<std::string> saved = staging_.remove(proven_);
    saved.insert(saved.end(), saved_.begin(), saved_.end());
    return saved;
}

void Undoer::keep(std::size_t change, std::string reason) {
    if (!kept_[change]) kept_[change] = std::move(reason);
}

// A directory that is not there was taken away by somebody; anything else on the way may go away again.
void Undoer::leave(std::size_t change, Obstacle obstacle) {
    if (obstacle == Obstacle::kMissing) return keep(change, std::string(reasonOf(obstacle)));
    block(changes()[change].path, obstacle);
}

void Undoer::block(const std::string& path, Obstacle obstacle) { blocked_[path] = reasonOf(obstacle); }

std::vector<Kept> Undoer::kept() const {
    std::vector<Kept> list;
    for (std::size_t i = 0; i < kept_.size(); ++i)
        if (kept_[i]) list.push_back({changes()[i].path, *kept_[i]});
    return list;
}

std::vector<Kept> Undoer::blocked() const {
    std::vector<Kept> list;
    for (const auto& [path, reason] : blocked_) list.push_back({path, reason});
    return list;
}

// Opens directories that our own modes have closed to us; from the top down, so that each lets us see the next.
void Undoer::unlock() {
    std::map<std::string, std::set<std::uint32_t>> closed;
    for (const LockedDirectory& locked : journal_.locked) closed[locked.path].insert(locked.mode);
    for (const PathChange& change : changes())
        for (const auto& entry : {change.before, change.after})
            if (isDirectory(entry)) closed[change.path].insert(entry->mode);
    for (const auto& [path, modes] : closed) {
        Obstacle obstacle = Obstacle::kNone;
        const FileDescriptor node = root_.directoryPatiently(path, O_PATH, obstacle);
        if (!node) continue;
        const Sighting seen = sight(node.get());
        if ((seen.permissions() & kOwnerMayWrite) == kOwnerMayWrite || !modes.contains(seen.permissions())) continue;
        if (seen.user == ::geteuid()) setDirectoryMode(path, seen.permissions() | kOwnerMayWrite);
    }
}

std::vector<std::string> Undoer::edited() const {
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < changes().size(); ++i)
        if (lookAt(root_, journal_.changes, i).standing == Standing::kNeither) paths.push_back(changes()[i].path);
    return paths;
}

void Undoer::run() {
    unlock();
    for (std::size_t i = 0; i < changes().size(); ++i) actions_.push_back(actionFor(i));
    if (std::ranges::count(actions_, Action::kRestore) > 0) {
        staging_.open();
        stageMissing();
    }
    for (std::size_t i = changes().size(); i-- > 0;) takeBack(i);
    for (std::size_t i = 0; i < changes().size(); ++i) restore(i);
    setTimes();
    setModes();
    syncTouched();
}

Undoer::Action Undoer::actionFor(std::size_t index) {
    const PathChange& change = changes()[index];
    if (std::ranges::binary_search(journal_.kept, change.path)) keep(index, "edited by somebody since");
    if (kept_[index]) return Action::kNone;
    const Look look = lookAt(root_, journal_.changes, index);
    if (look.standing == Standing::kBefore) return Action::kNone;
    if (look.standing == Standing::kAfter || isHalfWay(change, look)) return Action::kRestore;
    if (look.place)
        keep(index, "edited by somebody since");
    else
        leave(index, look.place.obstacle);
    return Action::kNone;
}

// What came out of the tree is the best there is: the very same file. The packed copy serves when that is gone.
bool Undoer::needsContent(std::size_t index) {
    const PathChange& change = changes()[index];
    if (actions_[index] != Action::kRestore || !hasContent(change.before)) return false;
    const Sighting held = staging_.slotOf(index);
    if (!held.exists) return true;
    if (!hasContent(change.after) || !isExactly(staging_.descriptor(), Staging::slot(index), held, *change.after))
        return false;
    staging_.discard(index);
    return true;
}

void Undoer::stageMissing() {
    std::vector<bool> missing(changes().size());
    for (std::size_t i = 0; i < missing.size(); ++i) missing[i] = needsContent(i);
    if (std::ranges::count(missing, true) == 0) return;
    pack().contents([&](const PackedEntry& packed) { return missing[packed.change]; },
                    [&](const PackedEntry& packed, ByteSource& content) { stage(packed, content); });
    staging_.finish();
}

void Undoer::stage(const PackedEntry& packed, ByteSource& content) {
    const Looks looks{packed.entry, packed.user, packed.group, packed.modified, packed.attributes};
    if (packed.entry.type == EntryType::kSymlink)
        return staging_.stageLink(packed.change, textOf(content, packed.entry.size), looks);
    if (!staging_.stageFile(packed.change, content, looks))
        throw Error(ErrorCode::kDamaged, "the undo object holds something else for '{}'",
                    printable(changes()[packed.change].path));
}

void Undoer::takeBack(std::size_t index) {
    const PathChange& change = changes()[index];
    const bool isReplacedInPlace = hasContent(change.before) == hasContent(change.after) &&
                                   isDirectory(change.before) == isDirectory(change.after);
    if (actions_[index] != Action::kRestore || !change.after || isReplacedInPlace) return;
    const Place place = root_.placePatiently(change.path);
    if (!place) {
        if (place.obstacle != Obstacle::kMissing) leave(index, place.obstacle);
        return;
    }
    if (hasContent(change.after)) return takeFileBack(index, place);
    const int error = files_.removeDirectory(place.at(), place.name);
    if (error == ENOTEMPTY || error == EEXIST) return keep(index, "it holds what the change did not put there");
    // Nothing there, or a `before` that is back already.
    if (error == ENOENT || error == ENOTDIR) return;
    must(error, "remove the directory", change.path);
    touch(change.path);
}

// A slot that something must be moved into is empty unless somebody put the very content of ours in our way.
void Undoer::freeSlot(std::size_t index) {
    const Sighting held = staging_.slotOf(index);
    if (!held.exists) return;
    if (staging_.isOurs(index, held, {})) return staging_.discard(index);
    saved_.push_back(staging_.save(index));
}

void Undoer::takeFileBack(std::size_t index, const Place& place) {
    const PathChange& change = changes()[index];
    if (!isThere(place, sight(place.at(), place.name), change.after)) return;
    freeSlot(index);
    const std::string slot = Staging::slot(index);
    const int error = files_.move(place.at(), place.name, staging_.descriptor(), slot, Move::kNoReplace);
    if (error == ENOENT) return;
    must(error, "take back", change.path);
    touch(change.path);
    if (isExactly(staging_.descriptor(), slot, staging_.slotOf(index), *change.after)) return;
    // Edited between the look and the move. If the name is taken again by now, tidying gives it another one.
    static_cast<void>(files_.move(staging_.descriptor(), slot, place.at(), place.name, Move::kNoReplace));
    keep(index, "edited by somebody while it was taken back");
}

void Undoer::restore(std::size_t index) {
    const PathChange& change = changes()[index];
    if (actions_[index] != Action::kRestore || !change.before || kept_[index] || blocked_.contains(change.path)) return;
    const Place place = root_.placePatiently(change.path);
    if (!place) return leave(index, place.obstacle);
    if (isDirectory(change.before)) return restoreDirectory(index, place);
    restoreContent(index, place);
}

void Undoer::restoreDirectory(std::size_t index, const Place& place) {
    const PathChange& change = changes()[index];
    const int error = files_.makeDirectory(place.at(), place.name);
    if (error == 0) touch(change.path);
    if (error != 0 && error != EEXIST) throwFault("create the directory", change.path, error);
    const int flags = O_RDONLY | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC;
    const FileDescriptor made(::openat(place.at(), place.name.c_str(), flags));
    if (!made && isMoved(errno)) return keep(index, "something else is in its place");
    if (!made) throwFault("open", change.path, errno);
    if (isDirectory(change.after)) return;
    const PackedEntry* packed = pack().find(index);
    if (packed == nullptr) throw Error(ErrorCode::kDamaged, "the undo object does not know '{}'", change.path);
    giveTo(made.get(), packed->user, packed->group, change.path);
    for (const Attribute& attribute : packed->attributes)
        static_cast<void>(files_.setAttribute(made.get(), attribute.name, attribute.value));
    setDirectoryMode(change.path, change.before->mode | kOwnerMayWrite);
}

void Undoer::restoreContent(std::size_t index, const Place& place) {
    const PathChange& change = changes()[index];
    const Sighting seen = sight(place.at(), place.name);
    if (isThere(place, seen, change.before)) return;
    if (seen.exists && hasContent(change.after)) return exchangeBack(index, place);
    const int error =
        files_.move(staging_.descriptor(), Staging::slot(index), place.at(), place.name, Move::kNoReplace);
    if (error == EEXIST) return keep(index, "something else is in its place");
    must(error, "move into place", change.path);
    touch(change.path);
    if (!isThere(place, sight(place.at(), place.name), change.before))
        keep(index, "edited by somebody while it was taken away");
}

void Undoer::exchangeBack(std::size_t index, const Place& place) {
    const PathChange& change = changes()[index];
    const std::string slot = Staging::slot(index);
    const int error = files_.move(staging_.descriptor(), slot, place.at(), place.name, Move::kExchange);
    if (error == ENOENT) return keep(index, "removed by somebody since");
    must(error, "move into place", change.path);
    touch(change.path);
    if (isExactly(staging_.descriptor(), slot, staging_.slotOf(index), *change.after)) {
        if (!isThere(place, sight(place.at(), place.name), change.before))
            keep(index, "edited by somebody while it was replaced");
        return;
    }
    static_cast<void>(files_.move(staging_.descriptor(), slot, place.at(), place.name, Move::kExchange));
    keep(index, "edited by somebody while it was taken back");
}

// Once all their names are back; whether this run made them or an earlier one that was cut off.
void Undoer::setTimes() {
    for (std::size_t i = changes().size(); i-- > 0;) {
        const PathChange& change = changes()[i];
        if (kept_[i] || !isDirectory(change.before) || isDirectory(change.after)) continue;
        const FileDescriptor node = restored(change.path);
        const PackedEntry* packed = node ? pack().find(i) : nullptr;
        if (packed == nullptr || isAt(sight(node.get()).modified, packed->modified)) continue;
        must(files_.setModified(node.get(), packed->modified), "set the time of", change.path);
        touched_.insert(change.path);
    }
}

void Undoer::setModes() {
    std::map<std::string, std::uint32_t> modes;
    for (const LockedDirectory& locked : journal_.locked) modes[locked.path] = locked.mode;
    // A directory that is not ours to restore may be a link for good.
    std::set<std::string> left;
    for (std::size_t i = 0; i < changes().size(); ++i) {
        const PathChange& change = changes()[i];
        const auto& wanted = isDirectory(change.before) ? change.before : change.after;
        if (isDirectory(wanted)) modes[change.path] = wanted->mode;
        if (kept_[i] || !isDirectory(change.before)) left.insert(change.path);
    }
    for (auto mode = modes.rbegin(); mode != modes.rend(); ++mode) {
        Obstacle obstacle = Obstacle::kNone;
        const FileDescriptor node =
            left.contains(mode->first) ? root_.directory(mode->first, O_PATH, obstacle) : restored(mode->first);
        if (node && isOurMode(mode->first, sight(node.get()).permissions()))
            setDirectoryMode(mode->first, mode->second);
    }
}

/// A directory that is back, or still there: a link in its place is not the end of it.
FileDescriptor Undoer::restored(const std::string& path) {
    Obstacle obstacle = Obstacle::kNone;
    FileDescriptor node = root_.directoryPatiently(path, O_PATH, obstacle);
    if (!node && obstacle != Obstacle::kMissing) block(path, obstacle);
    return node;
}

/// Somebody else's mode is an edit like any other.
bool Undoer::isOurMode(const std::string& path, std::uint32_t mode) const {
    std::set<std::uint32_t> ours;
    for (const LockedDirectory& locked : journal_.locked)
        if (locked.path == path) ours.insert({locked.mode, locked.mode | kOwnerMayWrite});
    const auto change = std::ranges::lower_bound(changes(), path, {}, &PathChange::path);
    if (change == changes().end() || change->path != path) return ours.contains(mode);
    if (isMadeOrRemoved(*change)) ours.insert({0, kOwnerMayWrite});
    for (const auto& entry : {change->before, change->after})
        if (isDirectory(entry)) ours.insert({entry->mode, entry->mode | kOwnerMayWrite});
    return ours.contains(mode);
}

}  // namespace gradus
