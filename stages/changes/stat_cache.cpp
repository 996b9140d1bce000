#include "stages/changes/stat_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "stages/changes/base_view.h"
#include "stages/changes/git_work_tree.h"
#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::string_view kMagic = "gradus.stat-cache.1\n";
constexpr std::uint64_t kCap = std::uint64_t{1} << 30;

class Packer {
  public:
    void number(std::uint64_t value) { out_.append(reinterpret_cast<const char*>(&value), sizeof value); }
    void number(std::int64_t value) { number(static_cast<std::uint64_t>(value)); }
    void text(std::string_view value) {
        number(std::uint64_t{value.size()});
        out_ += value;
    }
    std::string& bytes() { return out_; }

  private:
    std::string out_;
};

/// Says false once something does not fit, and from then on.
class Unpacker {
  public:
    explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

    std::uint64_t number() {
        std::uint64_t value = 0;
        const std::string_view raw = take(sizeof value);
        if (good_) std::memcpy(&value, raw.data(), sizeof value);
        return value;
    }
    std::string_view text() { return take(number()); }
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

StatCache::StatCache(std::filesystem::path file) : file_(std::move(file)) {
    const auto bytes = readPlainFile(AT_FDCWD, file_, kCap);
    if (bytes && parse(*bytes)) return;
    rows_.clear();
    blobs_.clear();
    changed_ = true;
}

StatCache::Row StatCache::rowOf(const struct stat& info) {
    Row row;
    row.device = info.st_dev;
    row.inode = info.st_ino;
    row.size = static_cast<std::uint64_t>(info.st_size);
    row.modified = info.st_mtim.tv_sec;
    row.modifiedNanos = info.st_mtim.tv_nsec;
    row.changed = info.st_ctim.tv_sec;
    row.changedNanos = info.st_ctim.tv_nsec;
    row.mode = info.st_mode;
    return row;
}

std::optional<FileScan> StatCache::find(const std::string& path, const struct stat& info, BlobNaming naming) {
    const auto found = rows_.find(path);
    if (found == rows_.end()) return std::nullopt;
    Row& row = found->second;
    const Row now = rowOf(info);
    const bool isSame = now.device == row.device && now.inode == row.inode && now.size == row.size &&
                        now.modified == row.modified && now.modifiedNanos == row.modifiedNanos &&
                        now.changed == row.changed && now.changedNanos == row.changedNanos && now.mode == row.mode;
    if (!isSame || (naming != BlobNaming::kNone && row.blob.empty())) return std::nullopt;
    row.used = true;
    FileScan scan;
    scan.info = info;
    scan.entry = S_ISLNK(row.mode) ? Entry{EntryType::kSymlink, 0777, row.digest, row.size}
                                   : Entry{EntryType::kFile, row.mode & 0777, row.digest, row.size};
    scan.blob = row.blob;
    return scan;
}

void StatCache::remember(const std::string& path, const FileScan& scan, const timespec& since) {
    if (!isSettled(scan.info.st_ctim, since) || !isSettled(scan.info.st_mtim, since)) return;
    Row row = rowOf(scan.info);
    row.digest = scan.entry.digest;
    row.blob = scan.blob;
    row.used = true;
    rows_[path] = std::move(row);
    changed_ = true;
}

const KnownBlob* StatCache::blob(const std::string& id) {
    const auto found = blobs_.find(id);
    if (found == blobs_.end()) return nullptr;
    found->second.used = true;
    return &found->second.blob;
}

void StatCache::remember(const std::string& id, const KnownBlob& blob) {
    blobs_[id] = {blob, true};
    changed_ = true;
}

bool StatCache::parse(std::string_view bytes) {
    if (bytes.size() < kMagic.size() + Digest::kSize || !bytes.starts_with(kMagic)) return false;
    const std::string_view body = bytes.substr(0, bytes.size() - Digest::kSize);
    if (sha256(body).view() != bytes.substr(body.size())) return false;
    Unpacker in(body.substr(kMagic.size()));
    for (std::uint64_t left = in.number(); left > 0 && in.good(); --left) {
        std::string path(in.text());
        Row row;
        row.device = in.number();
        row.inode = in.number();
        row.size = in.number();
        row.modified = static_cast<std::int64_t>(in.number());
        row.modifiedNanos = static_cast<std::int64_t>(in.number());
        row.changed = static_cast<std::int64_t>(in.number());
        row.changedNanos = static_cast<std::int64_t>(in.number());
        row.mode = static_cast<std::uint32_t>(in.number());
        row.digest = in.digest();
        row.blob = in.text();
        rows_.emplace(std::move(path), std::move(row));
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
    const auto isUsed = [](const auto& row) { return row.second.used; };
    Packer out;
    out.bytes() = kMagic;
    out.number(static_cast<std::uint64_t>(std::count_if(rows_.begin(), rows_.end(), isUsed)));
    for (const auto& [path, row] : rows_) {
        if (!row.used) continue;
        out.text(path);
        out.number(row.device);
        out.number(row.inode);
        out.number(row.size);
        out.number(row.modified);
        out.number(row.modifiedNanos);
        out.number(row.changed);
        out.number(row.changedNanos);
        out.number(std::uint64_t{row.mode});
        out.bytes() += row.digest.view();
        out.text(row.blob);
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

// Not synced: its own digest tells a torn one, which is then an empty one.
void StatCache::save() const {
    if (!changed_ || file_.empty()) return;
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
