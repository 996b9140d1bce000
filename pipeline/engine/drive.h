#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/engine/engine.h"
#include "pipeline/engine/step_runner.h"
#include "stages/drivers/target_lock.h"
#include "stages/sandbox/sandbox_lock.h"

namespace gradus {

/// What a stage holds now, and the change as it applies to that.
struct Footing {
    std::optional<HeldTree> held;
    std::optional<Seed> seed;  ///< where nothing is held
    Change change;             ///< the revision that is promoted
    ChangeSet changes;
    MergeResult merge;

    const std::filesystem::path& directory() const { return held ? held->directory : seed->directory; }
    /// What was built and lies in the directory, but is no part of the tree.
    std::vector<std::string> outputs() const { return held ? held->outputs : std::vector<std::string>(); }
    Digest base() const { return held ? held->digest : seed->digest; }
    /// The tree that comes out, as evidence knows it.
    Digest tree() const;
};

/// What something waits for.
struct Closed {
    std::string reason;      ///< in one line
    std::string rules = {};  ///< where that is written: "approvals gradus.toml:12:9"
};
Closed closedGates(const Decision& decision);

/// As it is recorded.
std::string conflictText(const std::vector<Conflict>& conflicts);
CheckResult resultOf(std::int64_t promotion, const CheckReport& report, CheckPhase phase);

/// What a verdict about a promotion is bound to, but for the check and the environment.
Evidence evidenceFor(const Records& records, const Promotion& promotion, const Digest& rules);

/// Throws Error(kDamaged) where there is none.
Checkpoint readCheckpoint(const Objects& objects, const Promotion& promotion);
/// Throws Error(kNotAllowed) where the target does not have any more what taking it back would bring back.
void requireWayBack(const StageDriver& target, const Objects& objects, const Promotion& promotion);
/// Throws Error where taking it back would not come to its end now. Reads only.
void requireUnobstructed(const StageDriver& target, const Objects& objects, const Promotion& promotion);
/// Who takes the target of a stage; for no promotion yet.
TargetClaim claimOf(const EngineProject& project, const EngineParts& parts, const std::string& stage);

/// Whoever holds an flock on this file drives the promotion.
std::filesystem::path drivingLock(const StateDirectory& state, std::int64_t promotion);

/// One promotion and all that is needed to drive it. Holds its lock: nobody else drives it meanwhile.
class Drive {
  public:
    /// Opens a new promotion for a change; it stands at queued in the first transaction that moves it.
    Drive(const EngineProject& project, EngineParts& parts, const Stage& stage, const EngineProgress& progress,
          std::stop_token cancel);
    /// Wishes that were granted are taken out of `wishes`, which outlives this.
    void mayOverride(std::vector<OverrideWish>& wishes) { wishes_ = &wishes; }
    /// Every check is asked, whatever it said before. What was built stays what it is.
    void askAll() { asksAll_ = true; }

    /// Into the stage: gates, checks, target, checks. Every end is in the report.
    StageReport enter(std::int64_t change);
    /// Goes on with what waits for this change, if anything does. Nothing: there is nothing, any more.
    std::optional<StageReport> goOnWaiting(std::int64_t change);
    /// Who asked for it, where that is not who drives.
    void actFor(const Actor& promoter) { promoter_ = promoter; }
    /// The stage up to which somebody wants the change: on record with the promotion, that it goes on to it from there.
    void aimAt(const std::string& goal) { goal_ = goal; }
    /// Why something is taken back that nobody asked to.
    struct Failure {
        Cause cause = Cause::kFailed;
        std::string reason;
        bool holds = true;  ///< after a no, the change
    };
    /// An undo of `promotion`, which is finished. After a no the change is held, in the same commit.
    StageReport undo(const Promotion& promotion, const std::optional<Failure>& failure = std::nullopt,
                     const UndoWish& wish = {});
    /// Goes on with one whose process is gone. Nothing: somebody drives it.
    std::optional<StageReport> recover(const Promotion& promotion);
    /// Takes back one that applied and waits for a person to say so.
    StageReport giveUp(const Promotion& promotion, const std::string& reason, const UndoWish& wish);

  private:
    using State = PromotionState;
    /// A person rejected it before the transaction that would have moved it.
    struct Rejected {};
    struct Step {
        State to;
        Cause cause = Cause::kProceeded;
        std::string reason = {};
        std::optional<PromotionIntent> intent = {};
        std::optional<Digest> tree = {};
        bool back = false;
        bool attention = false;
        std::size_t kept = 0;
        std::optional<Digest> base = {};
        std::optional<Digest> evidence = {};
        std::string rules = {};
    };
    static Step waitingFor(const Closed& why, const std::optional<Digest>& base) {
        return {.to = State::kWaiting, .reason = why.reason, .base = base, .rules = why.rules};
    }
    /// What is recorded together with steps.
    struct Beside {
        std::vector<CheckReport> checks = {};
        CheckPhase phase = CheckPhase::kBefore;
        std::vector<Hold> holds = {};
        std::vector<Approval> used = {};
        std::optional<Watch> watch = {};
    };

    Footing look(std::int64_t change);
    /// What the stage holds now. Reads all of it, where the driver must.
    std::optional<HeldTree> heldNow() const;
    Seed seedOf(const Change& change) const;
    /// What should come first, by what does not fit.
    std::vector<std::int64_t> missingFor(const Footing& footing) const;
    /// What the stage holds at paths in conflict, as far as the project holds something else there.
    std::vector<std::filesystem::path> apartFrom(const Footing& footing) const;
    void revise(Footing& footing);
    Facts factsOf(const Footing& footing) const;
    /// For people, whom the gate lets through.
    void warnOfHazards(const Footing& footing);
    Decision decideOn(const Facts& facts) const;
    /// With what the person who promotes overrides, recorded.
    Decision decideNow(const Footing& footing);
    std::vector<GateOverride> granted(const Facts& facts, const Decision& decision) const;
    /// The approvals without which it would have to wait.
    std::vector<Approval> approvalsUsed(const Footing& footing) const;

    bool resume(std::int64_t change);
    bool isAimedElsewhere() const;
    /// Puts on record where what waits shall go on to, if that is new.
    void aim();
    bool isClosed(std::int64_t change);
    void open(const Footing& footing, const std::optional<std::int64_t>& undoes, const std::vector<Step>& steps,
              const std::optional<Hold>& hold = std::nullopt);
    void openIn(Writer& writer, const Footing& footing, const std::optional<std::int64_t>& undoes,
                const std::vector<Step>& steps, const std::optional<Hold>& hold);
    bool isOpen() const { return report_.promotion.id != 0; }
    /// One durable transaction.
    void commit(const std::vector<Step>& steps) { commit(steps, Beside()); }
    void commit(const std::vector<Step>& steps, const Beside& beside);
    bool seize(std::int64_t promotion);
    /// Throws Error(kBusy) when somebody drives it.
    void take(std::int64_t promotion);
    void walk(Writer& writer, ActorId actor, const std::vector<Step>& steps) const;
    // The queue: within the transaction that moves it, so that of two processes one finds out.
    void refuseIfFull(const Records& records) const;
    void refuseIfTwice(const Records& records, const Change& change) const;
    void keepTurn(const Records& records) const;
    void supersede(Writer& writer, ActorId actor, const Footing& footing) const;
    void tellReplaced();
    /// Into checking, unless somebody was faster: then into waiting.
    void enterChecking(const Footing& footing);
    bool isWaiting() const { return report_.gates->step == NextStep::kWait; }
    StageReport climbUp(std::int64_t change);
    void arrive(const std::vector<Step>& steps);

    enum class Next { kOn, kAgain, kEnd };
    Next climb(const Footing& footing);
    std::function<Digest()> standstill(const Footing& footing);
    TreeUnderTest underTest(const Footing& footing);
    /// Puts the checks onto a copy of the project as it is now. False: that is not what `footing` says any more.
    bool freeze(TreeUnderTest& tree, const Footing& footing);
    void tellIgnored();
    /// What the after checks say of what the stage shows now, before anything is switched.
    void lookBeforeSwitch();
    Next check(const Footing& footing);
    Next rejectUnlessPassed(Cause verdict);
    /// A commit that records the before checks with it.
    Next end(const std::vector<Step>& steps, const std::vector<Approval>& used = {});
    Next lookAgain(const Footing& footing);
    bool isAsItWas(const Footing& footing) const;
    void tidyTarget();
    void tidyIfPossible();
    bool isLeftToAPerson();
    void act(const Checkpoint& checkpoint);
    /// The steps of `promotion`, driven by this one.
    StepRunner stepsFor(const Promotion& promotion, const Checkpoint& checkpoint);
    void finishApplying(const Checkpoint& checkpoint);
    /// Back, or nowhere where somebody only wants to stop and there is no way back.
    void leaveApplying(const Checkpoint& checkpoint, const StepTrouble& trouble);
    /// A wish to stop is nobody's no: past what cannot be undone it stays until somebody goes on with it.
    bool staysAfter(const Checkpoint& checkpoint, Cause cause, const std::string& reason);
    void goOnApplying(const Checkpoint& checkpoint, const std::string& gone);
    /// Nothing can be taken back: it stays as it is, and a person has to look.
    void standStill(Cause cause, const std::string& reason, const std::string& why);
    /// Everything in reverse: steps after the switch, the switch, steps before it.
    RollbackOutcome rollBackPatiently(const Checkpoint& checkpoint);
    RollbackOutcome restore(StepRunner& steps, const Checkpoint& checkpoint);
    /// Throws Error(kNotAllowed) for a way back that nobody may take without a word.
    void hear(StepRunner& steps, const Promotion& promotion, const UndoWish& wish);
    ChangeSet outputsOf(const std::vector<CheckReport>& reports) const;
    void addOutputs(TreeUnderTest& tree, const Footing& footing);
    const Manifest& sourceOf(const Footing& footing);
    /// Below it lies the project itself, where people go on working.
    bool isLive(const Footing& footing) const;
    std::optional<EarlierProof> builtBefore(const Digest& builtOf, const std::vector<Guarantee>& demanded) const;
    Next park(const Footing& footing, const Closed& why);
    Next endStale(const Footing& footing, const std::string& reason);
    Next endRefused(const Footing& footing);
    Next lockTarget(const Footing& footing);
    /// The end that it comes to because of what others did since it was opened.
    std::optional<Step> overtaken(const Footing& footing) const;
    /// What a person said who rejected the change in this stage since it was opened.
    std::optional<std::string> rejection(const Records& records) const;
    /// Why it goes no further although nothing went wrong: it was asked to stop, or a person rejected it.
    std::optional<StepTrouble> stopped() const;
    /// The commit that makes it promoted, or the way back where it was rejected meanwhile.
    void conclude(const Checkpoint& checkpoint, const std::vector<Step>& steps, const Beside& beside);
    Next endStopped();
    /// The promotion by which another process brought it in since this one was begun.
    std::optional<Promotion> broughtIn(std::int64_t change) const;
    Next apply(const Footing& footing);
    Next enterTarget(const Footing& footing);
    void verify(const Checkpoint& checkpoint);
    void soak(const Checkpoint& checkpoint);
    bool takeBackIfDeparted(const Checkpoint& checkpoint, const std::vector<CheckReport>& reports);
    void finish(const Checkpoint& checkpoint, const std::vector<CheckReport>& checks);
    bool takesTarget() const { return !target_->identity().marker.empty(); }
    std::vector<CheckReport> lookAfter() { return lookAfter(stage_.checks); }
    std::vector<CheckReport> lookAfter(const std::vector<std::string>& names);
    /// Takes it back, or leaves that to a person where the policy says so.
    void takeBack(const Checkpoint& checkpoint, Cause cause, const std::string& reason,
                  const std::vector<CheckReport>& reports);
    Watch watchFrom(WatchPhase phase) const;
    std::optional<Watch> monitorFrom() const;
    /// And the time before now in which nobody looked.
    std::pair<Watch, Milliseconds> soakedSoFar();
    Hold holdAfter(std::int64_t promotion, const std::string& why) const;
    std::vector<CheckReport> lookAtRestored();
    void judgeAfter(const Checkpoint& checkpoint, const std::vector<CheckReport>& reports);
    void rollBack(const Checkpoint& checkpoint, Cause cause, const std::string& reason);
    static Step stuckBy(const RollbackOutcome& outcome);
    void settleRollback(const RollbackOutcome& outcome);
    void goBack(const Checkpoint& checkpoint);
    /// An undo whose target is back: what runs now is looked at, and that is its end.
    void endGoingBack();
    std::optional<Hold> holdOfKept(const RollbackOutcome& outcome) const;
    void clearPrepared();
    void goOn(const Promotion& promotion);
    bool isAnsweredFor(const Footing& footing) const;
    StageChange stageChange(const Footing& footing) const;
    TargetClaim claim() const;
    /// Before anything is checked for it: whose the target is, and that nothing in it is half done.
    void requireFreeTarget() const;
    std::function<void(const TargetClaim&)> noneHalfWay() const;
    /// The target, once nothing that a killed driver started is at work there any more. Throws Error(kBusy).
    void seizeTarget();
    Checkpoint checkpointOf(const Promotion& promotion) const;

    const EngineProject& project_;
    EngineParts& parts_;
    const Stage& stage_;
    const EngineProgress& progress_;
    std::stop_token cancel_;
    std::unique_ptr<StageDriver> target_;
    std::optional<SandboxLock> driving_;
    std::optional<TargetLock> lock_;
    std::optional<CheckedFact> checked_;
    std::vector<CheckReport> unrecorded_;  ///< before checks that the next commit records
    int rounds_ = 0;
    std::string unwell_;                  ///< what the after checks said no to before the switch; empty: nothing
    bool freezes_ = false;                ///< a check saw a tree that moved: the next ones see a copy
    std::unique_ptr<PinnedBase> frozen_;  ///< while they do
    std::vector<OverrideWish>* wishes_ = nullptr;
    bool asksAll_ = false;
    bool insists_ = false;            ///< a person wants it back, although something of it stays
    ChangeSet outputs_;               ///< what the before checks built, for the driver
    std::optional<Manifest> source_;  ///< what the stage holds, by its files, once somebody asked
    std::optional<Actor> promoter_;
    std::optional<std::string> goal_;
    std::int64_t known_ = 0;             ///< the newest promotion of the change when this one was begun
    std::int64_t begun_ = 0;             ///< the newest event then: a clock may go back, these only grow
    bool entering_ = false;              ///< rather than taking something back: it has a place in the queue
    std::optional<Promotion> replaced_;  ///< waits, and ends with the commit that opens what takes its place
    std::optional<SandboxLock> replacedLock_;
    StageReport report_;
};

}  // namespace gradus
