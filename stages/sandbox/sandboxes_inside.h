#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "stages/sandbox/clone.h"
#include "stages/sandbox/clone_commit.h"
#include "stages/sandbox/layered_tree.h"
#include "stages/sandbox/layers.h"
#include "stages/sandbox/sandbox_lock.h"
#include "stages/sandbox/sandboxes.h"
#include "stages/sandbox/service_data.h"
#include "stages/sandbox/service_room.h"
#include "store/sandbox_writer.h"

namespace gradus {

/// A kept sandbox in our hands: nobody else uses it until the lock goes.
struct HeldSandbox {
    SandboxLock lock;
    SandboxRecord record;
    ProjectIdentity project;
    std::vector<LayerRecord> chain;  ///< its own layer first, then the frozen ones
};

/// A backend, and what it proved here.
struct Confiner {
    IsolationBackend& backend;
    const ProbeResult& proofs;
};

/// The overlays of a plan, by number, that are git's own directories outside of the project's, and what each lies on.
std::vector<std::pair<std::size_t, std::filesystem::path>> repositoriesIn(const ClonePlan& plan);

/// What a copy of the system changed, by the overlays of its plan; `layers` gives those of one of them.
SystemChanges systemChangesIn(const ClonePlan& plan, const std::function<std::vector<int>(std::size_t)>& layers,
                              const HarvestOptions& options);

/// The data of one service in one sandbox: what lies below, and where it is shown.
struct ServiceDatum {
    std::filesystem::path target;
    std::filesystem::path lower;
    /// What a kept sandbox calls its part of it: another template begins another part.
    std::filesystem::path part;
};
std::filesystem::path partNameOf(const std::filesystem::path& target, const Digest& key);

/// What a sandbox shows before its command, opened when it is asked for.
using Shown = std::function<LayeredTree()>;

/// The services around one run: what they add to its plan, and what became of them.
class ServicesAround {
  public:
    /// Makes their data ready, which may run commands. `plan` gets what they need. A kept sandbox shows `shown`, any
    /// other what lies below it.
    ServicesAround(Sandboxes::Inside& inside, const CommandRequest& command, const CloneRequest& clone, ClonePlan& plan,
                   const Shown& shown = nullptr);

    /// Overlays of the plan that hold data, and their names as parts.
    const std::vector<std::pair<std::size_t, std::filesystem::path>>& parts() const { return parts_; }
    Outcome run(Sandbox& sandbox, Command command);
    /// After the run; without services nothing.
    void addTo(ExecutionReport& report) const;

  private:
    Sandboxes::Inside& inside_;
    const CommandRequest& request_;
    std::optional<ServiceRoom> room_;
    std::vector<std::pair<std::size_t, std::filesystem::path>> parts_;
    std::vector<ServiceReport> reports_;
};

/// What the files of Sandboxes share.
struct Sandboxes::Inside {
    explicit Inside(Surroundings surroundings) : around(std::move(surroundings)) {}

    Surroundings around;
    std::mutex mutex;                  // the store, and what was made from it, are one thread's at a time
    std::optional<Layers> layerStore;  // needs the store's id
    std::map<IsolationBackend*, ProbeResult> proofs;
    std::optional<ProcessIdentity> self;

    template <typename Work>
    auto read(const Work& work) {
        const std::lock_guard guard(mutex);
        return work(around.store().records());
    }
    /// One durable transaction, by the one who is asking. Where the disk is full, what was discarded is deleted, and
    /// the work done once more.
    void write(const std::function<void(SandboxWriter&, Writer&)>& work,
               Store::Urgency urgency = Store::Urgency::kRoutine);
    const Layers& layers();
    std::filesystem::path layersRoot() const { return around.state.root / "sandboxes"; }
    /// What was discarded is deleted; gives the bytes. It needs neither the store nor room on the disk.
    std::uint64_t emptyTrash() const { return Layers::emptyTrash(layersRoot()); }
    /// The same for whoever cannot help it if that fails: `gradus gc` tells about it.
    std::uint64_t emptyTrashIfPossible() const noexcept;
    /// Records how a command ended. It has run: on a full disk that is told in its report, and false given.
    bool recordEnd(const std::function<void(SandboxWriter&, Writer&)>& work, ExecutionReport& report);
    /// The backend that runs it; throws Error where none proves what is demanded.
    Confiner confinerFor(const CommandRequest& request);
    const ProcessIdentity& me();
    Objects objects() const { return {around.state.objects(), around.clock}; }

    /// Throws Error(kNotFound) unless a living kept one has that id.
    SandboxRecord living(std::int64_t sandbox);
    SandboxView viewOf(const SandboxRecord& record);
    /// The sandbox locked, its layers whole, its project where it was.
    HeldSandbox hold(std::int64_t sandbox, const Patience& patience);
    HeldSandbox hold(SandboxLock lock, std::int64_t sandbox);
    SandboxLock lockOf(std::int64_t sandbox, const Patience& patience);
    /// Finishes what a crash cut short; throws Error(kDamaged) for what somebody changed.
    /// Those in `known` were looked at under the same lock.
    void makeWhole(const std::vector<LayerRecord>& chain, const HeldSandbox& held, const std::set<std::int64_t>& known);
    /// What its bottom layer lies on.
    struct Ground {
        std::filesystem::path base;
        bool stands = false;  ///< it is not the project, and does not move with it
    };
    Ground groundOf(const SandboxRecord& record, const ProjectIdentity& project, const std::vector<LayerRecord>& chain);
    Ground groundOf(const HeldSandbox& held) { return groundOf(held.record, held.project, held.chain); }
    MaterialisedCommit pinned(const std::filesystem::path& project, const std::string& commit) const;
    /// Where no disk limit is among these: the one that was given to the sandbox last, which stays until another is.
    void useStandingLimit(const HeldSandbox& held, Limits& limits);
    /// Puts the sandbox's own layer into an image where a disk limit is to be held, so that all of its layers together
    /// stay within it. Gives what the layers below it hold. Nothing where no image can hold it: it is watched then,
    /// unless disk-limit is demanded, which throws Error.
    std::optional<std::uint64_t> boundLayers(HeldSandbox& held, const CommandRequest& command, Limits& limits);
    /// The disk limit that was given to the sandbox last; nothing if none ever was.
    std::optional<std::uint64_t> limitOf(const std::vector<LayerRecord>& chain);
    /// Merges the frozen layers into one where there are too many.
    void squashIfDeep(const HeldSandbox& held);
    Harvest harvestOf(const HeldSandbox& held, const HarvestOptions& options);
    /// Throws Error(kNotAllowed) once its lifetime is over: what is in it can be read, and no use revives it.
    void requireUnexpired(const SandboxRecord& record) const;
    void end(const HeldSandbox& held, SandboxEnd reason, const std::optional<Digest>& changeSet);
    /// Directories of layers that nothing stands on go to the trash.
    std::uint64_t discardUnreachable(const std::vector<std::int64_t>& layers);

    /// Whether what a transient sandbox writes lies on disk instead of in memory.
    bool writesToDisk(const Limits& limits) const;
    CloneRequest cloneRequest(const std::filesystem::path& project, const CommandRequest& command) const;
    ExecutionReport reportOf(Outcome outcome, const Confiner& confiner, const CommandRequest& request,
                             std::int64_t execution, std::int64_t sandbox);
    /// For one that could not be set up: the record of that.
    Execution notRun(const Confiner& confiner, const CommandRequest& request, std::int64_t execution,
                     std::int64_t sandbox);

    void forgetCopies();
    /// Nothing when the files did not hold still.
    std::unique_ptr<PinnedBase> copied(const ProjectIdentity& project, PinPlan plan, const timespec& since,
                                       const std::vector<std::string>& restless);

    /// The data of a command's services, made ready before anything else is.
    std::vector<ServiceDatum> dataFor(const CommandRequest& command, const CloneRequest& clone, const ClonePlan& plan,
                                      const Shown& shown);
    void prepareData(const ServiceRequest& service, const CommandRequest& command, const CloneRequest& clone,
                     const std::filesystem::path& target, const std::filesystem::path& into);
    ServiceData serviceData() const { return ServiceData(around.state.root / "sandboxes/data"); }
    void collectData(CollectReport& report);

    /// A sandbox's own layer, open, and what it shows with all that lies below it.
    struct OpenTree {
        OpenLayer own;
        LayeredTree tree;
    };
    OpenTree openTree(const std::vector<LayerRecord>& chain, const std::filesystem::path& base, Layers::Access access);
    OpenTree treeOf(const HeldSandbox& held, Layers::Access access) {
        return openTree(held.chain, groundOf(held).base, access);
    }
    struct Files;
    /// The sandbox held, with what its layers show and who its files belong to.
    Files files(std::int64_t sandbox, const CommandRequest& request, Layers::Access access, const Patience& patience);
    /// Where something called `name` goes that is put at `inside`; empty `name`: only a file is meant.
    static std::vector<std::string> placeFor(const Files& files, const std::filesystem::path& inside,
                                             const std::string& name);
    /// Whole files at a time; those written before one that could not be stay.
    void writeFiles(const Files& files, const std::function<void(const LayerWriter&)>& work);
    Error explained(const Error& error, const Files& files);
    /// Of a failed command over a tree: its sandbox, as it was left, as a kept one. Nothing if it is too much to keep,
    /// or, with a warning, if it cannot be: then nothing is recorded.
    std::optional<std::int64_t> keepFailed(const SandboxRecord& record, const ResultingTree& tree, int upper,
                                           const ExecutionReport& report, Milliseconds lifetime);
    void copyGround(std::int64_t layer, const ResultingTree& tree, bool isProject);
    /// Once such a sandbox is kept and closed: what is not kept of it goes, and the oldest of its kind make room. What
    /// cannot be done is warned about.
    void tidyFailed(const SandboxRecord& record);
    void expireFailed(const SandboxRecord& record);

    void reap(CollectReport& report);
    void endDead(const std::vector<SandboxRecord>& dead, CollectReport& report);
    void collectTrash(CollectReport& report) const;
    void loseExecutions(CollectReport& report);
    void expire(CollectReport& report);
    void collectPinned(CollectReport& report);
    void sweep(CollectReport& report);
};

Command commandFrom(const CommandRequest& request, const ClonePlan& plan, std::int64_t sandbox);

/// Throws Error(kUsage) for a name that could be taken for something else, or not be shown on one line.
void checkName(const std::optional<std::string>& name, std::string_view what);

}  // namespace gradus
