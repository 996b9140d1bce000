#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "store/model/actor.h"
#include "store/model/clock.h"
#include "store/model/digest.h"
#include "store/model/names.h"

namespace gradus {

enum class SandboxKind {
    kTransient,  ///< owned by the process that made it, and gone with it
    kKept,       ///< owned by its row: nothing but layers on disk between commands
};

inline constexpr std::array kSandboxKinds{
    Name<SandboxKind>{SandboxKind::kTransient, "transient"},
    Name<SandboxKind>{SandboxKind::kKept, "kept"},
};

/// Why a sandbox ended.
enum class SandboxEnd {
    kDiscarded,  ///< a transient one whose work was done
    kRemoved,    ///< somebody removed it
    kExpired,    ///< nobody used it for its lifetime
    kReaped,     ///< its owner was dead
    kFailed,     ///< it could not be set up
};

inline constexpr std::array kSandboxEnds{
    Name<SandboxEnd>{SandboxEnd::kDiscarded, "discarded"}, Name<SandboxEnd>{SandboxEnd::kRemoved, "removed"},
    Name<SandboxEnd>{SandboxEnd::kExpired, "expired"},     Name<SandboxEnd>{SandboxEnd::kReaped, "reaped"},
    Name<SandboxEnd>{SandboxEnd::kFailed, "failed"},
};

/// One process and no other, for as long as the record lasts: a pid alone is given out again.
struct ProcessIdentity {
    std::string bootId;
    std::int64_t pidNamespace = 0;  ///< its inode: a pid means something only there
    std::int64_t pid = 0;
    std::int64_t startTime = 0;  ///< clock ticks since boot, field 22 of /proc/PID/stat

    bool operator==(const ProcessIdentity&) const = default;
};

/// "BOOT NAMESPACE PID START": how it stands in events and columns.
std::string formatOwner(const ProcessIdentity& owner);
/// Throws Error(kDamaged) for anything formatOwner does not give.
ProcessIdentity parseOwner(std::string_view text);

/// A sandbox as remembered.
struct SandboxRecord {
    std::int64_t id = 0;
    std::int64_t project = 0;
    ActorId actor = 0;
    SandboxKind kind = SandboxKind::kTransient;
    std::optional<SandboxEnd> ended;  ///< nothing while it lives
    std::optional<std::string> name;  ///< kept ones; nothing once redacted
    /// What it is a clone of: a commit, else the directory as it is.
    std::optional<std::string> commit;
    bool system = false;  ///< of the whole system, not of the project alone
    /// The file system's own clock just before the directory was first shown inside.
    timespec since{};
    /// The layer that takes its changes; the ones below are found through it.
    std::int64_t layer = 0;
    std::optional<std::int64_t> forkedFrom;
    std::optional<ProcessIdentity> owner;  ///< transient ones
    Milliseconds lifetime{0};              ///< kept ones: after the last use
    Time createdAt{};
    Time usedAt{};
    std::optional<Time> endedAt;
    std::optional<Digest> changeSet;  ///< an object, stored when it expired

    Time expiresAt() const { return usedAt + lifetime; }
};

/// What a sandbox looked like at one moment, to go back to.
struct SnapshotRecord {
    std::int64_t id = 0;
    std::int64_t sandbox = 0;
    std::int64_t layer = 0;  ///< the topmost frozen one
    std::optional<std::string> name;
    Time takenAt{};
};

/// A directory of changes over what is below it. A frozen one is never written again and may be shared.
struct LayerRecord {
    std::int64_t id = 0;
    std::optional<std::int64_t> below;  ///< nothing: it lies on the base itself
    std::int64_t sandbox = 0;           ///< that made it
    bool frozen = false;
    /// A command may have written to it. Until then a missing directory is a creation that was cut short; from then on
    /// it is damage.
    bool used = false;
};

}  // namespace gradus
