#include "stages/changes/tree_writer_pack.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::string_view kDomain = "gradus.undo.1";
constexpr std::size_t kLengthSize = 8;
constexpr std::size_t kLongestLink = 4096;
constexpr std::uint64_t kLargestHead = std::uint64_t{1} << 30;

FileDescriptor openFor(const Place& place, const Entry& entry) {
    const int type = entry.type == EntryType::kDirectory ? O_DIRECTORY : 0;
    return FileDescriptor(
        ::openat(place.at(), place.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | type));
}

PackedEntry lookAt(const TreeRoot& root, const PathChange& change, std::size_t index) {
    const Place place = root.place(change.path);
    const Sighting seen = place ? sight(place.at(), place.name) : Sighting();
    if (!couldBe(seen, *change.before)) throw Moved{change.path};
    PackedEntry packed{index, *change.before, seen.user, seen.group, seen.modified, {}};
    if (change.before->type == EntryType::kSymlink) return packed;
    const FileDescriptor file = openFor(place, *change.before);
    if (file) packed.attributes = attributesOf(file.get());
    if (!file && isMoved(errno)) throw Moved{change.path};
    // A directory may be closed to us and removed all the same; a file was read when it was planned.
    if (!file && errno != EACCES) throwFault("open", change.path, errno);
    return packed;
}

void encode(Canonical& out, const PackedEntry& packed, const std::string& path) {
    out.number(static_cast<std::int64_t>(packed.change)).text(path);
    out.text(nameOf(kEntryTypes, packed.entry.type)).number(packed.entry.mode);
    out.digest(packed.entry.digest).number(static_cast<std::int64_t>(packed.entry.size));
    out.number(packed.user).number(packed.group).number(packed.modified.tv_sec).number(packed.modified.tv_nsec);
    out.list(packed.attributes.size());
    for (const Attribute& attribute : packed.attributes) out.text(attribute.name).text(attribute.value);
}

PackedEntry decode(CanonicalReader& in, const ChangeSet& changes) {
    PackedEntry packed;
    packed.change = static_cast<std::size_t>(in.number());
    if (packed.change >= changes.changes().size() || in.text() != changes.changes()[packed.change].path)
        in.fail("of another change");
    const auto type = fromName(kEntryTypes, in.text());
    if (!type) in.fail("unknown entry type");
    packed.entry.type = *type;
    packed.entry.mode = static_cast<std::uint32_t>(in.number());
    packed.entry.digest = in.digest();
    packed.entry.size = static_cast<std::uint64_t>(in.number());
    packed.user = static_cast<uid_t>(in.number());
    packed.group = static_cast<gid_t>(in.number());
    packed.modified.tv_sec = in.number();
    packed.modified.tv_nsec = in.number();
    for (std::uint64_t left = in.list(); left > 0; --left) {
        std::string name = in.text();
        packed.attributes.push_back({std::move(name), in.text()});
    }
    return packed;
}

std::uint64_t contentSize(const Entry& entry) { return entry.type == EntryType::kDirectory ? 0 : entry.size; }

/// The head, then the contents one after the other, each proven to be the `before` while it passes.
class PackSource final : public ByteSource {
  public:
    PackSource(const TreeRoot& root, const ChangeSet& changes) : root_(root), changes_(changes.changes()) {
        Canonical head(kDomain);
        for (std::size_t i = 0; i < changes_.size(); ++i)
            if (changes_[i].before) entries_.push_back(lookAt(root, changes_[i], i));
        head.list(entries_.size());
        for (const PackedEntry& packed : entries_) encode(head, packed, changes_[packed.change].path);
        for (unsigned shift = 0; shift < 64; shift += 8)
            ready_ += static_cast<char>(head.bytes().size() >> shift & 0xff);
        ready_ += head.bytes();
    }

    std::size_t read(std::span<char> space) override {
        while (true) {
            if (at_ < ready_.size()) return takeReady(space);
            if (file_) return takeFile(space);
            if (next_ == entries_.size()) return 0;
            begin(entries_[next_++]);
        }
    }

  private:
    std::size_t takeReady(std::span<char> space) {
        const std::size_t count = ready_.copy(space.data(), space.size(), at_);
        at_ += count;
        return count;
    }

    void begin(const PackedEntry& packed) {
        current_ = &packed;
        const Place place = root_.place(changes_[packed.change].path);
        if (!place) moved();
        if (packed.entry.type == EntryType::kSymlink) return beginLink(place);
        if (packed.entry.type == EntryType::kDirectory) return;
        file_ = openFor(place, packed.entry);
        if (!file_ && isMoved(errno)) moved();
        if (!file_) throwFault("open", changes_[packed.change].path, errno);
        left_ = packed.entry.size;
        if (left_ == 0) finishFile();
    }

    void beginLink(const Place& place) {
        std::array<char, kLongestLink> text{};
        const ssize_t length = ::readlinkat(place.at(), place.name.c_str(), text.data(), text.size());
        if (length < 0) moved();
        ready_.assign(text.data(), static_cast<std::size_t>(length));
        at_ = 0;
        if (sha256(ready_) != current_->entry.digest) moved();
    }

    std::size_t takeFile(std::span<char> space) {
        ssize_t got = 0;
        do got = ::read(file_.get(), space.data(), std::min<std::uint64_t>(space.size(), left_));
        while (got < 0 && errno == EINTR);
        if (got < 0) throwFault("read", changes_[current_->change].path, errno);
        if (got == 0) moved();
        hasher_.update({space.data(), static_cast<std::size_t>(got)});
        left_ -= static_cast<std::uint64_t>(got);
        if (left_ == 0) finishFile();
        return static_cast<std::size_t>(got);
    }

    void finishFile() {
        if (hasher_.finish() != current_->entry.digest) moved();
        file_ = FileDescriptor();
    }

    [[noreturn]] void moved() const { throw Moved{changes_[current_->change].path}; }

    const TreeRoot& root_;
    const std::vector<PathChange>& changes_;
    std::vector<PackedEntry> entries_;
    std::string ready_;
    std::size_t at_ = 0;
    std::size_t next_ = 0;
    const PackedEntry* current_ = nullptr;
    FileDescriptor file_;
    std::uint64_t left_ = 0;
    Hasher hasher_;
};

/// A part of the object's bytes, as a source of its own.
class Section final : public ByteSource {
  public:
    Section(ObjectReader& reader, std::uint64_t size) : reader_(reader), left_(size) {}
    std::size_t read(std::span<char> space) override {
        if (left_ == 0) return 0;
        const std::size_t got = reader_.read(space.first(std::min<std::uint64_t>(space.size(), left_)));
        if (got == 0) throw Error(ErrorCode::kDamaged, "an undo object ends too early");
        left_ -= got;
        return got;
    }
    void skip() {
        std::array<char, 16384> nowhere{};
        while (read(nowhere) > 0) continue;
    }

  private:
    ObjectReader& reader_;
    std::uint64_t left_;
};

std::string exactly(ObjectReader& reader, std::uint64_t size) {
    std::string bytes(size, '\0');
    Section section(reader, size);
    for (std::size_t filled = 0; filled < size;) filled += section.read(std::span(bytes).subspan(filled));
    return bytes;
}

}  // namespace

Digest packBefore(const TreeRoot& root, const ChangeSet& changes, Objects& objects) {
    PackSource source(root, changes);
    return objects.put(source);
}

UndoPack::UndoPack(ObjectReader reader, const ChangeSet& changes) : reader_(std::move(reader)) {
    const std::string raw = exactly(reader_, kLengthSize);
    std::uint64_t length = 0;
    for (std::size_t i = kLengthSize; i-- > 0;) length = length << 8 | static_cast<std::uint8_t>(raw[i]);
    if (length > std::min(kLargestHead, reader_.size()))
        throw Error(ErrorCode::kDamaged, "an undo object claims a head of {} bytes", length);
    const std::string head = exactly(reader_, length);
    CanonicalReader in(head, kDomain);
    for (std::uint64_t left = in.list(); left > 0; --left) entries_.push_back(decode(in, changes));
    in.end();
}

const PackedEntry* UndoPack::find(std::size_t change) const {
    const auto found = std::ranges::lower_bound(entries_, change, {}, &PackedEntry::change);
    return found != entries_.end() && found->change == change ? &*found : nullptr;
}

void UndoPack::contents(const std::function<bool(const PackedEntry&)>& wanted,
                        const std::function<void(const PackedEntry&, ByteSource&)>& take) {
    for (const PackedEntry& packed : entries_) {
        Section section(reader_, contentSize(packed.entry));
        if (packed.entry.type != EntryType::kDirectory && wanted(packed)) take(packed, section);
        section.skip();
    }
}

}  // namespace gradus
