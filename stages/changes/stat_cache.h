#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "stages/changes/file_scan.h"

namespace gradus {

/// What a content of the repository is, by git's name for it.
struct KnownBlob {
    Digest digest;
    std::uint64_t size = 0;
    bool isLfsPointer = false;  ///< it only names what git LFS keeps elsewhere
};

/// Digests of files by inode, size, mode and times, kept in a file between runs. A file is remembered only if its last
/// change lies beyond doubt before it was read: one that is written again within the same tick of the file system's
/// clock would otherwise look unchanged. Only speed depends on the cache: a file that is missing or damaged is an empty
/// one. One thread at a time.
class StatCache {
  public:
    explicit StatCache(std::filesystem::path file);

    /// What is known of `path`, if the file there is the one that was read.
    std::optional<FileScan> find(const std::string& path, const struct stat& info, BlobNaming naming);
    /// `since`: the file system's clock before it was read.
    void remember(const std::string& path, const FileScan& scan, const timespec& since);

    const KnownBlob* blob(const std::string& id);
    void remember(const std::string& id, const KnownBlob& blob);

    /// Writes what was found or remembered since, and forgets the rest. Failing to is no fault.
    void save() const;

  private:
    struct Row {
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        std::uint64_t size = 0;
        std::int64_t modified = 0;
        std::int64_t modifiedNanos = 0;
        std::int64_t changed = 0;
        std::int64_t changedNanos = 0;
        std::uint32_t mode = 0;
        Digest digest;
        std::string blob{};
        bool used = false;
    };
    struct BlobRow {
        KnownBlob blob;
        bool used = false;
    };

    static Row rowOf(const struct stat& info);
    bool parse(std::string_view bytes);
    std::string encode() const;

    std::filesystem::path file_;
    std::unordered_map<std::string, Row> rows_;
    std::unordered_map<std::string, BlobRow> blobs_;
    bool changed_ = false;
};

}  // namespace gradus
