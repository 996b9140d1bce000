#include "stages/changes/tree_writer_plan.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "stages/changes/room.h"
#include "stages/changes/tree_writer_apply.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint32_t kImpliedMode = 0755;
constexpr std::uint64_t kLongestLink = 4095;
constexpr std::uint64_t kReserve = std::uint64_t{1024} * 1024;
constexpr std::uint64_t kPerChange = 4096;
constexpr int kCaseFolded = 0x40000000;  ///< FS_CASEFOLD_FL
/// FAT, exFAT, NTFS (two drivers), HFS+, SMB (two versions).
constexpr std::array<std::uint32_t, 7> kCaseBlind = {0x4d44,     0x2011bab0, 0x5346544e, 0x7366746e,
                                                     0x0000482b, 0xff534d42, 0xfe534d42};
constexpr std::array<std::string_view, 3> kProtectedNames = {".gitmodules", ".gitattributes", ".lfsconfig"};

bool isDirectory(const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kDirectory; }
bool hasContent(const std::optional<Entry>& entry) { return entry && entry->type != EntryType::kDirectory; }

std::string lowered(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

std::string_view nameOf(std::string_view path) {
    const std::string_view parent = directoryOf(path);
    return path.substr(parent.empty() ? 0 : parent.size() + 1);
}

bool isReserved(std::string_view path) {
    return path.starts_with(Staging::kPrefix) || path.find(fmt::format("/{}", Staging::kPrefix)) != path.npos;
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

bool isCaseBlind(int directory) {
    struct statfs where {};
    if (::fstatfs(directory, &where) != 0) return false;
    const auto magic = static_cast<std::uint32_t>(where.f_type);
    int flags = 0;
    const bool isFolded = ::ioctl(directory, FS_IOC_GETFLAGS, &flags) == 0 && (flags & kCaseFolded) != 0;
    return isFolded || std::ranges::find(kCaseBlind, magic) != kCaseBlind.end();
}

}  // namespace

Planner::Planner(const TreeRoot& root, const Objects& objects, const PlanOptions& options)
    : root_(root), objects_(objects), options_(options), isPrivileged_(::geteuid() == 0) {}

Plan Planner::plan(const ChangeSet& changes) {
    addMissingDirectories(changes);
    std::set<std::string> parents{""};
    for (const auto& [path, change] : changes_) {
        check(change);
        if (!isBehindNothing(path)) parents.emplace(directoryOf(path));
    }
    for (const std::string& parent : parents)
        if (!changes_.empty()) checkDirectory(parent);
    checkNames();
    checkSpace();
    std::vector<PathChange> all;
    for (const auto& [path, change] : changes_) all.push_back(change);
    plan_.changes = ChangeSet(std::move(all));
    std::ranges::stable_sort(plan_.conflicts, {}, &Conflict::path);
    return std::move(plan_);
}

void Planner::refuse(ConflictKind kind, const PathChange& change, const Sighting& seen) {
    plan_.conflicts.push_back(conflictOf(kind, change, seen));
}

void Planner::refuse(ConflictKind kind, std::string_view path, std::string expected, std::string found) {
    plan_.conflicts.push_back({kind, std::string(path), std::move(expected), std::move(found), std::nullopt});
}

const PathChange* Planner::find(std::string_view path) const {
    const auto found = changes_.find(path);
    return found == changes_.end() ? nullptr : &found->second;
}

/// Below something that the change itself first makes a directory of: nothing is there yet, whatever a lookup says.
bool Planner::isBehindNothing(std::string_view path) const {
    for (std::string_view parent = directoryOf(path); !parent.empty(); parent = directoryOf(parent)) {
        const PathChange* change = find(parent);
        if (change != nullptr && !isDirectory(change->before)) return true;
    }
    return false;
}

void Planner::addMissingDirectories(const ChangeSet& changes) {
    for (const PathChange& change : changes.changes()) changes_.emplace(change.path, change);
    for (const PathChange& change : changes.changes())
        if (change.after) addParentsOf(change);
}

// A patch or a commit does not name directories.
void Planner::addParentsOf(const PathChange& change) {
    for (std::string_view parent = directoryOf(change.path); !parent.empty(); parent = directoryOf(parent)) {
        if (known_.contains(parent) || find(parent) != nullptr) continue;
        Obstacle obstacle = Obstacle::kNone;
        const FileDescriptor directory = root_.directory(parent, O_PATH, obstacle);
        if (obstacle == Obstacle::kMissing || isBehindNothing(parent))
            changes_[std::string(parent)] = {std::string(parent), std::nullopt,
                                             Entry{EntryType::kDirectory, kImpliedMode, {}, 0}, true};
        else
            known_.emplace(parent);
    }
}

void Planner::check(const PathChange& change) {
    if (!hasSoundName(change) || !hasSoundParents(change)) return;
    checkContent(change);
    if (!isBehindNothing(change.path)) return checkNow(change);
    if (change.before) refuse(ConflictKind::kParentMissing, change);
}

bool Planner::hasSoundName(const PathChange& change) {
    const std::size_t known = plan_.conflicts.size();
    const bool isGranted = std::ranges::find(options_.granted, change.path) != options_.granted.end();
    if (!change.beforeKnown) refuse(ConflictKind::kUnknownBefore, change);
    if (isReserved(change.path)) refuse(ConflictKind::kReserved, change);
    if (!isGranted && std::ranges::find(kProtectedNames, lowered(nameOf(change.path))) != kProtectedNames.end())
        refuse(ConflictKind::kProtected, change);
    return plan_.conflicts.size() == known;
}

// What the change itself makes of the directories above.
bool Planner::hasSoundParents(const PathChange& change) {
    for (std::string_view parent = directoryOf(change.path); change.after && !parent.empty();
         parent = directoryOf(parent)) {
        const PathChange* above = find(parent);
        if (above == nullptr || isDirectory(above->after)) continue;
        const bool isLink = above->after && above->after->type == EntryType::kSymlink;
        refuse(isLink ? ConflictKind::kParentIsLink : ConflictKind::kParentMissing, change);
        return false;
    }
    return true;
}

void Planner::checkNow(const PathChange& change) {
    const Place place = root_.place(change.path);
    if (!place && place.obstacle != Obstacle::kMissing) return refuse(kindOf(place.obstacle), change);
    const Sighting seen = place ? sight(place.at(), place.name) : Sighting();
    if (seen.isMountPoint) return refuse(ConflictKind::kMountPoint, change, seen);
    if (!change.before && seen.exists) return refuse(ConflictKind::kInTheWay, change, seen);
    if (change.before && !seen.exists) return refuse(ConflictKind::kGone, change);
    if (change.before) checkBefore(change, place, seen);
}

void Planner::checkBefore(const PathChange& change, const Place& place, const Sighting& seen) {
    if (!S_ISLNK(seen.mode) && (seen.permissions() & ~0777U) != 0)
        return refuse(ConflictKind::kSpecialMode, change, seen);
    int error = 0;
    if (!isExactly(place.at(), place.name, seen, *change.before, &error)) {
        const bool isDenied = error == EACCES || error == EPERM;
        return refuse(isDenied ? ConflictKind::kNoPermission : ConflictKind::kEdited, change, seen);
    }
    if (isDirectory(change.before) && !isDirectory(change.after)) checkEmptied(change);
    checkRights(change, seen);
}

void Planner::checkRights(const PathChange& change, const Sighting& seen) {
    if (seen.isFrozen) return refuse(ConflictKind::kNoPermission, change, seen);
    if (isPrivileged_ || seen.user == ::geteuid()) return;
    // Its owner could not be kept, its mode not be set.
    if (change.after) return refuse(ConflictKind::kNoPermission, change, seen);
    const Place place = root_.place(change.path);
    const Sighting parent = place ? sight(place.at()) : Sighting();
    if ((parent.mode & S_ISVTX) != 0 && parent.user != ::geteuid()) refuse(ConflictKind::kNoPermission, change, seen);
}

// Ignored and untracked files are somebody's, too.
void Planner::checkEmptied(const PathChange& change) {
    Obstacle obstacle = Obstacle::kNone;
    const FileDescriptor directory = root_.directory(change.path, O_RDONLY, obstacle);
    if (!directory) return refuse(kindOf(obstacle), change);
    for (const std::string& name : namesBeneath(directory.get(), SIZE_MAX)) {
        const std::string path = change.path + "/" + name;
        const PathChange* inside = find(path);
        if (inside != nullptr && !inside->after) continue;
        return refuse(ConflictKind::kNotEmpty, change.path, "nothing in it but what the change takes away",
                      fmt::format("'{}'", name));
    }
}

void Planner::checkContent(const PathChange& change) {
    if (!hasContent(change.after)) return;
    const Entry& after = *change.after;
    if (!isPrivileged_ && after.type == EntryType::kFile && (after.mode & S_IRUSR) == 0)
        refuse(ConflictKind::kNoPermission, change.path, "a mode that lets its owner read it back",
               fmt::format("mode {:o}", after.mode));
    plan_.newBytes += after.size;
    const bool isCopied = hasContent(change.before) && change.before->digest == after.digest &&
                          change.before->type == after.type && after.type == EntryType::kFile;
    if (isCopied) return;
    const auto size = objects_.size(after.digest);
    const bool isTooLong = after.type == EntryType::kSymlink && (after.size > kLongestLink || after.size == 0);
    if (size != after.size || isTooLong) refuse(ConflictKind::kContentMissing, change);
}

// Names in it will change: may they?
void Planner::checkDirectory(const std::string& path) {
    Obstacle obstacle = Obstacle::kNone;
    const FileDescriptor directory = root_.directory(path, O_PATH, obstacle);
    if (!directory) return;
    const Sighting seen = sight(directory.get());
    const int error = seen.isFrozen ? EPERM : accessOf(directory.get());
    if (error == 0) return;
    const std::string shown = path.empty() ? "." : path;
    if (error == EACCES && seen.user == ::geteuid() && (seen.permissions() & ~0777U) == 0)
        return plan_.locked.push_back({path, seen.permissions()});
    plan_.conflicts.push_back({ConflictKind::kNoPermission, shown, "a directory that may be written in",
                               fmt::format("{}: {}", describe(seen), errnoText(error)), seen.user});
}

void Planner::checkNames() {
    std::map<std::string, std::string> folded;
    for (const auto& [path, change] : changes_) {
        if (!change.after) continue;
        const auto [other, isNew] = folded.emplace(lowered(path), path);
        if (!isNew && isCaseBlindAt(directoryOf(path)))
            refuse(ConflictKind::kCaseClash, path, "a name of its own", fmt::format("'{}'", other->second));
    }
}

/// A directory that is yet to be made will be as the one it is made in.
bool Planner::isCaseBlindAt(std::string_view path) const {
    Obstacle obstacle = Obstacle::kNone;
    const FileDescriptor directory = root_.directory(path, O_RDONLY, obstacle);
    if (directory) return isCaseBlind(directory.get());
    return !path.empty() && isCaseBlindAt(directoryOf(path));
}

// New contents go into the tree, old ones among the objects; that may be one disk or two.
void Planner::checkSpace() {
    std::uint64_t oldBytes = 0;
    for (const auto& [path, change] : changes_)
        if (hasContent(change.before)) oldBytes += change.before->size;
    const auto tree = roomAt(root_.path());
    const auto kept = roomAt(objects_.pathOf({}).parent_path());
    std::uint64_t needed = plan_.newBytes + kPerChange * changes_.size();
    if (tree && kept && tree->device == kept->device) needed += oldBytes;
    const auto demand = [&](const std::optional<Room>& room, const std::filesystem::path& where, std::uint64_t bytes,
                            std::uint64_t inodes) {
        if (!room || changes_.empty() || (room->bytes >= bytes + kReserve && room->inodes >= inodes)) return;
        refuse(ConflictKind::kNoSpace, ".", fmt::format("{} bytes and {} files", bytes + kReserve, inodes),
               fmt::format("room for {} bytes and {} files in {}", room->bytes, room->inodes, where.native()));
    };
    demand(tree, root_.path(), needed, changes_.size() + 2);
    if (kept && (!tree || tree->device != kept->device)) demand(kept, objects_.pathOf({}).parent_path(), oldBytes, 2);
}

}  // namespace gradus
