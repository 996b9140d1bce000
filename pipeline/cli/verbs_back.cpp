#include <fmt/format.h>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/envelope.h"
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

/// "p4 (c1), and p2 with it".
std::string handlesText(const Promotion& promotion, const std::vector<Promotion>& rest) {
    std::string text = fmt::format("{} ({})", promotionHandle(promotion.id), changeHandle(promotion.change));
    for (const Promotion& other : rest) text += fmt::format(", and {} with it", promotionHandle(other.id));
    return text;
}

Result dryRollBack(Service& service, Context& context, const Promotion& promotion) {
    const Engine& engine = service.engine(context.host.directory());
    engine.requireTakeable(promotion, undoWishOf(context));
    const std::vector<Promotion> rest = engine.goesWith(promotion);
    Result result{.data = {{"promotion", promotionJson(promotion, "")}, {"steps", Json::array()}},
                  .text = fmt::format("would take {} back out of {}\n", handlesText(promotion, rest), promotion.stage)};
    result.data["taken_out"] = {promotionHandle(promotion.id)};
    for (const Promotion& other : rest) result.data["taken_out"].push_back(promotionHandle(other.id));
    for (const StepRecord& step : service.story(promotion.id).steps) {
        result.data["steps"].push_back(stepJson(step));
        result.text += stepText(step, context.paint);
    }
    return result;
}

/// The first that is still there says why.
void addTrouble(const StageReport& report, Result& result) {
    const StageReport* in = report.isOut() ? nullptr : &report;
    for (const StageReport& more : report.also)
        if (in == nullptr && !more.isOut()) in = &more;
    if (in == nullptr) return;
    result.exit = exitOf(*in);
    result.problem = problemOf(*in);
}

/// What makes sense once it is out. A stage that was stuck is open again.
std::vector<std::string> nextAfterBack(const Promotion& was, const Result& result) {
    if (was.state != PromotionState::kStuck || was.undoes || result.exit != Exit::kOk) return {"gradus status"};
    return {"gradus status", "gradus retry " + promotionHandle(was.id)};
}

Result rollBackNow(Engine& engine, Context& context, const Promotion& promotion, ClimbView& view,
                   const Interrupt& interrupt) {
    const StageReport report = engine.rollBack(promotion.id, view.progress(), interrupt.token(), undoWishOf(context));
    view.clear();
    Result result{.data = stageReportJson(report), .text = stageText(report, context.paint)};
    addTrouble(report, result);
    result.next = nextAfterBack(promotion, result);
    return result;
}

/// Why what is half-way in cannot be brought to its end, so that it can be taken out neither.
std::optional<Result> faultOf(Engine& engine, const Promotion& promotion, ClimbView& view, const Interrupt& interrupt) {
    for (const Recovered& one : engine.recover(view.progress(), interrupt.token())) {
        if (one.before.id != promotion.id || !one.fault) continue;
        view.clear();
        return Result{.exit = faceOf(one.fault->code()).exit,
                      .data = stageReportJson(one.report),
                      .next = nextAfter(engine, one.report),
                      .problem = problemOf(one.report)};
    }
    return std::nullopt;
}

Result rollBack(Service& service, Context& context, const Promotion& promotion) {
    const Interrupt interrupt(kLeftInTheMiddle);
    if (context.arguments.flag("dry-run")) return dryRollBack(service, context, promotion);
    ClimbView view(context, {promotion.stage});
    Engine& engine = service.recovered(context.host.directory(), view.progress(), interrupt.token());
    const Promotion now = *engine.find(promotion.id);
    if (now.state == PromotionState::kApplying || now.state == PromotionState::kRollingBack)
        if (const auto fault = faultOf(engine, now, view, interrupt)) return *fault;
    if (isFinal(promotion.state) || now.state != PromotionState::kRolledBack)
        return interruptedOr(rollBackNow(engine, context, now, view, interrupt), interrupt);
    Result result{.data = {{"promotion", promotionJson(now, "")}, {"taken_out", {promotionHandle(now.id)}}},
                  .text = fmt::format("{} ({}) was half-way in, and is taken back out of {}\n", promotionHandle(now.id),
                                      changeHandle(now.change), now.stage),
                  .next = {"gradus status"}};
    view.clear();
    if (const auto rest = engine.goesWith(now); !rest.empty()) {
        Result more = rollBackNow(engine, context, rest.front(), view, interrupt);
        more.text = result.text + more.text;
        more.data["taken_out"].insert(more.data["taken_out"].begin(), promotionHandle(now.id));
        result = std::move(more);
    }
    return interruptedOr(std::move(result), interrupt);
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
    return rollBack(service, context, promotion);
}

Result rollback(Service& service, Context& context) {
    return rollBack(service, context,
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
