#include <algorithm>

#include "pipeline/engine/drive.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

constexpr std::uint64_t kMostChangeSet = std::uint64_t{256} << 20;

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", name);
    return text;
}

}  // namespace

StepRunner Drive::stepsFor(const Promotion& promotion, const Checkpoint& checkpoint) {
    StepSubject subject;
    subject.promotion = report_.promotion.id;
    subject.of = promotion.id;
    subject.plans = stepsOf(parts_.objects, promotion);
    subject.project = project_.root;
    subject.stage = stage_.name;
    if (!subject.plans.empty()) {
        const auto change = parts_.store.records().change(promotion.change, promotion.revision);
        subject.handle = fmt::format("{}.{}", changeHandle(promotion.change), promotion.revision);
        subject.title = change->title.value_or("");
        subject.changes = ChangeSet::decode(parts_.objects.readAll(change->changeSet, kMostChangeSet));
        subject.trees = target_->trees(checkpoint);
    }
    return {parts_, progress_, std::move(subject)};
}

void Drive::finishApplying(const Checkpoint& checkpoint) {
    if (const auto trouble = stepsFor(report_.promotion, checkpoint).run(StepWhen::kAfterSwitch, cancel_))
        return rollBack(checkpoint, trouble->cause, trouble->reason);
    verify(checkpoint);
}

// Whatever is not wholly there goes back. Past what cannot be taken back there is only the way on.
void Drive::goOnApplying(const Checkpoint& checkpoint, const std::string& gone) {
    StepRunner steps = stepsFor(report_.promotion, checkpoint);
    if (const auto trouble = steps.settleDoubts()) return standStill(Cause::kErrored, gone, trouble->reason);
    const bool isThere = target_->observe(checkpoint) == StageDriver::Observed::kAfter;
    if (isThere || steps.irreversible() != nullptr) return act(checkpoint);
    rollBack(checkpoint, Cause::kErrored, gone);
}

void Drive::standStill(Cause cause, const std::string& reason, const std::string& why) {
    std::vector<Step> moves;
    if (report_.promotion.state != State::kRollingBack)
        moves.push_back({.to = State::kRollingBack, .cause = cause, .reason = reason});
    moves.push_back({.to = State::kStuck,
                     .cause = Cause::kErrored,
                     .reason = fmt::format("{}{}{}", reason, reason.empty() ? "" : "; nothing was taken back: ", why)});
    commit(moves);
}

// Where an undo fails, what came before it is left alone: half a way back is no place to be.
RollbackOutcome Drive::restore(StepRunner& steps, const Checkpoint& checkpoint) {
    RollbackOutcome outcome;
    if (const auto trouble = steps.undo(StepWhen::kAfterSwitch)) {
        outcome.problems.push_back(trouble->reason);
        return outcome;
    }
    try {
        outcome = target_->rollback(checkpoint);
    } catch (const Error& e) {
        outcome.problems.emplace_back(e.what());
    }
    if (!outcome.complete || !outcome.problems.empty()) return outcome;
    if (const auto trouble = steps.undo(StepWhen::kBeforeSwitch)) {
        outcome.complete = false;
        outcome.problems.push_back(trouble->reason);
    }
    return outcome;
}

void Drive::hear(StepRunner& steps, const Promotion& promotion, const UndoWish& wish) {
    const std::string id = promotionHandle(promotion.id);
    const bool isPerson = parts_.actor.kind == ActorKind::kPerson;
    if (!isPerson && (wish.insist || !wish.words.empty()))
        throw Error(ErrorCode::kNotAllowed, "{} {} does not decide that: it takes a person",
                    nameOf(kActorKinds, parts_.actor.kind), parts_.actor.name)
            .hint("ask a person to do it");
    for (const StepWord& word : wish.words) steps.say(word.step, word.isDone, parts_.actor.name);
    if (const auto open = steps.forAPerson(); !open.empty())
        throw Error(ErrorCode::kNotAllowed, "nobody knows whether {} of {} came to its end, and it is not run twice",
                    listed(open), id)
            .hint(fmt::format("look, then say so: gradus rollback {0} --done {1} (it is undone then), or gradus "
                              "rollback {0} --not-done {1}",
                              id, open.front()));
    const StepPlan* const step = steps.irreversible();
    if (step == nullptr) return;
    const std::string what =
        fmt::format("what step '{}' of {} did in {} cannot be undone", step->name, id, stage_.name);
    if (!wish.insist)
        throw Error(ErrorCode::kNotAllowed, "{}, so it is not taken back", what)
            .hint(fmt::format("bring a change that mends it; or, if the rest is to go all the same: gradus rollback {} "
                              "--insist REASON",
                              id));
    insists_ = true;
    report_.notes.push_back(what + ": it stays");
}

}  // namespace gradus
