#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "plugins/host/host_command.h"
#include "policies/language/pipeline.h"
#include "stages/changes/file_operations.h"
#include "stages/changes/tree_writer.h"
#include "stages/drivers/obstruction.h"
#include "store/model/change_set.h"
#include "store/model/checkpoint.h"
#include "store/model/clock.h"
#include "store/objects.h"

namespace gradus {

/// What a target is, whichever way a file names it. The lock belongs to this, not to a stage or a project.
struct TargetIdentity {
    std::string driver;
    std::string canonical;         ///< the key of a directory (TargetIdentity::at()), repository and ref, or a name
    std::filesystem::path marker;  ///< what TargetLock locks and writes; empty: nothing to lock
    /// It lies in the project or its repository: a copy of that has a copy of the marker, and is a target of its own.
    bool isInProject = false;
    std::string older = {};  ///< without the device's number, as releases before the key named it; empty: never so

    /// What a promotion recorded names this target, also if an older release recorded it by the device's number.
    bool isNamedBy(const std::string& recorded) const;
    /// A target in a directory, or with `inside` what is in there. The same after a reboot, a remount and a move.
    static TargetIdentity at(std::string driver, const std::filesystem::path& directory, const std::string& inside,
                             std::filesystem::path marker, bool isInProject = false);
};

/// The tree that a stage holds.
struct HeldTree {
    std::filesystem::path directory;  ///< where it can be read; never to be written
    Digest digest;                    ///< another one whenever the tree is another
    /// Paths in the directory that a check built: no part of the tree that a change is about. Directories that are
    /// there only because of them are named, too.
    std::vector<std::string> outputs = {};
};

/// Where the two trees of a promotion lie, as far as they lie anywhere by themselves. Never to be written.
struct StageTrees {
    std::optional<std::filesystem::path> next;      ///< prepared, whether it is shown yet or not
    std::optional<std::filesystem::path> previous;  ///< what was shown before
};

/// What is to be brought in, and what a commit of it would say.
struct StageChange {
    std::int64_t promotion = 0;
    /// Against the tree that the stage holds, or the seed: every `before` holds there.
    ChangeSet changes;
    /// Only for an empty stage: it begins as a copy of this directory, without what `leftOut` names.
    std::optional<std::filesystem::path> seed;
    std::vector<std::string> leftOut;  ///< relative paths below the seed: ignored files; `.git` goes without saying
    std::string title;
    std::string message;                                        ///< what follows the title
    std::string author;                                         ///< "Name <mail>"; empty: the driver's own
    std::vector<std::pair<std::string, std::string>> trailers;  ///< "Gradus-Change", "c12.1"
    std::vector<std::string> granted;                           ///< protected paths that the rules allow
    std::string handle;                                         ///< "c12.1", for what `activate` is told
    /// What checks built of the resulting tree: additions to it, contents among the objects. Only for a driver that
    /// carries such.
    ChangeSet outputs = {};
};

struct ApplyOutcome {
    bool applied = false;             ///< false: nothing of it is left in the target
    std::vector<Conflict> conflicts;  ///< why not: somebody was faster
    std::string failure;              ///< why not: `activate` said no, in a line
    std::string log;                  ///< what the target's own commands printed
    std::vector<std::string> notes;   ///< for a person
};

struct RollbackOutcome {
    bool complete = false;  ///< the target is the checkpoint again, but for what is kept
    /// By path: edited by somebody since, and left to them. The stage is held then.
    std::vector<Kept> kept;
    /// What is not as the checkpoint says and nobody but us could have touched, or could not be put back: stuck.
    std::vector<std::string> problems;
    /// The machine failed at one of them, rather than a command or a person: rollback() may get on when called again.
    bool isWorthAnother = false;
    std::string log;
    /// All that the change says was there before it came, so there was nothing of it to take back.
    bool wroteNothing = false;
};

/// What a driver gets from whoever calls it; everything borrowed outlives it.
struct DriverContext {
    const Stage& stage;             ///< the driver's own keys are in its settings
    std::filesystem::path project;  ///< real path; relative paths of the file are relative to it
    std::filesystem::path state;    ///< a directory of this target's own, for journals and manifests; made if missing
    Objects& objects;
    FileOperations& files;  ///< every call that changes a target goes through it
    Random& random;
    const Clock& clock;
    /// Runs a command of the trusted rules on the host (`activate`).
    std::function<HostOutcome(const HostCommand&)> run;
    std::stop_token cancel;
    std::vector<std::string> environment;  ///< NAME=value: what such a command starts from
    /// Remembers digests of the project's files (WorkTreeRequest::cache); empty: nothing is remembered.
    std::filesystem::path treeCache = {};
    std::string store = {};              ///< Store::storeId(), to tell another store's target; empty: not told
    std::filesystem::path reserve = {};  ///< a file that is given up where going back finds a full disk; empty: none
};

/// Moves trees into one target and back. checkpoint, apply, observe and rollback may be repeated, and interrupted by
/// kill -9 at any instant, in any process: calling them again leads to the same end. The caller holds the target's lock
/// from checkpoint() on. Faults throw Error; one thread at a time.
class StageDriver {
  public:
    virtual ~StageDriver() = default;

    /// Reads only. Throws Error for a target that cannot be one, with the cure.
    virtual TargetIdentity identity() const = 0;

    /// Nothing: the stage is empty, so it is seeded first. Reads only. Throws Error(kNotAllowed) where something is
    /// that we did not put there and nobody adopted.
    virtual std::optional<HeldTree> held() const = 0;

    /// Where that tree lies, without a look at what is in it. Nothing: the stage is empty.
    virtual std::optional<std::filesystem::path> shown() const = 0;

    /// The tree that it holds, without what was built: what held() is a digest of, as a value. Nothing: the stage is
    /// empty, or only reading its directory tells.
    virtual std::optional<Manifest> source() const { return std::nullopt; }

    /// For commands that are run around apply().
    virtual StageTrees trees(const Checkpoint& /*checkpoint*/) const { return {}; }

    /// What was promoted, is shown, and is not what it was any more, while nobody but us has anything to do there.
    virtual std::vector<Kept> departed(const Checkpoint& /*checkpoint*/) const { return {}; }

    /// Takes what is there as the first stable state. Only looking gives and throws the same, and leaves no trace.
    enum class Adopting { kTake, kLook };
    virtual HeldTree adopt(Adopting how) = 0;

    /// Another tree is there than the one on record, where shown() does not look at it. Reads only.
    virtual std::optional<Conflict> foreignTree() const { return std::nullopt; }

    /// What it holds is another tree only because of us: any other was put there by somebody's hand.
    virtual bool holdsOnlyOurs() const { return false; }

    /// Whether shown() looks at what is there, rather than at a copy of ours.
    virtual bool canLook() const { return true; }

    /// Takes a person's word for what is there, where nobody can look: a tree that the stage had, or nothing. Throws
    /// Error(kUsage) where looking tells, Error(kNotAllowed) for a tree that is not kept.
    virtual std::optional<HeldTree> vouchedFor(const std::optional<Digest>& tree, Adopting how);

    /// Everything that speaks against it now. Reads only.
    virtual std::vector<Conflict> conflicts(const StageChange& change) const = 0;

    /// Prepares everything that can be prepared unseen, and makes sure that it can be taken back. Durable when it
    /// returns; what the stage shows is untouched. Throws Error(kNotAllowed) when a `before` no longer holds.
    virtual Checkpoint checkpoint(const StageChange& change) = 0;

    /// Nothing is prepared any more, and what was to come in did not: a target that was made for it alone goes again.
    virtual void leave() {}

    /// All of it, durable, or nothing. Applying what is applied does nothing but run `activate` again.
    virtual ApplyOutcome apply(const Checkpoint& checkpoint) = 0;

    /// Between: go back. After: go on, once tidy() has removed what an interrupted apply() left beside it.
    enum class Observed { kBefore, kAfter, kBetween };
    /// Reads only.
    virtual Observed observe(const Checkpoint& checkpoint) const = 0;

    /// Why rollback() could not bring back what was there, as sentences. Reads only.
    virtual std::vector<std::string> lost(const Checkpoint& /*checkpoint*/) const { return {}; }

    /// What would keep rollback() from coming to its end now; asked where nothing is lost. Reads only.
    virtual std::optional<Obstruction> obstruction(const Checkpoint& /*checkpoint*/) const { return std::nullopt; }

    /// Back to the checkpoint: needs no network and asks nobody. What the stage shows is let go of only once what comes
    /// back is seen to be whole.
    virtual RollbackOutcome rollback(const Checkpoint& checkpoint) = 0;

    /// The tree that the target shows after apply(), for the record. Nothing: only reading all of it would tell.
    virtual std::optional<Digest> treeAfter(const Checkpoint& checkpoint) const = 0;

    /// Removes temporaries, and what was prepared and is in use by none of `needed`: left by a crash between
    /// checkpoint() and its record, or by promotions that nobody will take back any more. What the stage shows is
    /// untouched.
    virtual void tidy(const std::vector<Checkpoint>& needed) = 0;
};

/// How long a command of the stage's driver may take: its `timeout`.
Milliseconds patienceOf(const Stage& stage);

/// Makes the driver that `context.stage` names. Throws Error(kNotAllowed) for one that is not known.
std::unique_ptr<StageDriver> makeDriver(const DriverContext& context);

}  // namespace gradus
