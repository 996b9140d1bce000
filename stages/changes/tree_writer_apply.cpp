#include "stages/changes/tree_writer_apply.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint32_t kOwnerMayWrite = 0700;
constexpr std::uint64_t kLongestLink = 4096;
constexpr std::size_t kMostOpen = 64;

bool isDirectory(const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kDirectory; }
bool hasContent(const std::optional<Entry>& entry) { return entry && entry->type != EntryType::kDirectory; }

/// A name that must be free for a moment before the change can put something else there, or nothing.
bool isTakenAway(const PathChange& change) {
    return change.before && !(isDirectory(change.before) && isDirectory(change.after)) &&
           !(hasContent(change.before) && hasContent(change.after));
}

class FileSource final : public ByteSource {
  public:
    explicit FileSource(FileDescriptor file) : file_(std::move(file)) {}
    std::size_t read(std::span<char> space) override {
        while (true) {
            const ssize_t got = ::read(file_.get(), space.data(), space.size());
            if (got >= 0) return static_cast<std::size_t>(got);
            if (errno != EINTR) throwFault("read", "a file to copy", errno);
        }
    }

  private:
    FileDescriptor file_;
};

bool isSameContent(const PathChange& change) {
    return change.before && change.before->type == EntryType::kFile && change.after->type == EntryType::kFile &&
           change.before->digest == change.after->digest;
}

ConflictKind kindOf(Obstacle obstacle) {
    switch (obstacle) {
        case Obstacle::kLink:
            return ConflictKind::kParentIsLink;
        case Obstacle::kMount:
            return ConflictKind::kMountPoint;
        case Obstacle::kDenied:
            return ConflictKind::kNoPermission;
        default:
            return ConflictKind::kParentMissing;
    }
}

}  // namespace

void TreeWork::setDirectoryMode(const std::string& path, std::uint32_t mode) {
    Obstacle obstacle = Obstacle::kNone;
    const FileDescriptor node = root_.directoryPatiently(path, O_PATH, obstacle);
    if (!node) throwFault("open", path, ENOENT);
    if (sight(node.get()).permissions() == mode) return;
    must(files_.setMode(node.get(), mode), "set the mode of", path);
    touched_.insert(path);
}

void TreeWork::giveTo(int file, uid_t user, gid_t group, std::string_view path) {
    const Sighting seen = sight(file);
    const bool sameUser = user == static_cast<uid_t>(-1) || user == seen.user;
    const bool sameGroup = group == static_cast<gid_t>(-1) || group == seen.group;
    if (!sameUser || !sameGroup) must(files_.setOwner(file, user, group), "set the owner of", path);
}

void TreeWork::syncTouched() {
    std::vector<FileDescriptor> open;
    std::vector<std::string> paths;
    const auto syncOpen = [&] {
        std::vector<int> directories;
        for (const FileDescriptor& directory : open) directories.push_back(directory.get());
        if (const auto fault = files_.syncAll(directories)) throwFault("sync", paths[fault->file], fault->error);
        open.clear();
        paths.clear();
    };
    for (const std::string& path : touched_) {
        Obstacle obstacle = Obstacle::kNone;
        FileDescriptor directory = root_.directory(path, O_RDONLY, obstacle);
        if (!directory && obstacle != Obstacle::kMissing) must(files_.syncFileSystem(root_.descriptor()), "sync", path);
        if (!directory) continue;  // gone: its own name is synced with the directory above it
        open.push_back(std::move(directory));
        paths.push_back(path);
        if (open.size() >= kMostOpen) syncOpen();
    }
    syncOpen();
    touched_.clear();
}

// Order: everything that may run out of space or rights comes before the first name changes. Children go before their
// directory, and come after it. Modes that keep us out come last.
void Applier::run() {
    unlock();
    staging_.open();
    for (std::size_t i = 0; i < changes().size(); ++i) stage(i);
    staging_.finish();
    for (std::size_t i = changes().size(); i-- > 0;) takeAway(i);
    for (std::size_t i = 0; i < changes().size(); ++i) put(i);
    for (std::size_t i = 0; i < changes().size(); ++i) verify(i);
    setModes();
    syncTouched();
}

void Applier::unlock() {
    for (const LockedDirectory& locked : journal_.locked) {
        Obstacle obstacle = Obstacle::kNone;
        const FileDescriptor node = root_.directory(locked.path, O_PATH, obstacle);
        const Sighting seen = node ? sight(node.get()) : Sighting();
        const Entry expected{EntryType::kDirectory, locked.mode, {}, 0};
        if (!couldBe(seen, expected)) collide(ConflictKind::kEdited, {locked.path, expected, expected, true}, seen);
        setDirectoryMode(locked.path, locked.mode | kOwnerMayWrite);
    }
}

Place Applier::placeOf(const PathChange& change) const {
    Place place = root_.place(change.path);
    if (!place) collide(kindOf(place.obstacle), change, {});
    return place;
}

FileDescriptor Applier::openToCopy(const PathChange& change, const Place& place) const {
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    FileDescriptor file(::openat(place.at(), place.name.c_str(), flags));
    if (!file && isMoved(errno)) collide(ConflictKind::kGone, change, {});
    if (!file) throwFault("open", change.path, errno);
    return file;
}

void Applier::collide(ConflictKind kind, const PathChange& change, const Sighting& seen) const {
    throw Collision{conflictOf(kind, change, seen)};
}

void Applier::stage(std::size_t index) {
    const PathChange& change = changes()[index];
    if (!hasContent(change.after)) return;
    const Looks looks = looksOf(change);
    if (change.after->type == EntryType::kSymlink)
        return staging_.stageLink(index, objects_.readAll(change.after->digest, kLongestLink), looks);
    if (isSameContent(change)) return stageCopy(index, looks);
    ObjectReader content = objects_.open(change.after->digest);
    if (!staging_.stageFile(index, content, looks))
        throw Error(ErrorCode::kDamaged, "the content for '{}' is not of the size that the change names",
                    printable(change.path));
}

// Only the mode changes. The file itself is left alone: it may have another name, which keeps the old mode.
void Applier::stageCopy(std::size_t index, const Looks& looks) {
    const PathChange& change = changes()[index];
    const Place place = placeOf(change);
    FileSource content(openToCopy(change, place));
    if (!staging_.stageFile(index, content, looks))
        collide(ConflictKind::kEdited, change, sight(place.at(), place.name));
}

// What replaces something keeps its owner and attributes; what is new belongs to whom the tree belongs.
Looks Applier::looksOf(const PathChange& change) const {
    Looks looks;
    looks.entry = *change.after;
    if (!change.before) {
        ownNew(looks, change.path);
        return looks;
    }
    const Place place = placeOf(change);
    const Sighting seen = sight(place.at(), place.name);
    const bool isExpected =
        isDirectory(change.before) ? seen.isDirectoryOf(change.before->mode) : couldBe(seen, *change.before);
    if (!isExpected) collide(seen.exists ? ConflictKind::kEdited : ConflictKind::kGone, change, seen);
    looks.user = seen.user;
    looks.group = seen.group;
    if (S_ISREG(seen.mode) && change.after->type == EntryType::kFile)
        looks.attributes = attributesOf(openToCopy(change, place).get());
    return looks;
}

void Applier::ownNew(Looks& looks, std::string_view path) const {
    if (::geteuid() == 0) {
        looks.user = root_.own().user;
        looks.group = root_.own().group;
    }
    // As a file made in a setgid directory would.
    const Place place = root_.place(path);
    const Sighting parent = place ? sight(place.at()) : Sighting();
    if (parent.exists && (parent.mode & S_ISGID) != 0) looks.group = parent.group;
}

void Applier::takeAway(std::size_t index) {
    const PathChange& change = changes()[index];
    if (!isTakenAway(change)) return;
    const Place place = placeOf(change);
    if (isDirectory(change.before)) return removeDirectory(index, place);
    const int error =
        files_.move(place.at(), place.name, staging_.descriptor(), Staging::slot(index), Move::kNoReplace);
    if (error == ENOENT) collide(ConflictKind::kGone, change, {});
    must(error, "take away", change.path);
    touch(change.path);
    proveTaken(index, place, Move::kNoReplace);
}

void Applier::removeDirectory(std::size_t index, const Place& place) {
    const PathChange& change = changes()[index];
    const Sighting seen = sight(place.at(), place.name);
    if (!seen.isDirectoryOf(change.before->mode))
        collide(seen.exists ? ConflictKind::kEdited : ConflictKind::kGone, change, seen);
    const int error = files_.removeDirectory(place.at(), place.name);
    if (error == ENOTEMPTY || error == EEXIST) collide(ConflictKind::kNotEmpty, change, seen);
    if (error == ENOENT || error == ENOTDIR) collide(ConflictKind::kGone, change, {});
    must(error, "remove the directory", change.path);
    touch(change.path);
}

// What came out may be an edit made since we looked. Then it goes back at once; if somebody made yet another meanwhile,
// what we hold is not lost either: whatever is not ours leaves the temporaries under a name of its own.
void Applier::proveTaken(std::size_t index, const Place& place, Move back) {
    const PathChange& change = changes()[index];
    const std::string slot = Staging::slot(index);
    const Sighting taken = staging_.slotOf(index);
    if (isExactly(staging_.descriptor(), slot, taken, *change.before)) {
        proven_[index] = taken;
        return;
    }
    static_cast<void>(files_.move(staging_.descriptor(), slot, place.at(), place.name, back));
    collide(ConflictKind::kEdited, change, taken);
}

void Applier::put(std::size_t index) {
    const PathChange& change = changes()[index];
    if (!change.after || (isDirectory(change.before) && isDirectory(change.after))) return;
    const Place place = placeOf(change);
    if (isDirectory(change.after)) return makeDirectory(index, place);
    const Move how = hasContent(change.before) ? Move::kExchange : Move::kNoReplace;
    placed_[index] = staging_.slotOf(index);
    const int error = files_.move(staging_.descriptor(), Staging::slot(index), place.at(), place.name, how);
    if (error == ENOENT) collide(ConflictKind::kGone, change, {});
    if (error == EEXIST) collide(ConflictKind::kInTheWay, change, sight(place.at(), place.name));
    must(error, "move into place", change.path);
    touch(change.path);
    if (how == Move::kExchange) proveTaken(index, place, Move::kExchange);
}

void Applier::makeDirectory(std::size_t index, const Place& place) {
    const PathChange& change = changes()[index];
    const int error = files_.makeDirectory(place.at(), place.name);
    if (error == EEXIST) collide(ConflictKind::kInTheWay, change, sight(place.at(), place.name));
    must(error, "create the directory", change.path);
    touch(change.path);
    Looks looks;
    ownNew(looks, change.path);
    const FileDescriptor made(::openat(place.at(), place.name.c_str(), O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
    if (!made && isMoved(errno)) collide(ConflictKind::kGone, change, {});
    if (!made) throwFault("open", change.path, errno);
    giveTo(made.get(), looks.user, looks.group, change.path);
    placed_[index] = sight(made.get());
    setDirectoryMode(change.path, change.after->mode | kOwnerMayWrite);
}

// Looked up from the root once more: a directory that somebody moved away meanwhile took our work with it.
void Applier::verify(std::size_t index) const {
    const PathChange& change = changes()[index];
    const Place place = root_.place(change.path);
    const Sighting seen = place ? sight(place.at(), place.name) : Sighting();
    const auto placed = placed_.find(index);
    if (!place && change.after) collide(kindOf(place.obstacle), change, seen);
    if (change.after.has_value() != seen.exists)
        collide(seen.exists ? ConflictKind::kInTheWay : ConflictKind::kGone, change, seen);
    if (placed != placed_.end() && placed->second.inode != seen.inode) collide(ConflictKind::kEdited, change, seen);
    if (hasContent(change.after) && !placed->second.isUnwritten(seen)) collide(ConflictKind::kEdited, change, seen);
    if (isDirectory(change.after) && placed == placed_.end() && !seen.isDirectoryOf(change.before->mode))
        collide(ConflictKind::kEdited, change, seen);
    if (proven_.contains(index) && !isStillProven(index))
        collide(ConflictKind::kEdited, change, staging_.slotOf(index));
}

// An untouched inode need not be read twice. A touched one may still be what it was: to take another name of the same
// file away stamps this one as well.
bool Applier::isStillProven(std::size_t index) const {
    const Sighting& proven = proven_.at(index);
    const Sighting held = staging_.slotOf(index);
    if (proven.isSameAs(held)) return true;
    return proven.hasSameOwner(held) &&
           isExactly(staging_.descriptor(), Staging::slot(index), held, *changes()[index].before);
}

void Applier::setModes() {
    std::map<std::string, std::uint32_t> modes;
    for (const LockedDirectory& locked : journal_.locked) modes[locked.path] = locked.mode;
    for (const PathChange& change : changes()) {
        if (isDirectory(change.after))
            modes[change.path] = change.after->mode;
        else
            modes.erase(change.path);
    }
    for (auto mode = modes.rbegin(); mode != modes.rend(); ++mode) setDirectoryMode(mode->first, mode->second);
}

}  // namespace gradus
