#include <fmt/format.h>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/promote_words.h"
#include "pipeline/cli/verbs.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

UndoWish undoWishOf(const Context& context) {
    UndoWish wish;
    wish.insist = context.arguments.value("insist");
    for (const std::string& step : context.arguments.values("done")) wish.words.push_back({step, true});
    for (const std::string& step : context.arguments.values("not-done")) wish.words.push_back({step, false});
    return wish;
}

std::vector<Option> undoOptions() {
    return {
        {.name = "insist", .value = "REASON", .doc = "although a step cannot be undone: what it did stays"},
        {.name = "done", .value = "STEP", .doc = "nobody saw the end of this step: it was done", .repeatable = true},
        {.name = "not-done",
         .value = "STEP",
         .doc = "nobody saw the end of this step: it was not done",
         .repeatable = true},
        kDryRun};
}

Result rollBack(Service& service, Context& context, const Promotion& promotion) {
    const Interrupt interrupt(kLeftInTheMiddle);
    if (context.arguments.flag("dry-run")) {
        service.engine(context.host.directory()).requireTakeable(promotion, undoWishOf(context));
        Result result{.data = {{"promotion", promotionJson(promotion, "")}, {"steps", Json::array()}},
                      .text = fmt::format("would take {} ({}) back out of {}\n", promotionHandle(promotion.id),
                                          changeHandle(promotion.change), promotion.stage)};
        for (const StepRecord& step : service.story(promotion.id).steps) {
            result.data["steps"].push_back(stepJson(step));
            result.text += stepText(step, context.paint);
        }
        return result;
    }
    ClimbView view(context, {promotion.stage});
    Engine& engine = service.recovered(context.host.directory(), view.progress(), interrupt.token());
    const Promotion now = *engine.find(promotion.id);
    if (!isFinal(promotion.state) && now.state == PromotionState::kRolledBack) {
        view.clear();
        return {.data = {{"promotion", promotionJson(now, "")}},
                .text = fmt::format("{} ({}) was half-way in, and is taken back out of {}\n", promotionHandle(now.id),
                                    changeHandle(now.change), now.stage),
                .next = {"gradus status"}};
    }
    const StageReport report = engine.rollBack(promotion.id, view.progress(), interrupt.token(), undoWishOf(context));
    view.clear();
    Result result;
    result.data = stageReportJson(report);
    result.text = stageText(report, context.paint);
    const bool back = report.succeeded() || report.promotion.state == PromotionState::kRolledBack;
    if (!back) {
        result.exit = exitOf(report);
        result.problem = problemOf(report);
    }
    result.next = {"gradus status"};
    return interruptedOr(std::move(result), interrupt);
}

/// What was asked about again came in again without writing anything: all of it is one.
Result rollBackWhole(Service& service, Context& context, Promotion promotion) {
    Result result = rollBack(service, context, promotion);
    while (!context.arguments.flag("dry-run") && result.exit == Exit::kOk && promotion.previous) {
        const Engine& engine = service.engine(context.host.directory());
        const auto below = engine.find(*promotion.previous);
        if (!below || below->change != promotion.change || below->revision != promotion.revision ||
            below->state != PromotionState::kPromoted)
            break;
        promotion = *below;
        Result more = rollBack(service, context, promotion);
        more.text = result.text + more.text;
        result = std::move(more);
    }
    return result;
}

/// The newest promotion that is still in the work tree, of one change or of any.
Result undo(Service& service, Context& context) {
    const std::string stage = workTreeStage(service.engine(context.host.directory()));
    const auto words = context.arguments.positional("CHANGE");
    const Promotion promotion = words ? service.promotionNamed(context.host.directory(), *words)
                                      : service.promotionToTakeBack(context.host.directory(), stage);
    if (promotion.stage != stage)
        throw Error(ErrorCode::kNotAllowed, "{} is not in the work tree but in {}", promotionHandle(promotion.id),
                    promotion.stage)
            .hint(fmt::format("gradus rollback {}", promotionHandle(promotion.id)));
    return rollBackWhole(service, context, promotion);
}

Result rollback(Service& service, Context& context) {
    return rollBackWhole(service, context,
                         service.promotionToTakeBack(context.host.directory(), *context.arguments.positional("STAGE")));
}

}  // namespace

std::vector<Verb> backVerbs(const OpenService& open) {
    return {
        {.words = "undo",
         .group = Group::kPromote,
         .summary = "take the newest change back out of the work tree",
         .examples = {{"gradus undo", "every path as it was; what you edited since is kept"}},
         .positionals = {{"CHANGE", "a change or promotion; the newest otherwise", false}},
         .options = undoOptions(),
         .handler = withService(open, undo)},
        {.words = "rollback",
         .group = Group::kPromote,
         .summary = "take a change back out of a stage",
         .examples = {{"gradus rollback production", "to what it held before"},
                      {"gradus rollback c2", "out of the stage it entered last"},
                      {"gradus rollback p3 --not-done migrate", "a step that nobody saw the end of did not run"}},
         .positionals = {{"STAGE", "a stage, a change (c2) or a promotion (p3)"}},
         .options = undoOptions(),
         .handler = withService(open, rollback)},
    };
}

}  // namespace gradus
