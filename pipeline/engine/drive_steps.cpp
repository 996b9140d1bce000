#include <algorithm>
#include <array>

#include "pipeline/engine/command_mark.h"
#include "pipeline/engine/drive.h"
#include "pipeline/engine/ground.h"
#include "pipeline/engine/step_words.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

constexpr std::array kBetweenWaysBack{Milliseconds(50), Milliseconds(250), Milliseconds(1000)};

}  // namespace

StepRunner Drive::stepsFor(const Promotion& promotion, const Checkpoint& checkpoint) {
    StepSubject subject;
    subject.promotion = report_.promotion.id;
    subject.of = promotion.id;
    subject.plans = stepsOf(parts_.objects, promotion);
    subject.project = project_.root;
    subject.stage = stage_.name;
    subject.mark = commandMark(parts_.state, project_.stateRoot(), stage_.name);
    if (!subject.plans.empty()) {
        const auto change = parts_.store.records().change(promotion.change, promotion.revision);
        subject.handle = fmt::format("{}.{}", changeHandle(promotion.change), promotion.revision);
        subject.title = change->title.value_or("");
        subject.changes = readChanges(parts_.objects, change->changeSet);
        subject.trees = target_->trees(checkpoint);
    }
    return {parts_, progress_, std::move(subject)};
}

void Drive::finishApplying(const Checkpoint& checkpoint) {
    if (const auto trouble = stepsFor(report_.promotion, checkpoint).run(StepWhen::kAfterSwitch, cancel_))
        return leaveApplying(checkpoint, *trouble);
    // Past the switch, which is never stopped half-way.
    if (const auto stop = stopped()) return leaveApplying(checkpoint, *stop);
    verify(checkpoint);
}

void Drive::leaveApplying(const Checkpoint& checkpoint, const StepTrouble& trouble) {
    if (!staysAfter(checkpoint, trouble.cause, trouble.reason)) rollBack(checkpoint, trouble.cause, trouble.reason);
}

bool Drive::staysAfter(const Checkpoint& checkpoint, Cause cause, const std::string& reason) {
    if (cause != Cause::kCancelled || stepsFor(report_.promotion, checkpoint).irreversible() == nullptr) return false;
    arrive({});
    report_.reason = fmt::format("{}; it cannot be taken back, so it stays: `gradus recover` goes on with it", reason);
    return true;
}

// Whatever is not wholly there goes back. Past what cannot be taken back there is only the way on.
void Drive::goOnApplying(const Checkpoint& checkpoint, const std::string& gone) {
    StepRunner steps = stepsFor(report_.promotion, checkpoint);
    if (const auto no = steps.failure())
        return rollBack(checkpoint, no->cause, fmt::format("{}; {}", no->reason, gone));
    if (const auto trouble = steps.settleDoubts()) return standStill(Cause::kErrored, gone, trouble->reason);
    const bool isThere = target_->observe(checkpoint) == StageDriver::Observed::kAfter;
    if (isThere || steps.irreversible() != nullptr) return act(checkpoint);
    rollBack(checkpoint, Cause::kErrored, gone);
}

void Drive::standStill(Cause cause, const std::string& reason, const std::string& why) {
    std::vector<Step> moves;
    const bool isOnItsWay = report_.promotion.state == State::kRollingBack;
    if (!isOnItsWay) moves.push_back({.to = State::kRollingBack, .cause = cause, .reason = reason});
    // Whoever was on the way back, or is one, may have taken back half.
    const bool isUntouched = !isOnItsWay && !report_.promotion.undoes;
    const std::string all = fmt::format("{}{}", isUntouched ? "nothing was taken back: " : "", why);
    moves.push_back({.to = State::kStuck,
                     .cause = Cause::kErrored,
                     .reason = reason.empty() ? all : fmt::format("{}; {}", reason, all)});
    commit(moves);
    const auto undone = report_.promotion.undoes ? parts_.store.records().promotion(*report_.promotion.undoes)
                                                 : std::optional(report_.promotion);
    for (const StepPlan& plan : stepsOf(parts_.objects, *undone))
        if (plan.irreversible) report_.irreversible.insert(plan.name);
}

// A disk that is full or fails for a moment, or too many open files, must not leave a target half-way back.
RollbackOutcome Drive::rollBackPatiently(const Checkpoint& checkpoint) {
    for (auto pause = kBetweenWaysBack.begin();; ++pause) {
        RollbackOutcome outcome;
        try {
            outcome = target_->rollback(checkpoint);
        } catch (const Error& e) {
            outcome.problems.emplace_back(e.what());
            outcome.isWorthAnother = e.code() == ErrorCode::kInfrastructure || e.code() == ErrorCode::kBusy;
        }
        if (!outcome.isWorthAnother || pause == kBetweenWaysBack.end()) return outcome;
        parts_.sleep(*pause, {});
        parts_.store.makeRoom();
    }
}

// Where an undo fails, what came before it is left alone: half a way back is no place to be.
RollbackOutcome Drive::restore(StepRunner& steps, const Checkpoint& checkpoint) {
    parts_.store.makeRoom();
    RollbackOutcome outcome;
    if (const auto trouble = steps.undo(StepWhen::kAfterSwitch)) {
        outcome.problems.push_back(trouble->reason);
        return outcome;
    }
    outcome = rollBackPatiently(checkpoint);
    if (!outcome.complete || !outcome.problems.empty()) return outcome;
    if (const auto trouble = steps.undo(StepWhen::kBeforeSwitch)) {
        outcome.complete = false;
        outcome.problems.push_back(trouble->reason);
    }
    return outcome;
}

void Drive::hear(StepRunner& steps, const Promotion& promotion, const UndoWish& wish) {
    requireStepsTakeable(parts_, promotion, wish);
    for (const StepWord& word : wish.words) steps.say(word, parts_.actor.name);
    const StepPlan* const step = steps.irreversible();
    if (step == nullptr) return;
    insists_ = true;
    report_.notes.push_back(fmt::format("what step '{}' of {} did in {} cannot be undone: it stays", step->name,
                                        promotionHandle(promotion.id), stage_.name));
}

}  // namespace gradus
