#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "stages/changes/file_operations.h"
#include "stages/drivers/driver.h"
#include "store/file.h"
#include "store/model/clock.h"

namespace gradus {

/// Whose a target is: what its marker says.
struct TargetClaim {
    std::string store;    ///< Store::storeId()
    std::string state;    ///< that store's directory, for people
    std::string project;  ///< path
    std::string stage;
    std::int64_t promotion = 0;  ///< the last one
    /// The target's directory was not there before it was first locked, so going back to nothing removes it.
    bool madeDirectory = false;

    bool operator==(const TargetClaim&) const = default;
    /// Lines of "name value", with a checksum as the last.
    std::string encode() const;
    /// Throws Error(kDamaged) unless `text` is exactly what encode() gives.
    static TargetClaim decode(std::string_view text);
};

/// A target that is ours until this is gone. The lock goes with the process, however that ends; the claim in the
/// marker stays, so that a second store on the same target is refused even while nothing runs.
class TargetLock {
  public:
    struct Options {
        Milliseconds patience{10'000};  ///< how long to wait for another process of the same store
        bool takeOver = false;          ///< the target may be another store's
        /// Going back must work on a full disk: a claim of ours that is there is enough, whichever promotion it names.
        bool isWayBack = false;
        /// Shown what the marker says, under the lock and before it says anything else; throws what keeps us out.
        std::function<void(const TargetClaim& found)> look = {};
    };

    /// Throws Error(kBusy) when it is still held after the patience, Error(kNotAllowed) when another store or another
    /// project claims it.
    /// The claim is durable when this returns, unless it is a way back that found one of the same store;
    /// `madeDirectory` of what is given does not count.
    static TargetLock take(const TargetIdentity& target, TargetClaim claim, FileOperations& files,
                           const Options& options);
    static TargetLock take(const TargetIdentity& target, TargetClaim claim, FileOperations& files);

    /// Throws what take() would throw for a target that another store or another project claims. Reads only.
    static void requireOurs(const TargetIdentity& target, const TargetClaim& claim);
    /// Throws Error(kNotAllowed) when a marker names another store.
    static void refuseOtherStore(const TargetClaim& found, const std::string& store,
                                 const std::filesystem::path& marker);
    /// Throws Error(kNotAllowed) when a marker names another project of the same store that is still there.
    static void refuseOtherProject(const TargetClaim& found, const std::filesystem::path& project,
                                   const std::filesystem::path& marker);
    /// Removes what a process that was killed while it wrote the marker left beside it; not while another has the lock.
    static void dropLeft(const TargetIdentity& target, FileOperations& files);
    /// What the marker says; nothing where there is none. Reads only. Throws Error(kDamaged).
    static std::optional<TargetClaim> claimOf(const std::filesystem::path& marker);

  private:
    explicit TargetLock(FileDescriptor held) : held_(std::move(held)) {}
    FileDescriptor held_;  ///< none: a target that needs no lock
};

}  // namespace gradus
