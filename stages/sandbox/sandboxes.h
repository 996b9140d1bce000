#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/api/isolation.h"
#include "stages/changes/harvest.h"
#include "stages/sandbox/clone.h"
#include "stages/sandbox/pinned_base.h"
#include "stages/sandbox/services.h"
#include "store/model/change_set.h"
#include "store/model/execution.h"
#include "store/model/sandbox.h"
#include "store/objects.h"
#include "store/store.h"

namespace gradus {

/// A command and how it is confined. The first four guarantees are demanded unless they are lowered here, visibly: in
/// the execution's record and in the audit log.
struct CommandRequest {
    std::vector<std::string> arguments;
    std::filesystem::path directory;  ///< where it starts: the project or below it; empty: the project
    std::string input;
    std::optional<int> inputFrom;          ///< instead: relayed from this descriptor, borrowed, as it comes
    std::optional<TerminalLink> terminal;  ///< instead of all input and of pipes: a person's, borrowed
    std::vector<std::string> passed;       ///< NAME or NAME=value that the command gets besides the usual ones
    std::vector<std::string> hide;         ///< patterns below the project that are shown empty
    std::vector<std::filesystem::path> hiddenPaths;  ///< stage targets; the state directory is hidden anyway
    std::vector<std::filesystem::path> show;         ///< outside of the project; read-only, although hidden otherwise
    /// Copy the whole system; the command is root inside. A kept sandbox is one or the other from its beginning.
    bool system = false;
    /// A required limit is enforced or the run refused.
    Limits limits;
    Network network = Network::kNone;  ///< any other gives up no-network
    std::vector<Guarantee> required;   ///< beyond the floor
    std::vector<Guarantee> without;    ///< of the floor
    bool strongest = false;            ///< the backend that proves most, whatever it costs
    CaptureBudget keepOut;
    CaptureBudget keepErr;
    /// Called with every piece of output as it arrives, on the calling thread.
    std::function<void(Stream, std::string_view)> live;
    Milliseconds grace{0};
    std::stop_token cancel;
    std::vector<std::string> remarks;  ///< for the report's notes
    /// Started before it, in this order, and stopped after it.
    std::vector<ServiceRequest> services;
    /// How long the sandbox of a command over a resulting tree is kept if it fails; not at all by default.
    Milliseconds keepFailed{0};
    bool reads = false;  ///< as ExecutionDraft has it
};

/// What becomes of a transient sandbox once its command has ended.
enum class Afterwards {
    kDiscard,
    kKeep,
    kKeepChanged,  ///< keep if anything changed, else discard
    kAsk,          ///< as kKeepChanged, but the caller decides through the Trial; undecided is discarded
};

struct TryRequest {
    std::filesystem::path project;       ///< real path
    std::optional<std::string> commit;   ///< clone this commit instead of the directory as it is
    const StandingBase* base = nullptr;  ///< or this, borrowed: one that several share
    CommandRequest command;
    Afterwards afterwards = Afterwards::kDiscard;
    /// For one that is kept. Refused if a living one has it already; if somebody takes it while the command runs, the
    /// sandbox is kept without, and a note of the report says so.
    std::optional<std::string> name;
    std::optional<Milliseconds> lifetime;
    bool withIgnored = false;
    /// Where the new contents go; without it they are hashed and not kept.
    Objects* contents = nullptr;
    /// Of paths that are looked at for changes; beyond it they are not listed, but kept.
    std::uint64_t mostChanges = HarvestOptions{}.maxEntries;
    /// Nothing of the caller's: an empty directory instead of the project, an empty home, hardly a variable; and the
    /// backend that proves most. It is always discarded.
    bool untrusted = false;
};

/// A tree that does not exist yet: a directory, and a change over it. Shown at the project's own path.
struct ResultingTree {
    std::filesystem::path project;       ///< real path
    std::filesystem::path directory;     ///< what lies below, only read: the project itself, a release, a seed
    std::vector<std::string> leftOut;    ///< relative paths of the directory that are not shown
    ChangeSet changes;                   ///< every `before` holds in the directory
    const StandingBase* base = nullptr;  ///< instead of the directory, borrowed
};

/// A base for several sandboxes, asked for.
struct PinRequest {
    std::filesystem::path project;  ///< real path
    /// A digest of the project as it is now: must be the same before and after the copy is made.
    std::function<Digest()> look;
    PinBudget budget;
};

/// Files that a command shall have written, and that are kept although its sandbox goes.
struct OutputRequest {
    std::vector<std::string> patterns;  ///< empty: none
    std::uint64_t mostPaths = 100'000;
    std::uint64_t mostBytes = std::uint64_t{4} << 30;
};

/// What one command did.
struct ExecutionReport {
    Execution execution;
    std::string backendVersion;
    /// What was captured, also where nothing of it was stored.
    CapturedStream out;
    CapturedStream err;
    std::optional<SetupFailure> failure;  ///< verdict setup-failed: why the command did not run
    std::uint32_t leftBehind = 0;
    std::vector<HomeEntry> home;
    std::vector<std::string> notes;
    std::optional<ChangeSet> outputs;  ///< asked for, and the command succeeded: additions to the tree
    std::string outputsFault;          ///< why there are none, although it did
    std::vector<ServiceReport> services;
    std::optional<std::int64_t> keptAs;  ///< the sandbox as the failed command left it
};

class Sandboxes;
class SandboxWriter;

/// A transient sandbox after its command. Undecided, it is discarded by the destructor. It must not outlive the
/// Sandboxes it came from. One thread at a time.
class Trial {
  public:
    Trial(Trial&&) noexcept;
    Trial& operator=(Trial&&) = delete;
    ~Trial();

    const ExecutionReport& report() const { return report_; }
    /// Everything it changed, compared with the base; contents are not stored.
    const Harvest& changes() const { return harvest_; }
    /// Why what it changed could not be read: too much of it. Nothing is in changes() then, and it was kept unless it
    /// was to be discarded in any case.
    const std::optional<std::string>& unread() const { return unread_; }
    /// True while the caller may still decide.
    bool isOpen() const { return sandbox_ != nullptr; }
    /// The kept sandbox's id, once there is one.
    std::optional<std::int64_t> kept() const { return kept_; }

    /// Moves what it changed from memory to layers on disk. Its record becomes that of a kept sandbox. Whatever throws,
    /// such as Error(kUsage) for a name that is taken, it is still open, and nothing of it is lost.
    std::int64_t keep(const std::optional<std::string>& name, std::optional<Milliseconds> lifetime = {});
    void discard();

  private:
    friend class Sandboxes;
    explicit Trial(Sandboxes& owner) : owner_(&owner) {}
    void finish(SandboxWriter& writer) const;
    void end();
    void moveToDisk();
    void dropLayer();
    enum class Naming { kInsist, kIfFree };
    std::int64_t keepAs(const std::optional<std::string>& name, std::optional<Milliseconds> lifetime, Naming naming);

    Sandboxes* owner_;
    std::unique_ptr<Sandbox> sandbox_;
    std::size_t overlay_ = 0;
    bool onDisk_ = false;  ///< its layer is on disk from the beginning
    /// Overlays besides the project's that are kept with it: their index and target.
    std::vector<std::pair<std::size_t, std::filesystem::path>> parts_;
    SandboxRecord record_;
    ExecutionReport report_;
    Harvest harvest_;
    std::optional<std::string> unread_;
    bool finished_ = false;  ///< how its command ended is recorded
    std::optional<std::int64_t> kept_;
};

struct CreateRequest {
    std::filesystem::path project;      ///< real path
    std::optional<std::string> name;    ///< unique among living sandboxes; not the form of a handle
    std::optional<std::string> commit;  ///< clone this commit instead of the directory as it is
    std::optional<Milliseconds> lifetime;
    bool system = false;  ///< a copy of the whole system
};

/// What to do when somebody else is using the sandbox: Error(kBusy) at once, or after waiting this long.
struct Patience {
    Milliseconds most{0};
    std::stop_token cancel;
    std::string_view option = {};  ///< how whoever asks could have said that; empty: there is no way
};

/// A living sandbox, with what a person wants to see in a list.
struct SandboxView {
    SandboxRecord record;
    std::filesystem::path project;
    std::vector<SnapshotRecord> snapshots;
    std::size_t depth = 0;              ///< frozen layers below its own
    bool onCopy = false;                ///< it lies on a copy of its own, not on the project
    std::optional<pid_t> inUseBy;       ///< the process that holds it right now
    std::optional<std::string> damage;  ///< why it cannot be used
    std::optional<Execution> last;      ///< the latest command in it
};

/// A kept sandbox that expired and is gone, and what it had changed.
struct ExpiredSandbox {
    SandboxRecord record;
    std::filesystem::path project;
    ChangeSet changes;
};

/// Where one file of a kept sandbox lies now.
struct FilePlace {
    enum class Where {
        kNowhere,  ///< there is no such file in the sandbox
        kHidden,   ///< the sandbox shows something else there
        kBase,     ///< unchanged: the project's own file
        kFrozen,   ///< in a layer that a snapshot or fork froze
        kOwn,      ///< in the layer that takes the changes
        kImage,    ///< in the image that bounds such a layer: there is no path to it out here
        kMerged,   ///< a directory that several layers make up: only inside is it whole
    };
    Where where = Where::kNowhere;
    std::filesystem::path path;  ///< on the host; empty where there is none
    std::string type;            ///< "a file", "a directory", "a symbolic link"
};

/// Files copied into or out of a kept sandbox.
struct CopyReport {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    std::vector<std::string> leftOut;  ///< what was not copied, each with the reason
};

/// What the command that runs in a sandbox uses now.
struct SandboxStats {
    bool running = false;
    std::optional<Execution> execution;  ///< of the running one
    pid_t init = 0;
    std::uint64_t wallMillis = 0;
    std::uint64_t cpuMillis = 0;
    std::uint64_t memoryBytes = 0;
    std::uint64_t processes = 0;
    std::uint64_t tasks = 0;
    std::uint64_t diskBytes = 0;  ///< allocated, of all that the sandbox changed, its snapshots included
};

/// What `gradus gc` did about sandboxes.
struct CollectReport {
    std::vector<std::int64_t> reaped;   ///< transient ones of dead owners
    std::vector<std::int64_t> expired;  ///< kept ones past their lifetime; their change sets are stored
    std::uint64_t lostExecutions = 0;
    std::uint64_t layers = 0;           ///< directories that no living sandbox stands on, removed
    std::uint64_t commits = 0;          ///< trees of commits that nothing stands on and nobody asked for in a week
    std::uint64_t removedBytes = 0;     ///< allocated, of what was deleted
    std::vector<std::string> problems;  ///< what could not be done now, each with its reason
};

/// Everything that can be done with sandboxes (docs/sandboxes.md). A row is committed before anything exists that it
/// stands for, so that whatever a crash leaves behind has a row, or is removed because it has none. Any number of
/// threads and processes may use one state directory; one command at a time uses one kept sandbox.
class Sandboxes {
  public:
    struct Surroundings {
        /// The store, opened for writing at the first call. Called and used under a lock of this object's own.
        std::function<Store&()> store;
        StateDirectory state;
        /// Cheapest first; the first that proves what a command demands runs it.
        std::vector<IsolationBackend*> backends;
        const Clock& clock;
        Environment environment;  ///< the caller's
        Actor actor;              ///< who is asking
        /// Told what a person should know although the call succeeded.
        std::function<void(const std::string&)> warn = [](const std::string&) {};
        /// What a transient sandbox writes lies on disk: where memory cannot hold it (memoryHoldsLayers()).
        std::optional<bool> onDisk = std::nullopt;
    };
    /// After the last use, where nobody says otherwise: the fallback of `lifetime` in the pipeline file.
    static constexpr Milliseconds kDefaultLifetime{std::int64_t{14} * 24 * 3600 * 1000};
    /// So many frozen layers are stacked; then the oldest are merged into one.
    static constexpr std::size_t kMostLayers = 32;
    static constexpr std::size_t kMostForks = 256;

    explicit Sandboxes(Surroundings surroundings);
    ~Sandboxes();

    /// A command without the host's network is about to be asked for: what does not depend on the rest begins. Only a
    /// hint: nothing is probed, recorded or left behind.
    void expect();
    /// What would confine such a command: backend, its version, the guarantees that it proves and those given up.
    /// Throws Error where nothing can.
    Digest confinement(const CommandRequest& request);
    /// Clone, run, harvest: two durable commits in all, unless the caller is asked. Throws SetupError when the sandbox
    /// cannot be built as asked; nothing but its record is left then.
    Trial attempt(const TryRequest& request);

    /// The project's files as they are at one instant, copied, for several sandboxes to stand on while the project
    /// itself moves on. Gone with the result, or, after a crash, with the next start. Nothing if they are more than the
    /// budget allows; throws Error(kBusy) where there is no such instant.
    std::unique_ptr<PinnedBase> pin(const PinRequest& request);

    /// Runs a command over a tree that does not exist yet. Whatever it writes goes with it. Its record is that of a
    /// transient sandbox. Throws as attempt() does.
    /// What it wrote and `outputs` names is among the objects then; nothing of it may be in the tree already.
    ExecutionReport runOver(const ResultingTree& tree, const CommandRequest& command,
                            const OutputRequest& outputs = {});

    /// A kept sandbox; nothing runs yet.
    SandboxRecord create(const CreateRequest& request);
    /// A kept sandbox by its handle that expired and is gone: its change set is stored. Nothing if it is none.
    std::optional<ExpiredSandbox> findExpired(std::string_view handle);
    /// Runs a command in a kept sandbox. A lifetime that ends meanwhile ends the command, with verdict timeout; what it
    /// changed stays.
    ExecutionReport exec(std::int64_t sandbox, const CommandRequest& command, const Patience& patience = {});
    /// Freezes what is there now, under a name unique in the sandbox. Constant time.
    SnapshotRecord snapshot(std::int64_t sandbox, const std::string& name, const Patience& patience = {});
    /// Files, modes, links, deletions and times as they were then. What came after is dropped, later snapshots stay.
    void restore(std::int64_t sandbox, const std::string& snapshot, const Patience& patience = {});
    /// Refused while another living sandbox stands on it.
    void removeSnapshot(std::int64_t sandbox, const std::string& snapshot);
    /// So many sandboxes that start as this one is now; `names` are theirs, as far as given.
    std::vector<SandboxRecord> fork(std::int64_t sandbox, std::size_t count, const std::vector<std::string>& names = {},
                                    const Patience& patience = {}, std::optional<Milliseconds> lifetime = {});
    /// Everything changed since the base, in all layers. With `keep`, contents are stored.
    Harvest diff(std::int64_t sandbox, const HarvestOptions& options = {}, const Patience& patience = {});
    /// Copies a file, a link or a directory of the host to `inside`, a path below the project; into it, if it is a
    /// directory. Through the layers: nothing runs, no link is followed. `request` says what is hidden. Throws Error,
    /// with nothing copied, for what is none of the three, or holds such a thing or the state directory.
    CopyReport put(std::int64_t sandbox, const std::filesystem::path& source, const std::filesystem::path& inside,
                   const CommandRequest& request, const Patience& patience = {});
    /// The same for a file with these bytes.
    CopyReport putBytes(std::int64_t sandbox, std::string_view bytes, const std::filesystem::path& inside,
                        const CommandRequest& request, const Patience& patience = {});
    /// Out of it, to a `target` that is not there yet, or, replacing a file, with `replace`; into it, if it is a
    /// directory. Links that lead out of what is copied are left out; what is neither file, link nor directory is
    /// refused, with nothing copied.
    CopyReport get(std::int64_t sandbox, const std::filesystem::path& inside, const std::filesystem::path& target,
                   bool replace, const CommandRequest& request, const Patience& patience = {});
    /// The bytes of one file, piece by piece.
    CopyReport getBytes(std::int64_t sandbox, const std::filesystem::path& inside,
                        const std::function<void(std::string_view)>& take, const CommandRequest& request,
                        const Patience& patience = {});
    /// Answers while a command runs, too.
    FilePlace where(std::int64_t sandbox, const std::filesystem::path& inside, const CommandRequest& request);
    SandboxStats stats(std::int64_t sandbox);
    /// The kept sandbox that a failed command left behind; nothing if it was not kept, or is no more.
    std::optional<SandboxRecord> leftBy(std::int64_t execution);
    /// Forks stay as they are: layers live as long as anything stands on them.
    void remove(std::int64_t sandbox, const Patience& patience = {});

    /// Living kept ones, oldest first; of every project, or of one.
    std::vector<SandboxView> list(const std::optional<std::filesystem::path>& project = {});
    /// By handle (`s7`), name, or `@` for the latest. Nothing if no living one answers to it.
    std::optional<SandboxRecord> find(std::string_view handleOrName);
    SandboxView view(std::int64_t sandbox);
    /// What it is a clone of. Throws Error(kNotFound) where that is gone.
    std::filesystem::path projectOf(std::int64_t sandbox);

    /// Ends what is proven dead or expired and deletes what nothing stands on. Safe at any time, beside anything.
    CollectReport collect();
    /// The part of collect() that belongs at the start of every verb that makes sandboxes: transient ones of dead
    /// owners. Costs one indexed query where there are none.
    CollectReport reap();

    struct Inside;

  private:
    friend class Trial;
    void settle(Trial& trial, const TryRequest& request);
    static void keepOrTell(Trial& trial, const TryRequest& request);

    std::unique_ptr<Inside> inside_;
};

}  // namespace gradus
