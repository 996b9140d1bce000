#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "pipeline/engine/check_runner.h"
#include "policies/gate/gate.h"
#include "policies/language/pipeline.h"
#include "stages/changes/merge.h"
#include "stages/drivers/driver.h"
#include "stages/sandbox/pinned_base.h"
#include "store/model/error.h"
#include "store/model/promotion.h"
#include "store/model/step.h"
#include "store/model/watch.h"
#include "store/objects.h"
#include "store/state_directory.h"
#include "store/store.h"
#include "store/word_writer.h"

namespace gradus {

/// A project and the rules that a person trusted for it.
struct EngineProject {
    std::int64_t id = 0;
    std::filesystem::path root;
    Pipeline pipeline;
    Digest rules;
    std::optional<Digest> trusted = {};  ///< the files that were trusted when they were read; nothing: none were
    std::string stateName = {};          ///< Records::stateName(); empty: the root, of a project that was never moved

    /// What the state of a stage is kept under.
    std::filesystem::path stateRoot() const { return stateName.empty() ? root : std::filesystem::path(stateName); }
};

/// What an empty stage begins as: the tree that the change was made on.
struct Seed {
    std::filesystem::path directory;
    std::vector<std::string> leftOut;
    Digest digest;
    std::vector<std::string> notes;
};

struct StageReport;

/// What is going on, for whoever looks. Called on the engine's own thread.
struct EngineProgress {
    std::function<void(const Promotion&, const std::string& reason)> moved = [](const Promotion&, const std::string&) {
    };
    /// A whole tree was looked at, the one part of a promotion that takes longer the larger the project is.
    std::function<void(const std::string& stage, std::chrono::nanoseconds took)> looked =
        [](const std::string&, std::chrono::nanoseconds) {};
    /// It waits for what opens by itself, and looks again then.
    std::function<void(const StageReport&, Time next)> waiting = [](const StageReport&, Time) {};
    /// The next of those that waited in the queues is taken up: the so many-th of so many.
    std::function<void(const Promotion&, std::size_t number, std::size_t of)> driving = [](const Promotion&,
                                                                                           std::size_t, std::size_t) {};
    /// A step began or ended.
    std::function<void(const StepRecord&)> stepped = [](const StepRecord&) {};
    CheckProgress checks;
};

/// What the engine is made of; everything borrowed outlives it.
struct EngineParts {
    Store& store;
    Objects& objects;
    StateDirectory state;
    const Clock& clock;
    Actor actor;
    std::int64_t uid = 0;  ///< of the process, on record beside what the actor says
    std::function<std::unique_ptr<StageDriver>(const Stage&, std::stop_token)> driver;
    FileOperations& files;
    std::function<std::vector<CheckReport>(const Stage&, const TreeUnderTest&, const CheckProgress&, std::stop_token)>
        before;
    std::function<std::vector<CheckReport>(const Stage&, const std::filesystem::path&, const Evidence&,
                                           const CheckProgress&, std::stop_token)>
        after;
    std::function<Seed(const Change&)> seed;
    std::function<Zones(const Pipeline&)> zones;
    std::function<std::vector<std::string>(const Actor&)> systemGroups;
    /// Waits so long, or until cancelled. A test's clock goes on by itself.
    std::function<void(Milliseconds, std::stop_token)> sleep;
    Milliseconds targetPatience{10'000};
    /// Runs a command of the trusted rules on the host: a step.
    std::function<HostOutcome(const HostCommand&)> run = [](const HostCommand& command) { return runOnHost(command); };
    std::vector<std::string> environment = {};  ///< NAME=value: what such a command starts from
    /// A copy of the project that stands still; `look` as for Sandboxes::pin(). Absent, or nothing: too large for that.
    std::function<std::unique_ptr<PinnedBase>(std::function<Digest()> look)> freeze = {};
};

/// What one promotion came to.
struct StageReport {
    Promotion promotion;
    std::string reason;      ///< of its last step
    bool elsewhere = false;  ///< another process drives it: nothing was done
    bool already = false;    ///< the stage has the change: nothing was done, `promotion` is the one that brought it
    std::vector<CheckReport> before;
    std::vector<CheckReport> after;
    std::vector<MergeConflict> mergeConflicts;
    std::vector<Conflict> conflicts;
    /// Of one that does not fit: changes that the stage before has, this one has not, and that touch the same paths.
    std::vector<std::int64_t> missing = {};
    /// Of one that does not fit: files of the stage that are not what the project itself has at those paths.
    std::vector<std::filesystem::path> apart = {};
    std::vector<StageReport> also = {};  ///< of a way back: promotions of the same below it, taken out with it
    std::optional<RollbackOutcome> rollback;
    std::optional<Decision> gates;
    std::vector<std::string> notes;
    std::vector<StepRecord> steps;            ///< that began, in order; of an undo, those of what it undoes
    std::set<std::string> irreversible = {};  ///< of one that is stuck: names of steps that cannot be undone
    std::size_t outputs = 0;                  ///< files that checks built and the stage got
    /// Why it did not go on, where that says nothing about the change. Without a promotion (id 0): none was opened.
    std::optional<Error> fault = {};

    bool succeeded() const { return promotion.state == PromotionState::kPromoted && !fault; }
    /// Of a way back: it is out.
    bool isOut() const { return succeeded() || (promotion.state == PromotionState::kRolledBack && !fault); }
};

/// How far a change goes for a caller who names no stage.
struct Goal {
    std::string stage;
    std::optional<Promotion> waiting = {};  ///< what waits of it, as it was found
    std::optional<Actor> by = {};           ///< in whose name that waits: its goal is theirs
};

/// A person's wish that one gate shall not count, for the first promotion at which it is closed.
struct OverrideWish {
    Gate gate = Gate::kHold;
    std::string reason;
};

/// A person's word about a step that nobody saw the end of.
struct StepWord {
    std::string step;
    bool isDone = false;
};

/// How something is taken back.
struct UndoWish {
    std::optional<std::string> insist;  ///< why, although something of it cannot be taken back
    std::vector<StepWord> words;
};

/// A person's word for what a stage holds, where nobody can look.
struct AdoptWish {
    std::optional<std::int64_t> promotion;  ///< the tree that it brought
    bool nothing = false;                   ///< nothing of ours

    bool isGiven() const { return promotion || nothing; }
};

/// What a stage is taken to hold from now on.
struct Adopted {
    std::optional<HeldTree> held;  ///< nothing: nothing of ours
    bool isLookedAt = false;       ///< it was seen to be there; otherwise its `status` names it, or a person does
};

/// How a change is brought up.
struct PromoteWish {
    std::vector<OverrideWish> overrides;
    std::optional<Milliseconds> patience;  ///< how long to wait for what opens by itself; nothing: not at all
    bool recheck = false;                  ///< stages that have it are asked again, once
    std::set<std::string> rechecked = {};  ///< those that were
    std::string goal = {};                 ///< the stage up to which it is wanted; promote() says it
    std::optional<Actor> promoter = {};    ///< who asked for it, where that is not who drives
};

/// A way up: one report per stage that was looked at, the last of which says how it ended.
struct Climb {
    std::int64_t change = 0;
    std::vector<StageReport> stages;
    std::vector<StageReport> others;  ///< that were before it in a queue, ready, and left alone: they went first

    bool succeeded() const { return stages.empty() || stages.back().succeeded(); }
};

/// A stage whose after checks keep running although its promotion is through.
struct Monitored {
    Promotion promotion;
    Watch watch;                   ///< as far as it came
    Milliseconds left;             ///< zero: it is over
    std::string note;              ///< what a person should know of the last look
    bool isLeftToAPerson = false;  ///< it failed, and stays until somebody takes it back
};

struct MonitorWish {
    std::optional<std::string> stage;  ///< nothing: all of them
    std::optional<Milliseconds> most;  ///< how long to look; nothing: until all are over
};

struct MonitorReport {
    std::vector<Monitored> stages;
    std::vector<StageReport> takenBack;  ///< the promotions that did it
};

struct Recovered {
    Promotion before;  ///< as it was found
    StageReport report;
    std::optional<Error> fault = {};  ///< why it did not come to an end
};

/// What a promotion would do, without doing it.
struct StagePlan {
    std::string stage;
    bool already = false;
    bool seeds = false;  ///< the stage is empty
    ChangeSet changes;
    std::vector<std::string> mergedPaths;
    std::vector<MergeConflict> mergeConflicts;
    std::vector<Conflict> conflicts;
    std::vector<std::string> checks;
    std::vector<StepPlan> steps;
    std::map<std::string, std::vector<std::string>> outputs;  ///< by check: what it builds, where the stage takes it
    Decision gates;
};

/// How a change and a stage stand to each other now.
struct Standing {
    Change change;  ///< the newest revision
    std::string stage;
    Digest base;                           ///< the tree that the stage holds, or would begin as
    std::optional<Promotion> waiting;      ///< the promotion that waits there
    std::vector<std::string> mergedPaths;  ///< moved there: it would enter as a new revision
    std::vector<MergeConflict> mergeConflicts;
    Facts facts;
    Decision gates;
};

/// An approval as it was given, and what the gates say with it.
struct ApprovalGiven {
    Approval approval;
    Standing standing;
};

/// How many promotions of a project were left by a process that is gone. Reads only.
std::size_t needRecovery(const Records& records, const StateDirectory& state, const EngineProject& project);

/// Drives promotions: one durable transaction per step, the way back prepared before anything is touched. Whatever
/// instant the process is killed at, recover() brings every promotion to an end and every target to wholly before or
/// wholly after. One thread at a time; any number of processes.
class Engine {
  public:
    Engine(EngineProject project, EngineParts parts);
    ~Engine();

    /// Brings a change into every stage up to `to`, in order; ends at the first that does not take it. Promotions that
    /// were left waiting go on.
    Climb promote(std::int64_t change, const std::string& to, const EngineProgress& progress,
                  const std::stop_token& cancel, PromoteWish wish = {});
    /// What is there instead of what the stage holds on record, by somebody's hand. Looks, and touches nothing.
    std::optional<Conflict> strayed(const std::string& stage);
    /// Looks, and touches nothing.
    std::vector<StagePlan> plan(std::int64_t change, const std::string& to);

    /// Why it may enter, or not. Looks, and touches nothing.
    Standing standing(std::int64_t change, const std::string& stage);
    /// A yes to the newest revision, bound to how it stands now. Throws Error(kNotAllowed) for one that would not
    /// count: from a machine, from who made the change. Recorded unless `onlyTry`.
    ApprovalGiven approve(std::int64_t change, const std::string& stage, const std::string& reason, bool onlyTry);
    /// Takes back what the caller said for it, as far as nobody acted on it. Throws Error(kNotFound) if there is
    /// nothing.
    std::size_t withdraw(std::int64_t change, const std::string& stage);
    /// A person's no: what waits there ends, what others said for it is void, machines do not try again. What another
    /// process drives is ended by that process: before it touches the stage, or by taking the change back. Gives the
    /// promotion: rejected, or as far as it is. Nothing: there is none.
    std::optional<Promotion> reject(std::int64_t change, const std::string& stage, const std::string& reason);
    std::vector<std::string> rolesOf(const Actor& actor) const;

    /// Takes a finished promotion back, one that waits for a person to, or tries again to where it is stuck. Asks no
    /// gate. Throws Error(kNotAllowed) when another one has come after it, when a step that cannot be undone has run
    /// and nobody insists, and when only a person can say whether a step was done. What goes with it goes, too.
    StageReport rollBack(std::int64_t promotion, const EngineProgress& progress, const std::stop_token& cancel,
                         const UndoWish& wish = {});
    /// What goes out together with a promotion, newest first: a change that was asked about again came in again
    /// without writing anything, so all of it is one. Reads only.
    std::vector<Promotion> goesWith(const Promotion& promotion) const;
    /// Throws what rollBack() would, as far as the record tells it. Reads only.
    void requireTakeable(const Promotion& promotion, const UndoWish& wish = {}) const;
    /// What a stage holds. Reads only.
    std::optional<HeldTree> heldIn(const std::string& stage) const;
    /// Brings what a dead process left to an end. What somebody drives right now is left alone; what cannot be ended
    /// now is reported with its fault, and keeps no other from its end.
    std::vector<Recovered> recover(const EngineProgress& progress, const std::stop_token& cancel);
    /// Removes what killed processes left beside the markers of targets.
    void tidyMarkers();
    /// Tries again to take out what is stuck, where a look says that nothing is in the way any more. What takes a
    /// person's word, or has steps that cannot be undone, is left alone.
    std::vector<Recovered> retryStuck(const EngineProgress& progress, const std::stop_token& cancel);
    /// Ends what waited longer than it may. What somebody drives right now is left alone.
    std::vector<Promotion> expire();
    /// Brings in what waited and became ready, in the order of the queues, and on to where it is wanted; nobody else
    /// may be at it. After `most` no other is begun.
    std::vector<StageReport> driveReady(const EngineProgress& progress, const std::stop_token& cancel,
                                        std::optional<Milliseconds> most = std::nullopt);
    /// Keeps the after checks of promoted changes running, each on its schedule, and takes back what they say no to, by
    /// a new promotion. What another process monitors, and a stage that something is at work in, is left alone.
    MonitorReport monitor(const MonitorWish& wish, const EngineProgress& progress, const std::stop_token& cancel);
    /// One look at those whose last one is too long ago.
    MonitorReport lookWhereDue(const EngineProgress& progress, const std::stop_token& cancel);
    /// Ends one that waits; asks the process that drives it to end otherwise, and waits ten seconds for that. Gives
    /// what it was: find() says what became of it.
    Promotion cancel(std::int64_t promotion);
    /// What is there becomes what the stage holds; nothing, if something is on record and nothing is there any more.
    /// Throws Error(kNotAllowed) for anybody but a person where something is on record, or where it takes a word.
    /// `onlyTry`: the same answers, and nothing is touched or recorded.
    Adopted adopt(const std::string& stage, const AdoptWish& wish = {}, bool onlyTry = false);

    /// The stage that what waits of a change was to go on to; nothing: nothing waits, or nobody said.
    std::optional<std::string> goalOf(std::int64_t change) const;
    /// The last stage where nothing waits; else what the caller asked for himself, or the stage that it waits for.
    /// Throws Error(kNotFound) where the rules do not have that stage any more.
    Goal goalFor(std::int64_t change) const;
    /// In whose name a promotion moved last.
    std::optional<Actor> promoterOf(std::int64_t promotion) const { return parts_.store.records().movedBy(promotion); }

    std::optional<Promotion> find(std::int64_t promotion) const { return parts_.store.records().promotion(promotion); }
    const EngineProject& project() const { return project_; }

  private:
    StageReport enter(std::int64_t change, const std::string& stage, PromoteWish& wish, const EngineProgress& progress,
                      std::stop_token cancel);
    /// The promotion that brought it in, if it is still there: on record and, as far as it has a target, in fact.
    std::optional<Promotion> stillIn(std::int64_t change, const Stage& stage);
    /// What waits for a change that came in by another promotion meanwhile.
    void endWaiting(const Promotion& there);
    void endUndriven(const Promotion& promotion, const std::string& why);
    /// The very same, on its way in the hands of another process.
    std::optional<StageReport> drivenElsewhere(std::int64_t change, const std::string& stage) const;
    /// The same, after those that were before it.
    StageReport enterInTurn(std::int64_t change, const std::string& stage, PromoteWish& wish,
                            std::vector<StageReport>& others, const EngineProgress& progress,
                            const std::stop_token& cancel);
    /// The first that waits before that place, is ready and was not tried yet; nothing: there is none.
    std::optional<StageReport> driveNext(const Stage& stage, std::set<std::int64_t>& tried,
                                         std::optional<std::int64_t> before, const EngineProgress& progress,
                                         const std::stop_token& cancel);
    std::optional<StageReport> driveIfReady(const Promotion& promotion, const Stage& stage,
                                            const EngineProgress& progress, const std::stop_token& cancel);
    /// From the stage that it has just entered to the one where somebody wants it, in that one's name.
    void goOn(const Promotion& entered, std::vector<StageReport>& reports, const EngineProgress& progress,
              const std::stop_token& cancel);
    void update(StageReport& report) const;
    /// The same as enter(); a fault is in the report.
    StageReport entered(std::int64_t change, const std::string& stage, PromoteWish& wish,
                        std::vector<StageReport>& others, const EngineProgress& progress,
                        const std::stop_token& cancel);
    Climb climbOnce(std::int64_t change, const std::string& to, PromoteWish& wish, const EngineProgress& progress,
                    const std::stop_token& cancel);
    /// What is known of an attempt that ended in a fault.
    StageReport faultIn(std::int64_t change, const std::string& stage, std::int64_t before, const Error& fault) const;
    StageReport rollBackOne(const Promotion& promotion, const EngineProgress& progress, const std::stop_token& cancel,
                            const UndoWish& wish);
    StageReport freeStage(const Promotion& stuck, const EngineProgress& progress, const std::stop_token& cancel,
                          const UndoWish& wish);
    std::optional<StageReport> recoverOne(const Promotion& promotion, const EngineProgress& progress,
                                          const std::stop_token& cancel);
    void awaitEnd(std::int64_t promotion) const;
    /// Throws Error(kBusy) for one that another process drives.
    void requireUndriven(const Promotion& promotion) const;
    void requireMayAdopt(const std::string& stage, const AdoptWish& wish) const;
    std::optional<HeldTree> takeForHeld(const Stage& stage, StageDriver& driver, const AdoptWish& wish,
                                        StageDriver::Adopting how) const;
    Decision decideOn(const Stage& stage, const Facts& facts) const;
    /// False: it is no use to wait any longer.
    bool awaitOpening(const StageReport& report, Milliseconds& patience, const EngineProgress& progress,
                      const std::stop_token& cancel);

    EngineProject project_;
    EngineParts parts_;
};

}  // namespace gradus
