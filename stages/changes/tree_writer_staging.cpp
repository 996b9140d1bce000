#include "stages/changes/tree_writer_staging.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::string_view kPart = ".part";
constexpr std::size_t kChunk = std::size_t{128} * 1024;
/// Few enough for the smallest limit of open files that anybody sets.
constexpr std::size_t kMostPending = 64;
constexpr int kMostSaved = 1000;

void must(int error, std::string_view action, std::string_view path) {
    if (error != 0) throwFault(action, path, error);
}

std::optional<std::size_t> changeOf(std::string_view name, std::size_t count) {
    std::size_t change = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), change);
    const bool isNumber = error == std::errc() && end == name.data() + name.size();
    return isNumber && change < count ? std::optional(change) : std::nullopt;
}

std::size_t fill(ByteSource& source, std::span<char> space) {
    std::size_t filled = 0;
    while (filled < space.size()) {
        const std::size_t got = source.read(space.subspan(filled));
        if (got == 0) break;
        filled += got;
    }
    return filled;
}

bool isAllZero(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

/// Only the system may set these, and a copy without them is what anybody else could make.
bool isSystemsOwn(std::string_view attribute) {
    return attribute.starts_with("security.") || attribute.starts_with("trusted.");
}

bool hasContentOf(int directory, const std::string& name, const Sighting& seen, std::optional<Entry> entry) {
    if (!entry || entry->type == EntryType::kDirectory) return false;
    entry->mode = seen.permissions();
    return isExactly(directory, name, seen, *entry);
}

}  // namespace

Staging::Staging(const TreeRoot& root, FileOperations& files, const Journal& journal)
    : root_(root), files_(files), journal_(journal) {}

bool Staging::exists() const { return sight(root_.descriptor(), journal_.staging).exists; }

void Staging::open() {
    if (!exists()) must(files_.makeDirectory(root_.descriptor(), journal_.staging), "create", journal_.staging);
    Obstacle obstacle = Obstacle::kNone;
    const FileDescriptor node = root_.directory(journal_.staging, O_PATH, obstacle);
    if (!node || sight(node.get()).user != ::geteuid())
        throw Error(ErrorCode::kNotAllowed, "'{}' in {} is not a directory of ours", journal_.staging,
                    root_.path().native())
            .hint("find out who put it there, and move it away");
    // Whatever the umask made of it.
    if ((sight(node.get()).permissions() & 0700) != 0700)
        must(files_.setMode(node.get(), 0700), "open up", journal_.staging);
    directory_ = root_.directory(journal_.staging, O_RDONLY, obstacle);
    if (!directory_) throwFault("open", journal_.staging, EACCES);
}

bool Staging::stageFile(std::size_t change, ByteSource& content, const Looks& looks) {
    const std::string part = slot(change).append(kPart);
    FileDescriptor file;
    int error = files_.createFile(directory_.get(), part, file);
    if (error == EEXIST) {
        clear(part);
        error = files_.createFile(directory_.get(), part, file);
    }
    must(error, "create a temporary for", pathOf(change));
    if (!write(file.get(), content, looks.entry, pathOf(change))) return false;
    dress(file.get(), looks, pathOf(change));
    // The disk may begin while the next ones are written; whether it does makes no difference but time.
    static_cast<void>(::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE));
    pending_.push_back({change, std::move(file)});
    if (pending_.size() >= kMostPending) flush();
    return true;
}

void Staging::stageLink(std::size_t change, const std::string& text, const Looks& looks) {
    const std::string part = slot(change).append(kPart);
    int error = files_.makeLink(directory_.get(), part, text);
    if (error == EEXIST) {
        clear(part);
        error = files_.makeLink(directory_.get(), part, text);
    }
    must(error, "create a temporary for", pathOf(change));
    const FileDescriptor link(::openat(directory_.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!link) throwFault("open", pathOf(change), errno);
    dress(link.get(), looks, pathOf(change));
    pending_.push_back({change, FileDescriptor()});
}

// Stretches of nothing are left out, so that a sparse file stays one.
bool Staging::write(int file, ByteSource& content, const Entry& entry, const std::string& path) {
    thread_local std::vector<char> buffer(kChunk);
    Hasher hasher;
    std::uint64_t total = 0;
    bool endsInHole = false;
    while (const std::size_t got = fill(content, buffer)) {
        const std::string_view bytes(buffer.data(), got);
        hasher.update(bytes);
        endsInHole = isAllZero(bytes);
        if (!endsInHole) must(writeFully(files_, file, bytes, total), "write a temporary for", path);
        total += got;
    }
    if (endsInHole) must(files_.resize(file, total), "write a temporary for", path);
    return total == entry.size && hasher.finish() == entry.digest;
}

// Owner first: the kernel takes rights away from a file that changes hands. The time last: everything else moves it.
void Staging::dress(int file, const Looks& looks, const std::string& path) {
    const Sighting seen = sight(file);
    const bool sameUser = looks.user == static_cast<uid_t>(-1) || looks.user == seen.user;
    const bool sameGroup = looks.group == static_cast<gid_t>(-1) || looks.group == seen.group;
    if (!sameUser || !sameGroup) must(files_.setOwner(file, looks.user, looks.group), "keep the owner of", path);
    for (const Attribute& attribute : looks.attributes) {
        const int error = files_.setAttribute(file, attribute.name, attribute.value);
        if (error != 0 && !isSystemsOwn(attribute.name)) throwFault("keep the attributes of", path, error);
    }
    if (looks.entry.type != EntryType::kSymlink) must(files_.setMode(file, looks.entry.mode), "set the mode of", path);
    if (looks.modified) must(files_.setModified(file, *looks.modified), "set the time of", path);
}

void Staging::finish() { flush(); }

// Written first, synced together: the disk can then take them in one go.
void Staging::flush() {
    std::vector<int> files;
    std::vector<std::size_t> changes;
    for (const Pending& pending : pending_) {
        if (!pending.file) continue;
        files.push_back(pending.file.get());
        changes.push_back(pending.change);
    }
    if (const auto fault = files_.syncAll(files))
        throwFault("sync a temporary for", pathOf(changes[fault->file]), fault->error);
    for (const Pending& pending : pending_) {
        const std::string name = slot(pending.change);
        must(files_.move(directory_.get(), name + std::string(kPart), directory_.get(), name, Move::kNoReplace),
             "name a temporary for", pathOf(pending.change));
    }
    pending_.clear();
}

void Staging::clear(const std::string& name) {
    const int error = files_.removeFile(directory_.get(), name);
    if (error != 0 && error != ENOENT) throwFault("remove the temporary", name, error);
}

void Staging::discard(std::size_t change) { clear(slot(change)); }

bool Staging::isOurs(std::size_t change, const Sighting& seen, const std::map<std::size_t, Sighting>& proven) const {
    const auto known = proven.find(change);
    if (known != proven.end() && known->second.isSameAs(seen)) return true;
    const PathChange& wanted = journal_.changes.changes()[change];
    return hasContentOf(directory_.get(), slot(change), seen, wanted.before) ||
           hasContentOf(directory_.get(), slot(change), seen, wanted.after);
}

std::string Staging::save(std::size_t change) {
    Place place = root_.place(pathOf(change));
    std::string beside(directoryOf(pathOf(change)));
    if (!place) {
        place = root_.place("lost");
        place.name = pathOf(change);
        std::ranges::replace(place.name, '/', '_');
        beside.clear();
    }
    for (int attempt = 1; attempt < kMostSaved; ++attempt) {
        const std::string name = fmt::format("{}.gradus-kept-{}", place.name, attempt);
        const int error = files_.move(directory_.get(), slot(change), place.at(), name, Move::kNoReplace);
        if (error == 0) return beside.empty() ? name : beside + "/" + name;
        if (error != EEXIST) throwFault("keep an edit of", pathOf(change), error);
    }
    throwFault("keep an edit of", pathOf(change), EEXIST);
}

std::vector<std::size_t> Staging::strangers(std::map<std::size_t, Sighting>& proven) {
    std::vector<std::size_t> found;
    if (!exists()) return found;
    if (!directory_) open();
    for (const std::string& name : namesBeneath(directory_.get(), SIZE_MAX)) {
        const auto change = changeOf(name, journal_.changes.changes().size());
        if (!change) continue;
        const Sighting seen = slotOf(*change);
        if (isOurs(*change, seen, proven))
            proven.insert_or_assign(*change, seen);
        else
            found.push_back(*change);
    }
    return found;
}

std::vector<std::string> Staging::remove(const std::map<std::size_t, Sighting>& proven) {
    std::vector<std::string> saved;
    if (!exists()) return saved;
    if (!directory_) open();
    for (const std::string& name : namesBeneath(directory_.get(), SIZE_MAX)) {
        const auto change = changeOf(name, journal_.changes.changes().size());
        if (change && !isOurs(*change, slotOf(*change), proven))
            saved.push_back(save(*change));
        else
            clear(name);
    }
    must(files_.removeDirectory(root_.descriptor(), journal_.staging), "remove", journal_.staging);
    must(files_.sync(root_.descriptor()), "sync", root_.path().native());
    return saved;
}

}  // namespace gradus
