#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "store/file.h"
#include "store/model/clock.h"
#include "store/model/digest.h"

namespace gradus {

/// A place beside the data while some is made; gone with its scope, or found by ServiceData::collect() after a kill.
class DataRoom {
  public:
    static constexpr const char* kPrefix = "inputs-";

    explicit DataRoom(const std::filesystem::path& root);
    DataRoom(const DataRoom&) = delete;
    DataRoom& operator=(const DataRoom&) = delete;
    ~DataRoom();
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
    FileDescriptor held_;  ///< locked as long as it is in use
};

/// The data that services start with, at rest: one directory for each way it came to be, never written again. Any
/// number of processes; one at a time makes one of them.
class ServiceData {
  public:
    /// `root` is a directory of ours, made when it is first needed.
    explicit ServiceData(std::filesystem::path root) : root_(std::move(root)) {}

    /// An empty directory of that owner.
    std::filesystem::path nothing(uid_t uid, gid_t gid) const;

    /// The directory of that key, for data that is shown at `of`; made by `make`, into an empty directory, where there
    /// is none.
    std::filesystem::path find(const Digest& key, const std::filesystem::path& of,
                               const std::function<void(const std::filesystem::path&)>& make) const;

    /// A directory of the host as it is, if it is at rest: copied once, and again when anything in it has changed. The
    /// key comes back with it. No link is followed on the way to it, and nothing of it is changed. Throws Error(kBusy)
    /// with the reason where a server has it in use: by pid files, locks, and, as far as this user can see them, files
    /// that processes have open for writing.
    std::pair<Digest, std::filesystem::path> copyOf(const std::filesystem::path& directory) const;

    /// Moves those to the trash that nobody asked for since `before` and `isNeeded` does not claim, and what was left
    /// half made. Gives the number of the former.
    std::uint64_t collect(Time before,
                          const std::function<bool(const Digest& key, const std::filesystem::path& of)>& isNeeded,
                          const std::filesystem::path& trash) const;

  private:
    std::filesystem::path root_;
};

/// Everything below a directory, with modes and contents.
Digest contentDigest(const std::filesystem::path& directory);

}  // namespace gradus
