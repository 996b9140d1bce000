#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <ctime>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stages/changes/file_scan.h"

namespace gradus {

/// What a content of the repository is, by git's name for it.
struct KnownBlob {
    Digest digest;
    std::uint64_t size = 0;
    bool isLfsPointer = false;  ///< it only names what git LFS keeps elsewhere
};

/// What a file is, without having been read again.
struct KnownFile {
    Entry entry;
    std::string blob;  ///< git's name for the content, where it was asked for
};

/// Digests of files by inode, size, mode and times, kept in a file between runs. A file is remembered only if its last
/// change lies beyond doubt before it was read: one that is written again within the same tick of the file system's
/// clock would otherwise look unchanged. Only speed depends on the cache: a file that is missing or damaged is an empty
/// one. One thread at a time, but for Directory.
class StatCache {
  public:
    explicit StatCache(std::filesystem::path file);
    StatCache(const StatCache&) = delete;
    StatCache& operator=(const StatCache&) = delete;

    /// What is known of the files of one directory. One thread at a time; those of two directories at once.
    class Directory {
      public:
        /// What is known of `name`, if the file there is the one that was read.
        std::optional<KnownFile> find(std::string_view name, const struct stat& info, BlobNaming naming);
        /// `since`: the file system's clock before it was read.
        void remember(std::string_view name, const FileScan& scan, const timespec& since);

      private:
        friend class StatCache;
        /// As it lies in the file.
        struct Stamp {
            std::uint64_t device = 0;
            std::uint64_t inode = 0;
            std::uint64_t size = 0;
            std::int64_t modified = 0;
            std::int64_t modifiedNanos = 0;
            std::int64_t changed = 0;
            std::int64_t changedNanos = 0;
            std::uint64_t mode = 0;
            bool operator==(const Stamp&) const = default;
        };
        struct Row {
            std::string_view name;
            Stamp stamp;
            Digest digest;
            std::string_view blob;
            bool used = false;
        };

        static Stamp stampOf(const struct stat& info);
        void unpack();
        Row* rowOf(std::string_view name);
        std::string_view keep(std::string_view text);
        std::string encode() const;

        std::string_view packed_;  ///< of the file's bytes: its rows, until somebody asks
        bool asked_ = false;
        std::vector<Row> rows_;
        std::size_t next_ = 0;  ///< names come in the order in which they came the last time
        std::unordered_map<std::string_view, std::size_t> byName_;  ///< made once they do not
        std::deque<std::string> texts_;                             ///< of rows that the file does not have
        std::uint64_t newFiles_ = 0;
        std::uint64_t newBytes_ = 0;
    };
    /// Stays where it is as long as the cache does.
    Directory& directory(const std::string& path);

    const KnownBlob* blob(const std::string& id);
    void remember(const std::string& id, const KnownBlob& blob);

    /// Writes what was found or remembered since, and forgets the rest; not where reading the few new files again costs
    /// less than writing all rows. Failing to is no fault.
    void save() const;

  private:
    struct BlobRow {
        KnownBlob blob;
        bool used = false;
    };

    bool parse(std::string_view bytes);
    bool isWorthSaving() const;
    std::string encode() const;

    std::filesystem::path file_;
    std::string bytes_;  ///< of the file; what is not asked for stays packed
    std::unordered_map<std::string, Directory> directories_;
    std::unordered_map<std::string, BlobRow> blobs_;
    bool isNew_ = false;  ///< there was no file that could be read
    bool hasNewBlobs_ = false;
};

}  // namespace gradus
