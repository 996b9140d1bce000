#include "stages/changes/tree_writer_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "stages/changes/tree_writer_beneath.h"
#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kDomain = "gradus.journal.1";
constexpr std::string_view kSuffix = ".journal";
constexpr std::string_view kAside = ".aside";
constexpr std::size_t kLengthSize = 4;
constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;

std::string framed(const std::string& record, Digest& chain) {
    std::string bytes;
    for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(record.size() >> shift & 0xff);
    chain = Hasher().update(chain.view()).update(record).finish();
    return bytes.append(record).append(chain.view());
}

/// The next whole record, or nothing: the end, or a tail that was cut off.
std::optional<std::string_view> takeRecord(std::string_view& rest, Digest& chain) {
    if (rest.size() < kLengthSize) return std::nullopt;
    std::uint64_t length = 0;
    for (std::size_t i = kLengthSize; i-- > 0;) length = length << 8 | static_cast<std::uint8_t>(rest[i]);
    if (rest.size() < kLengthSize + length + Digest::kSize) return std::nullopt;
    const std::string_view record = rest.substr(kLengthSize, length);
    const Digest next = Hasher().update(chain.view()).update(record).finish();
    if (next.view() != rest.substr(kLengthSize + length, Digest::kSize)) return std::nullopt;
    rest.remove_prefix(kLengthSize + length + Digest::kSize);
    chain = next;
    return record;
}

std::string plannedRecord(const Journal& journal) {
    Canonical out(kDomain);
    out.text("planned").text(journal.root).number(static_cast<std::int64_t>(journal.rootInode)).text(journal.staging);
    out.text(journal.changes.encode()).list(journal.locked.size());
    for (const LockedDirectory& directory : journal.locked) out.text(directory.path).number(directory.mode);
    return out.bytes();
}

std::string stateRecord(const Journal& journal) {
    Canonical out(kDomain);
    out.text(nameOf(kWriteStates, journal.state));
    if (journal.state == WriteState::kSealed) out.digest(journal.undo);
    if (journal.state == WriteState::kUndoing) {
        out.list(journal.kept.size());
        for (const std::string& path : journal.kept) out.text(path);
    }
    if (journal.state == WriteState::kUndone && !journal.left.empty()) {
        out.list(journal.left.size());
        for (const Kept& kept : journal.left) out.text(kept.path).text(kept.reason);
    }
    return out.bytes();
}

/// Where nothing was left, the record ends with its name.
bool namesWhatWasLeft(std::string_view undone) {
    return undone.size() > stateRecord(Journal{.state = WriteState::kUndone}).size();
}

void readPlanned(CanonicalReader& in, Journal& journal) {
    journal.root = in.text();
    journal.rootInode = static_cast<std::uint64_t>(in.number());
    journal.staging = in.text();
    journal.changes = ChangeSet::decode(in.text());
    for (std::uint64_t left = in.list(); left > 0; --left) {
        LockedDirectory directory;
        directory.path = in.text();
        directory.mode = static_cast<std::uint32_t>(in.number());
        journal.locked.push_back(std::move(directory));
    }
}

/// States only ever go forward; sealing ends the part that the seal covers.
void readRecord(std::string_view record, const Digest& chain, bool isFirst, Journal& journal) {
    CanonicalReader in(record, kDomain);
    const auto state = fromName(kWriteStates, in.text());
    if (!state || isFirst != (*state == WriteState::kPlanned) || (!isFirst && *state <= journal.state))
        in.fail("a record that cannot follow");
    journal.state = *state;
    if (isFirst) readPlanned(in, journal);
    if (*state == WriteState::kSealed) {
        journal.undo = in.digest();
        journal.seal = chain;
    }
    if (*state == WriteState::kUndoing)
        for (std::uint64_t left = in.list(); left > 0; --left) journal.kept.push_back(in.text());
    if (*state == WriteState::kUndone && namesWhatWasLeft(record))
        for (std::uint64_t left = in.list(); left > 0; --left) {
            std::string path = in.text();
            journal.left.push_back({std::move(path), in.text()});
        }
    in.end();
}

/// How much of the bytes is whole records; the rest is a tail that was cut off.
std::size_t readRecords(std::string_view bytes, Journal& journal) {
    Digest chain;
    std::string_view rest = bytes;
    for (bool isFirst = true;; isFirst = false) {
        const auto record = takeRecord(rest, chain);
        if (!record) return bytes.size() - rest.size();
        readRecord(*record, chain, isFirst, journal);
    }
}

Digest chainOf(std::string_view bytes) {
    Digest chain;
    while (takeRecord(bytes, chain)) continue;
    return chain;
}

void must(int error, std::string_view action, const fs::path& path) {
    if (error != 0) throwFault(action, path.native(), error);
}

}  // namespace

JournalDirectory::JournalDirectory(fs::path path, FileOperations& files) : path_(std::move(path)), files_(files) {
    makeDirectoriesDurably(path_);
}

void JournalDirectory::create(Journal& journal) {
    Digest chain;
    std::string bytes = framed(plannedRecord(journal), chain);
    journal.state = WriteState::kSealed;
    bytes += framed(stateRecord(journal), chain);
    journal.seal = chain;
    const fs::path file = path_ / (journal.name + std::string(kSuffix));
    const FileDescriptor directory = openFile(path_, O_RDONLY | O_DIRECTORY);
    FileDescriptor made;
    must(files_.createFile(directory.get(), file.filename(), made), "create", file);
    try {
        must(writeFully(files_, made.get(), bytes, 0), "write", file);
        must(files_.sync(made.get()), "sync", file);
        must(files_.sync(directory.get()), "sync", path_);
    } catch (const Error&) {
        static_cast<void>(files_.removeFile(directory.get(), file.filename()));
        throw;
    }
}

// A record that is not whole is overwritten: nobody was ever told of it.
void JournalDirectory::advance(Journal& journal, WriteState state) {
    const fs::path path = path_ / (journal.name + std::string(kSuffix));
    const std::string bytes = readSmallFile(path, kLargest, "the journal");
    Journal known;
    const std::size_t whole = readRecords(bytes, known);
    Digest chain = chainOf(bytes);
    const WriteState from = std::exchange(journal.state, state);
    try {
        const FileDescriptor file = openFile(path, O_WRONLY | O_NOFOLLOW);
        if (whole < bytes.size()) must(files_.resize(file.get(), whole), "shorten", path);
        must(writeFully(files_, file.get(), framed(stateRecord(journal), chain), whole), "write", path);
        must(files_.sync(file.get()), "sync", path);
    } catch (const Error&) {
        journal.state = from;
        throw;
    }
}

Journal JournalDirectory::read(const JournalRef& ref) const {
    const fs::path path = path_ / (ref.name + std::string(kSuffix));
    if (ref.name.find('/') != std::string::npos || ::access(path.c_str(), F_OK) != 0)
        throw Error(ErrorCode::kNotFound, "there is no journal {}", path.native());
    Journal journal;
    journal.name = ref.name;
    readRecords(readSmallFile(path, kLargest, "the journal"), journal);
    if (journal.state == WriteState::kPlanned) journal = {.name = ref.name};
    if (ref.seal && journal.seal != *ref.seal)
        throw Error(ErrorCode::kDamaged, "the journal {} is not the one that was sealed", path.native())
            .hint("restore it from a backup; until then its tree must be put right by hand");
    return journal;
}

std::vector<JournalRef> JournalDirectory::list() const {
    std::vector<JournalRef> refs;
    for (const auto& entry : fs::directory_iterator(path_))
        if (entry.path().extension() == kSuffix) refs.push_back({entry.path().stem(), std::nullopt});
    return refs;
}

void JournalDirectory::remove(const JournalRef& ref) {
    const FileDescriptor directory = openFile(path_, O_RDONLY | O_DIRECTORY);
    must(files_.removeFile(directory.get(), ref.name + std::string(kSuffix)), "remove", path_ / ref.name);
    must(files_.sync(directory.get()), "sync", path_);
}

void JournalDirectory::setAside(const JournalRef& ref) {
    const FileDescriptor directory = openFile(path_, O_RDONLY | O_DIRECTORY);
    must(files_.move(directory.get(), ref.name + std::string(kSuffix), directory.get(), ref.name + std::string(kAside),
                     Move::kNoReplace),
         "set aside", path_ / ref.name);
    must(files_.sync(directory.get()), "sync", path_);
}

}  // namespace gradus
