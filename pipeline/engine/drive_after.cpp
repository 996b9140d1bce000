#include <unistd.h>

#include <algorithm>

#include "pipeline/engine/by_hand.h"
#include "pipeline/engine/drive.h"
#include "pipeline/engine/ground.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

std::string keptText(const std::vector<Kept>& kept) {
    std::string text;
    for (const Kept& path : kept)
        text += fmt::format("{}{}", text.empty() ? "" : ", ", path.path == "." ? path.reason : path.path);
    return text;
}

bool isRestored(const RollbackOutcome& outcome) { return outcome.complete && outcome.problems.empty(); }

/// Why it was taken back, what was kept, and how what is there again does.
std::string restoredText(const std::string& why, const RollbackOutcome& outcome,
                         const std::vector<CheckReport>& again) {
    std::vector<std::string> parts;
    if (!why.empty()) parts.push_back(why);
    if (!outcome.kept.empty()) parts.push_back("kept: " + keptText(outcome.kept));
    if (verdictOf(again) != Cause::kPassed) parts.push_back("restored, but " + failuresOf(again));
    return fmt::format("{}", fmt::join(parts, "; "));
}

std::string insisted(const std::string& reason, const UndoWish& wish) {
    if (!wish.insist) return reason;
    return fmt::format("{}{}insisted on: {}", reason, reason.empty() ? "" : ", ", *wish.insist);
}

}  // namespace

void Drive::verify(const Checkpoint& checkpoint) {
    const bool looks = std::any_of(stage_.checks.begin(), stage_.checks.end(), [&](const std::string& name) {
        const auto check = project_.pipeline.checks.find(name);
        return check != project_.pipeline.checks.end() && check->second.when == CheckWhen::kAfter;
    });
    const auto tree = target_->treeAfter(checkpoint);
    const Step verifying{.to = State::kVerifying, .tree = tree ? tree : report_.promotion.tree};
    // Without anything to wait for, the steps that touch nothing share one commit.
    if (!looks && stage_.settings.duration("soak") == Milliseconds(0)) {
        return conclude(checkpoint,
                        {verifying, {.to = State::kSoaking}, {.to = State::kPromoted, .cause = Cause::kPassed}},
                        {.watch = monitorFrom()});
    }
    commit({verifying});
    judgeAfter(checkpoint, lookAfter());
}

void Drive::judgeAfter(const Checkpoint& checkpoint, const std::vector<CheckReport>& reports) {
    report_.after.insert(report_.after.end(), reports.begin(), reports.end());
    if (const auto stop = stopped()) return takeBack(checkpoint, stop->cause, stop->reason, reports);
    if (const Cause verdict = verdictOf(reports); verdict != Cause::kPassed)
        return takeBack(checkpoint, verdict, failuresOf(reports), reports);
    if (takeBackIfDeparted(checkpoint, reports)) return;
    if (stage_.settings.duration("soak") == Milliseconds(0)) return finish(checkpoint, reports);
    if (report_.promotion.state == State::kVerifying)
        commit({{.to = State::kSoaking, .cause = Cause::kPassed}},
               {.checks = reports, .phase = CheckPhase::kAfter, .watch = watchFrom(WatchPhase::kSoak)});
    soak(checkpoint);
}

// Whatever its checks said, it is not what was proven.
bool Drive::takeBackIfDeparted(const Checkpoint& checkpoint, const std::vector<CheckReport>& reports) {
    const auto departed = target_->departed(checkpoint);
    if (departed.empty()) return false;
    if (!reports.empty()) commit({}, {.checks = reports, .phase = CheckPhase::kAfter});
    rollBack(checkpoint, Cause::kFailed, "what is there is not what was checked: " + keptText(departed));
    return true;
}

void Drive::conclude(const Checkpoint& checkpoint, const std::vector<Step>& steps, const Beside& beside) {
    try {
        commit(steps, beside);
    } catch (const Rejected&) {
        takeBack(checkpoint, Cause::kCancelled, rejection(parts_.store.records()).value_or(""), beside.checks);
    }
}

void Drive::finish(const Checkpoint& checkpoint, const std::vector<CheckReport>& checks) {
    std::vector<Step> steps;
    if (report_.promotion.state == State::kVerifying) steps.push_back({.to = State::kSoaking, .cause = Cause::kPassed});
    steps.push_back({.to = State::kPromoted, .cause = Cause::kPassed});
    conclude(checkpoint, steps, {.checks = checks, .phase = CheckPhase::kAfter, .watch = monitorFrom()});
}

// What runs now is looked at again, cancelled or not: the answers are for people, there is no way further back.
std::vector<CheckReport> Drive::lookAtRestored() {
    try {
        if (!target_->shown()) return {};
    } catch (const Error&) {
        return {};  // nothing of ours is there: what is, is kept and listed
    }
    std::stop_token never;
    std::swap(never, cancel_);
    auto reports = lookAfter();
    std::swap(never, cancel_);
    return reports;
}

// A service that was down before says little about the change that came last.
void Drive::lookBeforeSwitch() {
    std::vector<CheckReport> reports;
    try {
        if (!target_->shown()) return;
        reports = lookAfter();
    } catch (const Error&) {
        return;  // what cannot be looked at says nothing, and is no reason not to go on
    }
    if (reports.empty() || verdictOf(reports) == Cause::kPassed || cancel_.stop_requested()) return;
    unwell_ = failuresOf(reports);
    report_.notes.push_back(fmt::format("{} was unhealthy before the switch: {}", stage_.name, unwell_));
}

void Drive::rollBack(const Checkpoint& checkpoint, Cause cause, const std::string& reason) {
    StepRunner steps = stepsFor(report_.promotion, checkpoint);
    if (const auto trouble = steps.settleDoubts()) return standStill(cause, reason, trouble->reason);
    // Who is on the way back already was let past it.
    const bool isDecided = insists_ || report_.promotion.state == State::kRollingBack;
    const StepPlan* const step = isDecided ? nullptr : steps.irreversible();
    if (step != nullptr)
        return standStill(cause, reason,
                          fmt::format("what step '{}' did cannot be undone, so a person has to decide", step->name));
    if (report_.promotion.state != State::kRollingBack)
        commit({{.to = State::kRollingBack, .cause = cause, .reason = reason}});
    const RollbackOutcome outcome = restore(steps, checkpoint);
    report_.rollback = outcome;
    settleRollback(outcome);
}

Drive::Step Drive::stuckBy(const RollbackOutcome& outcome) {
    return {
        .to = State::kStuck, .cause = Cause::kErrored, .reason = fmt::format("{}", fmt::join(outcome.problems, "; "))};
}

void Drive::settleRollback(const RollbackOutcome& outcome) {
    const Cause cause = report_.promotion.cause;
    const std::string why = parts_.store.records().lastReason(report_.promotion.id).value_or("");
    if (!isRestored(outcome)) return commit({stuckBy(outcome)});
    const auto again = lookAtRestored();
    const bool attention = !outcome.kept.empty() || verdictOf(again) != Cause::kPassed;
    // As unhealthy as before and with it: the change is not to blame.
    const bool isSurroundings = !unwell_.empty() && !again.empty() && verdictOf(again) != Cause::kPassed;
    const std::string blame =
        isSurroundings ? fmt::format(
                             "{}; {} failed before the switch, too, so the surroundings fail and the change is "
                             "not held",
                             why, stage_.name)
                       : why;
    const std::string reason = restoredText(blame, outcome, again);
    std::vector<Hold> holds;
    // I20: automation does not try again what failed here.
    if (cause == Cause::kFailed && !isSurroundings) holds.push_back(holdAfter(report_.promotion.id, why));
    if (auto hold = holdOfKept(outcome)) holds.push_back(std::move(*hold));
    commit({{.to = State::kRolledBack,
             .cause = cause,
             .reason = reason,
             .back = true,
             .attention = attention,
             .kept = outcome.kept.size()}},
           {.checks = again, .phase = CheckPhase::kAfter, .holds = holds});
}

StageReport Drive::giveUp(const Promotion& promotion, const std::string& reason, const UndoWish& wish) {
    take(promotion.id);
    report_.promotion = *parts_.store.records().promotion(promotion.id);
    requireTargetOf(report_.promotion, *target_);
    seizeTarget();
    const Checkpoint checkpoint = checkpointOf(report_.promotion);
    StepRunner steps = stepsFor(report_.promotion, checkpoint);
    hear(steps, report_.promotion, wish);
    // Whoever takes it back, it was a check that said no: machines do not try it again.
    const auto no = saidNo(parts_.store.records(), report_.promotion);
    rollBack(checkpoint, no ? Cause::kFailed : Cause::kCancelled,
             insisted(no ? fmt::format("{} said no, and {}", *no, reason) : reason, wish));
    return report_;
}

StageReport Drive::undo(const Promotion& promotion, const std::optional<Failure>& failure, const UndoWish& wish) {
    requireTargetOf(promotion, *target_);
    Footing footing;
    footing.change = *parts_.store.records().change(promotion.change, promotion.revision);
    seizeTarget();
    const StageState holds = parts_.store.records().stageState(project_.id, stage_.name);
    requireNotClosedTo(parts_.store.records(), holds, promotion);
    if (!isWhatStands(parts_.store.records(), holds, promotion.id))
        throw Error(ErrorCode::kNotAllowed, "{} is not what {} holds any more", promotionHandle(promotion.id),
                    stage_.name)
            .hint("see `gradus status`");
    const Checkpoint checkpoint = checkpointOf(promotion);
    // What is heard is said about that promotion: this one is not there yet.
    report_.promotion.id = promotion.id;
    StepRunner steps = stepsFor(promotion, checkpoint);
    hear(steps, promotion, wish);
    requireWayBack(*target_, parts_.objects, promotion);
    report_.promotion = {};
    const PromotionIntent intent{target_->identity().canonical, *promotion.checkpoint,
                                 promotion.tree.value_or(Digest{}), holds.tree};
    std::vector<Step> moves{{.to = State::kWaiting},
                            {.to = State::kChecking},
                            {.to = State::kApplying, .reason = insisted("", wish), .intent = intent}};
    std::optional<Hold> hold;
    if (failure) {
        moves.back().cause = failure->cause;
        moves.back().reason = failure->reason;
        report_.promotion.change = promotion.change;
        if (failure->cause == Cause::kFailed && failure->holds) hold = holdAfter(promotion.id, failure->reason);
    }
    open(footing, promotion.id, moves, hold);
    goBack(checkpoint);
    return report_;
}

// An undo that stands at applying: the way back of the promotion that it undoes is its way on.
void Drive::goBack(const Checkpoint& checkpoint) {
    const std::string reason = parts_.store.records().lastReason(report_.promotion.id).value_or("");
    StepRunner steps = stepsFor(*parts_.store.records().promotion(*report_.promotion.undoes), checkpoint);
    if (const auto trouble = steps.settleDoubts()) return standStill(Cause::kErrored, reason, trouble->reason);
    const RollbackOutcome outcome = restore(steps, checkpoint);
    report_.rollback = outcome;
    if (!isRestored(outcome)) {
        Step rollingBack = stuckBy(outcome);
        rollingBack.to = State::kRollingBack;
        return commit({rollingBack, stuckBy(outcome)});
    }
    const auto kept = holdOfKept(outcome);
    // What was kept is on record with the step that kept it: whoever ends this may be another process.
    commit({{.to = State::kVerifying,
             .reason = restoredText(reason, outcome, {}),
             .back = true,
             .attention = !outcome.kept.empty(),
             .kept = outcome.kept.size()}},
           {.holds = kept ? std::vector{*kept} : std::vector<Hold>()});
    endGoingBack();
}

void Drive::endGoingBack() {
    const std::string reason = parts_.store.records().lastReason(report_.promotion.id).value_or("");
    const auto again = lookAtRestored();
    report_.after = again;
    const bool well = verdictOf(again) == Cause::kPassed;
    std::vector<Step> steps;
    if (report_.promotion.state == State::kVerifying) steps.push_back({.to = State::kSoaking, .reason = reason});
    steps.push_back({.to = State::kPromoted,
                     .cause = well ? Cause::kPassed : Cause::kInconclusive,
                     .reason = restoredText(reason, {}, again)});
    commit(steps, {.checks = again, .phase = CheckPhase::kAfter});
}

// What somebody made there since is theirs to look at, before any machine goes on.
std::optional<Hold> Drive::holdOfKept(const RollbackOutcome& outcome) const {
    if (outcome.kept.empty()) return std::nullopt;
    return Hold{.project = project_.id,
                .stage = stage_.name,
                .promotion = report_.promotion.id,
                .reason = fmt::format("{} kept {}", promotionHandle(report_.promotion.id), keptText(outcome.kept))};
}

std::optional<StageReport> Drive::recover(const Promotion& promotion) {
    if (!seize(promotion.id)) return std::nullopt;
    report_.promotion = *parts_.store.records().promotion(promotion.id);
    if (isFinal(report_.promotion.state)) return report_;
    begun_ = parts_.store.records().openingEvent(promotion.id);
    requireTargetOf(report_.promotion, *target_);
    if (report_.promotion.target) seizeTarget();
    goOn(report_.promotion);
    return report_;
}

// It may have been preparing what nobody sees yet. Whoever has the target now clears it up as well.
void Drive::clearPrepared() {
    if (!takesTarget()) return;
    // Nobody came as far as to take it: to lock it now would make it.
    if (::access(target_->identity().marker.c_str(), F_OK) != 0) return;
    try {
        lock_ = TargetLock::take(target_->identity(), claim(), parts_.files,
                                 {.patience = Milliseconds(0), .takeOver = false, .look = noneHalfWay()});
    } catch (const Error& e) {
        report_.notes.push_back(fmt::format("what it had prepared is cleared up by the next promotion: {}", e.what()));
        return;
    }
    tidyIfPossible();
    try {
        if (parts_.store.records().takeable(project_.id, stage_.name).empty()) target_->leave();
    } catch (const Error& e) {
        report_.notes.push_back(fmt::format("what was made for it stays for the next promotion: {}", e.what()));
    }
}

void Drive::goOn(const Promotion& promotion) {
    const std::string gone = "the process that drove it ended";
    switch (promotion.state) {
        case State::kQueued:
            return commit(
                {{.to = State::kWaiting}, {.to = State::kCancelled, .cause = Cause::kErrored, .reason = gone}});
        case State::kWaiting:
            return;
        case State::kChecking:
            clearPrepared();
            return commit(
                {{.to = State::kWaiting}, {.to = State::kCancelled, .cause = Cause::kErrored, .reason = gone}});
        default:
            break;
    }
    const Checkpoint checkpoint = checkpointOf(promotion);
    if (promotion.undoes && promotion.state == State::kApplying) return goBack(checkpoint);
    if (promotion.undoes) return endGoingBack();
    if (promotion.state == State::kRollingBack) return rollBack(checkpoint, promotion.cause, gone);
    if (promotion.state == State::kApplying) return goOnApplying(checkpoint, gone);
    if (target_->observe(checkpoint) != StageDriver::Observed::kAfter)
        return rollBack(checkpoint, Cause::kErrored, gone);
    if (isLeftToAPerson()) return;
    judgeAfter(checkpoint, lookAfter());
}

// A check that said no once is not made good by looking again until it says yes: whoever may decide does.
bool Drive::isLeftToAPerson() {
    if (parts_.actor.kind == ActorKind::kPerson) return false;
    const auto no = leftToAPerson(parts_.store.records(), &stage_, report_.promotion);
    if (!no) return false;
    report_.reason = fmt::format("{} said no; the policy leaves it to a person", *no);
    return true;
}

}  // namespace gradus
