#include "pipeline/engine/step_words.h"

#include <algorithm>

#include "pipeline/engine/person.h"
#include "pipeline/engine/step_runner.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

using State = StepState;

/// A step that began, as it stands once a person's word about it counts.
struct Begun {
    const StepPlan* plan;
    State state;
};

const StepWord* wordAbout(const std::string& step, const UndoWish& wish) {
    const auto found = std::ranges::find(wish.words, step, &StepWord::step);
    return found == wish.words.end() ? nullptr : &*found;
}

std::vector<Begun> begunSteps(const EngineParts& parts, const std::vector<StepPlan>& plans, std::int64_t promotion,
                              const UndoWish& wish) {
    std::vector<Begun> all;
    for (const StepPlan& plan : plans) {
        const auto record = parts.store.records().steps().find(promotion, plan.name);
        if (!record) continue;
        const StepWord* const word = wordAbout(plan.name, wish);
        all.push_back({&plan, word == nullptr ? record->state : saidToBe(record->state, word->isDone)});
    }
    return all;
}

void requireDoubts(const EngineParts& parts, const std::vector<StepPlan>& plans, std::int64_t promotion,
                   const UndoWish& wish) {
    for (const StepWord& word : wish.words) {
        if (std::ranges::find(plans, word.step, &StepPlan::name) == plans.end())
            throw Error(ErrorCode::kNotFound, "{} has no step '{}'", promotionHandle(promotion), word.step)
                .hint(fmt::format("see `gradus why {}`", promotionHandle(promotion)));
        const auto record = parts.store.records().steps().find(promotion, word.step);
        if (record && isOpen(record->state)) continue;
        throw Error(ErrorCode::kNotAllowed, "there is no doubt about step '{}' of {}: it is {}", word.step,
                    promotionHandle(promotion), record ? nameOf(kStepStates, record->state) : "not begun");
    }
}

/// All that was said so far, as it is said: what is asked for comes on top of it.
std::string saidSoFar(const std::string& id, const UndoWish& wish) {
    std::string text = "gradus rollback " + id;
    for (const StepWord& word : wish.words)
        text += fmt::format(" --{} {}", word.isDone ? "done" : "not-done", word.step);
    return text + (wish.insist ? " --insist REASON" : "");
}

void requireNoneOpen(const std::vector<Begun>& steps, const std::string& id, const std::string& said,
                     const UndoWish& wish) {
    const auto open =
        std::ranges::find_if(steps, [](const Begun& step) { return needsAWord(step.state, step.plan->idempotence); });
    if (open == steps.end()) return;
    const bool isLasting = open->plan->irreversible;
    throw Error(ErrorCode::kNotAllowed, "{}, and it is not run twice", openText(open->plan->name, open->state, id))
        .hint(fmt::format("look, then say so: {0} --done {1}{2} if what it did is there ({3}), or {0} --not-done {1}",
                          said, open->plan->name, isLasting && !wish.insist ? " --insist REASON" : "",
                          isLasting ? "it cannot be undone and stays" : "it is undone then"));
}

/// What can be done about it besides taking the rest back. Nothing enters a stage that is closed, or that something is
/// half-way into: a change that mends it would wait there.
std::string wayForward(const EngineParts& parts, const Promotion& promotion) {
    if (parts.store.records().stageState(promotion.project, promotion.stage).stuck)
        return fmt::format(
            "`gradus adopt {0}` takes what is there for what {0} holds, then bring a change that mends it",
            promotion.stage);
    if (!isFinal(promotion.state)) return "put right what its checks look at, then `gradus recover` goes on with it";
    return "bring a change that mends it";
}

/// Nothing but what cannot be undone is in the way, and whoever acts may insist.
bool isTakenOnInsisting(const Engine& engine, const Promotion& promotion) {
    try {
        engine.requireTakeable(promotion, {.insist = "REASON", .words = {}});
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

WayBack wayBackOf(const Engine& engine, const Promotion& promotion) {
    const std::string words = "gradus rollback " + promotion.stage;
    std::string hint = fmt::format("`{}` takes it back; or put its surroundings right", words);
    try {
        engine.requireTakeable(promotion);
    } catch (const Error& e) {
        if (!e.hint().empty()) hint = e.hint();
        if (isTakenOnInsisting(engine, promotion)) return {words + " --insist REASON", hint};
        if (e.code() == ErrorCode::kNotAllowed) return {std::nullopt, hint};
    }
    return {words, hint};
}

void requireStepsTakeable(const EngineParts& parts, const Promotion& promotion, const UndoWish& wish,
                          const std::optional<std::int64_t>& named) {
    const std::string id = promotionHandle(promotion.id);
    const std::string said = saidSoFar(promotionHandle(named.value_or(promotion.id)), wish);
    if (wish.insist || !wish.words.empty()) requirePerson(parts.actor, "decide that");
    const std::vector<StepPlan> plans = stepsOf(parts.objects, promotion);
    requireDoubts(parts, plans, promotion.id, wish);
    const auto steps = begunSteps(parts, plans, promotion.id, wish);
    requireNoneOpen(steps, id, said, wish);
    const auto lasting = std::ranges::find_if(
        steps, [](const Begun& step) { return step.plan->irreversible && mayBeThere(step.state); });
    if (lasting == steps.end() || wish.insist) return;
    throw Error(ErrorCode::kNotAllowed, "what step '{}' of {} did in {} cannot be undone, so it is not taken back",
                lasting->plan->name, id, promotion.stage)
        .hint(fmt::format("{}; or, if the rest is to go all the same: {} --insist REASON", wayForward(parts, promotion),
                          said));
}

}  // namespace gradus
