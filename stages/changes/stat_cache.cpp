#include "stages/changes/stat_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "stages/changes/base_view.h"
#include "stages/changes/git_work_tree.h"
#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::string_view kMagic = "gradus.stat-cache.2\n";
constexpr std::uint64_t kCap = std::uint64_t{1} << 30;

// What a look costs, roughly, in nanoseconds: only which of two ways is the cheaper depends on these.
constexpr std::uint64_t kReadingAFile = 15'000;
constexpr std::uint64_t kReadingAByte = 1;
constexpr std::uint64_t kWritingARow = 300;

class Packer {
  public:
    void number(std::uint64_t value) { raw(value); }
    void text(std::string_view value) {
        raw(static_cast<std::uint32_t>(value.size()));
        out_ += value;
    }
    template <typename Value>
    void raw(const Value& value) {
        static_assert(std::is_trivially_copyable_v<Value>);
        out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    std::string& bytes() { return out_; }

  private:
    std::string out_;
};

/// Says false once something does not fit, and from then on.
class Unpacker {
  public:
    explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

    template <typename Value>
    Value raw() {
        Value value{};
        const std::string_view taken = take(sizeof value);
        if (good_) std::memcpy(&value, taken.data(), sizeof value);
        return value;
    }
    std::uint64_t number() { return raw<std::uint64_t>(); }
    std::string_view text() { return take(raw<std::uint32_t>()); }
    Digest digest() { return Digest::fromBytes(take(Digest::kSize)).value_or(Digest{}); }
    bool good() const { return good_; }
    bool atEnd() const { return rest_.empty(); }

  private:
    std::string_view take(std::uint64_t size) {
        good_ = good_ && size <= rest_.size();
        if (!good_) return {};
        const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size));
        rest_.remove_prefix(taken.size());
        return taken;
    }

    std::string_view rest_;
    bool good_ = true;
};

}  // namespace

StatCache::Directory::Stamp StatCache::Directory::stampOf(const struct stat& info) {
    Stamp stamp;
    stamp.device = info.st_dev;
    stamp.inode = info.st_ino;
    stamp.size = static_cast<std::uint64_t>(info.st_size);
    stamp.modified = info.st_mtim.tv_sec;
    stamp.modifiedNanos = info.st_mtim.tv_nsec;
    stamp.changed = info.st_ctim.tv_sec;
    stamp.changedNanos = info.st_ctim.tv_nsec;
    stamp.mode = info.st_mode;
    return stamp;
}

void StatCache::Directory::unpack() {
    Unpacker in(packed_);
    while (in.good() && !in.atEnd()) {
        Row row;
        row.name = in.text();
        row.stamp = in.raw<Stamp>();
        row.digest = in.digest();
        row.blob = in.text();
        if (in.good()) rows_.push_back(row);
    }
    asked_ = true;
}

StatCache::Directory::Row* StatCache::Directory::rowOf(std::string_view name) {
    if (!asked_) unpack();
    if (next_ < rows_.size() && rows_[next_].name == name) return &rows_[next_++];
    if (byName_.empty())
        for (std::size_t i = 0; i < rows_.size(); ++i) byName_.emplace(rows_[i].name, i);
    const auto found = byName_.find(name);
    if (found == byName_.end()) return nullptr;
    next_ = found->second + 1;
    return &rows_[found->second];
}

std::optional<KnownFile> StatCache::Directory::find(std::string_view name, const struct stat& info, BlobNaming naming) {
    Row* const row = rowOf(name);
    if (row == nullptr || row->stamp != stampOf(info)) return std::nullopt;
    if (naming != BlobNaming::kNone && row->blob.empty()) return std::nullopt;
    row->used = true;
    const Entry entry = S_ISLNK(info.st_mode)
                            ? Entry{EntryType::kSymlink, 0777, row->digest, row->stamp.size}
                            : Entry{EntryType::kFile, info.st_mode & 0777, row->digest, row->stamp.size};
    return KnownFile{entry, std::string(row->blob)};
}

std::string_view StatCache::Directory::keep(std::string_view text) { return texts_.emplace_back(text); }

void StatCache::Directory::remember(std::string_view name, const FileScan& scan, const timespec& since) {
    if (!isSettled(scan.info.st_ctim, since) || !isSettled(scan.info.st_mtim, since)) return;
    Row* row = rowOf(name);
    if (row == nullptr) {
        row = &rows_.emplace_back();
        row->name = keep(name);
        if (!byName_.empty()) byName_.emplace(row->name, rows_.size() - 1);
    }
    row->stamp = stampOf(scan.info);
    row->digest = scan.entry.digest;
    row->blob = keep(scan.blob);
    row->used = true;
    ++newFiles_;
    newBytes_ += scan.entry.size;
}

std::string StatCache::Directory::encode() const {
    const bool isUnchanged =
        newFiles_ == 0 && std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.used; });
    if (isUnchanged) return std::string(packed_);
    Packer out;
    for (const Row& row : rows_) {
        if (!row.used) continue;
        out.text(row.name);
        out.raw(row.stamp);
        out.bytes() += row.digest.view();
        out.text(row.blob);
    }
    return std::move(out.bytes());
}

StatCache::StatCache(std::filesystem::path file) : file_(std::move(file)) {
    bytes_ = readPlainFile(AT_FDCWD, file_, kCap).value_or("");
    if (parse(bytes_)) return;
    directories_.clear();
    blobs_.clear();
    isNew_ = true;
}

StatCache::Directory& StatCache::directory(const std::string& path) { return directories_[path]; }

const KnownBlob* StatCache::blob(const std::string& id) {
    const auto found = blobs_.find(id);
    if (found == blobs_.end()) return nullptr;
    found->second.used = true;
    return &found->second.blob;
}

void StatCache::remember(const std::string& id, const KnownBlob& blob) {
    blobs_[id] = {blob, true};
    hasNewBlobs_ = true;
}

bool StatCache::parse(std::string_view bytes) {
    if (bytes.size() < kMagic.size() + Digest::kSize || !bytes.starts_with(kMagic)) return false;
    const std::string_view body = bytes.substr(0, bytes.size() - Digest::kSize);
    if (sha256(body).view() != bytes.substr(body.size())) return false;
    Unpacker in(body.substr(kMagic.size()));
    for (std::uint64_t left = in.number(); left > 0 && in.good(); --left) {
        const std::string_view path = in.text();
        directories_[std::string(path)].packed_ = in.text();
    }
    for (std::uint64_t left = in.number(); left > 0 && in.good(); --left) {
        std::string id(in.text());
        const Digest digest = in.digest();
        const std::uint64_t size = in.number();
        blobs_[std::move(id)] = {{digest, size, in.number() != 0}, false};
    }
    return in.good() && in.atEnd();
}

std::string StatCache::encode() const {
    const auto isAsked = [](const auto& entry) { return entry.second.asked_; };
    const auto isUsed = [](const auto& row) { return row.second.used; };
    Packer out;
    out.bytes().reserve(bytes_.size());
    out.bytes() = kMagic;
    out.number(static_cast<std::uint64_t>(std::count_if(directories_.begin(), directories_.end(), isAsked)));
    for (const auto& [path, directory] : directories_) {
        if (!directory.asked_) continue;
        out.text(path);
        out.text(directory.encode());
    }
    out.number(static_cast<std::uint64_t>(std::count_if(blobs_.begin(), blobs_.end(), isUsed)));
    for (const auto& [id, row] : blobs_) {
        if (!row.used) continue;
        out.text(id);
        out.bytes() += row.blob.digest.view();
        out.number(row.blob.size);
        out.number(std::uint64_t{row.blob.isLfsPointer});
    }
    out.bytes() += sha256(out.bytes()).view();
    return std::move(out.bytes());
}

bool StatCache::isWorthSaving() const {
    if (file_.empty()) return false;
    if (isNew_ || hasNewBlobs_) return true;
    std::uint64_t again = 0;
    std::uint64_t rows = 0;
    for (const auto& [path, directory] : directories_) {
        again += directory.newFiles_ * kReadingAFile + directory.newBytes_ * kReadingAByte;
        rows += directory.rows_.size();
    }
    return again > rows * kWritingARow;
}

// Not synced: its own digest tells a torn one, which is then an empty one.
void StatCache::save() const {
    if (!isWorthSaving()) return;
    const std::filesystem::path made = file_.native() + "." + std::to_string(::getpid());
    try {
        makeDirectories(file_.parent_path());
        writeAll(openFile(made, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW).get(), encode(), made);
        if (::rename(made.c_str(), file_.c_str()) != 0) ::unlink(made.c_str());
    } catch (const Error&) {
        // A full disk, or a directory that may not be written: the next run reads the files again.
        ::unlink(made.c_str());
    }
}

}  // namespace gradus
