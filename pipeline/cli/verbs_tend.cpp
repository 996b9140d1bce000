#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/envelope.h"
#include "pipeline/cli/promote_words.h"
#include "pipeline/cli/sandbox_words.h"
#include "pipeline/cli/verbs.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

/// What came into a stage without whoever wanted it higher: that goes no further by itself.
void addWayOn(const StageReport& report, const Engine& engine, Result& result) {
    const std::string goal = report.promotion.goal.value_or(lastStage(engine));
    if (!report.succeeded() || report.promotion.undoes || report.promotion.stage == goal) return;
    if (engine.project().pipeline.findStage(goal) == nullptr) {
        result.text += fmt::format("{} was to go on to '{}', which the rules do not have any more: it stays in {}\n",
                                   changeHandle(report.promotion.change), printable(goal), report.promotion.stage);
        return;
    }
    result.next.push_back(fmt::format("gradus promote {} --to {}", changeHandle(report.promotion.change), goal));
}

/// Stages that wait for their cause to be put right.
void addStuck(Service& service, const Context& context, Result& result) {
    result.data["stuck"] = Json::array();
    for (const StageStatus& stage : service.status(context.host.directory()).stages) {
        if (!stage.holds.stuck) continue;
        const std::string way = wayOutOf(service.engine(context.host.directory()), *stage.holds.stuck);
        result.data["stuck"].push_back(
            {{"stage", stage.stage}, {"promotion", promotionHandle(*stage.holds.stuck)}, {"way_out", way}});
        result.text += fmt::format("{} is stuck: {}\n", printable(stage.stage), way);
    }
}

Result recover(Service& service, Context& context) {
    const Interrupt interrupt(kLeftInTheMiddle);
    Engine& engine = service.engine(context.host.directory());
    if (context.arguments.flag("dry-run")) {
        const std::size_t count = service.needRecovery(context.host.directory());
        return {.data = {{"needed", count}}, .text = fmt::format("{} to recover\n", counted(count, "promotion"))};
    }
    ClimbView view(context, stagesUpTo(engine, ""));
    engine.tidyMarkers();
    auto all = engine.recover(view.progress(), interrupt.token());
    std::ranges::move(engine.retryStuck(view.progress(), interrupt.token()), std::back_inserter(all));
    const auto expired = engine.expire();
    Result result;
    std::vector<StageReport> driven;
    try {
        driven = engine.driveReady(view.progress(), interrupt.token(), durationOption(context, "recover", "for"));
    } catch (const Error& e) {
        // What was recovered is told all the same.
        result.exit = faceOf(e.code()).exit;
        result.problem = problemOf(e);
    }
    view.clear();
    result.data["recovered"] = Json::array();
    result.data["expired"] = Json::array();
    result.data["driven"] = Json::array();
    for (const Promotion& promotion : expired) {
        result.data["expired"].push_back(promotionHandle(promotion.id));
        result.text += fmt::format("{} waited too long, and is expired\n", promotionHandle(promotion.id));
    }
    for (const StageReport& report : driven) {
        result.data["driven"].push_back(stageReportJson(report));
        if (!report.promotion.goal) addWayOn(report, engine, result);
        result.text += fmt::format("it was the turn of {}\n", changeHandle(report.promotion.change)) +
                       stageText(report, context.paint);
    }
    for (const Recovered& one : all) {
        Json json = stageReportJson(one.report);
        const std::string_view was =
            one.before.state == PromotionState::kPromoted ? "half-way out" : nameOf(kPromotionStates, one.before.state);
        json["was"] = was;
        result.data["recovered"].push_back(std::move(json));
        addWayOn(one.report, engine, result);
        result.text +=
            fmt::format("{} was {}\n", promotionHandle(one.before.id), was) + stageText(one.report, context.paint);
        if (one.report.promotion.state == PromotionState::kStuck) {
            result.exit = Exit::kInfrastructure;
            result.problem = problemOf(one.report);
        }
        if (!isFinal(one.report.promotion.state) && !one.fault) {
            result.exit = Exit::kWaiting;
            result.problem = problemOf(one.report);
            result.next = nextAfter(engine, one.report);
        }
        if (one.fault) {
            result.exit = faceOf(one.fault->code()).exit;
            result.problem = problemOf(one.report);
        }
    }
    if (all.empty()) {
        const std::string rest = std::exchange(result.text, "nothing to recover\n");
        addStuck(service, context, result);
        result.text += rest;
    }
    return interruptedOr(std::move(result), interrupt);
}

Result cancel(Service& service, Context& context) {
    const Promotion promotion =
        service.promotionNamed(context.host.directory(), context.arguments.positional("PROMOTION"));
    if (context.arguments.flag("dry-run"))
        return {.data = {{"promotion", promotionJson(promotion, "")}},
                .text = isFinal(promotion.state)
                            ? fmt::format("{} is {} and stays so\n", promotionHandle(promotion.id),
                                          nameOf(kPromotionStates, promotion.state))
                            : fmt::format("would stop {}, which is {}\n", promotionHandle(promotion.id),
                                          nameOf(kPromotionStates, promotion.state))};
    Engine& engine = service.engine(context.host.directory());
    const bool waited = engine.cancel(promotion.id).state == PromotionState::kWaiting;
    const Promotion now = *engine.find(promotion.id);
    const std::string id = promotionHandle(now.id);
    Result result{.data = {{"promotion", promotionJson(now, "")}}};
    if (now.state == PromotionState::kPromoted) {
        result.exit = Exit::kNotAllowed;
        result.problem = Problem{.code = std::string(faceOf(ErrorCode::kNotAllowed).word),
                                 .message = fmt::format("{} was promoted into {} before it could stop", id, now.stage),
                                 .hint = "gradus rollback " + id};
        return result;
    }
    if (waited || now.state == PromotionState::kCancelled)
        result.text = fmt::format("cancelled {}\n", id);
    else
        result.text = fmt::format("asked the process that drives {} to stop: {} is {}\n", id, id,
                                  nameOf(kPromotionStates, now.state));
    return result;
}

AdoptWish adoptWishOf(Service& service, const Context& context) {
    const auto holds = context.arguments.value("holds");
    if (!holds) return {};
    if (*holds == "nothing") return {.promotion = std::nullopt, .nothing = true};
    return {.promotion = service.promotionNamed(context.host.directory(), *holds).id};
}

/// What the stage holds from now on, and how one knows.
std::string adoptedText(const std::string& stage, const Adopted& adopted, const AdoptWish& wish, bool isDry) {
    const std::string holds = printable(stage) + (isDry ? " would hold " : " holds ");
    const std::string onWord = isDry ? ", on your word" : ", and you vouch for it";
    if (wish.nothing)
        return holds + "nothing from now on" + (isDry ? onWord : "") +
               ": a promotion that fails is taken back to nothing, whatever is there\n";
    if (!adopted.held) return holds + "nothing from now on: what it held on record is not there any more\n";
    if (adopted.isLookedAt)
        return isDry ? fmt::format("would take what is in {} as what {} holds\n",
                                   printable(adopted.held->directory.native()), printable(stage))
                     : fmt::format("{}what is in {} from now on\n", holds, printable(adopted.held->directory.native()));
    const std::string tree = adopted.held->digest.brief();
    if (wish.promotion)
        return fmt::format("{}the tree {} that {} brought from now on{}\n", holds, tree,
                           promotionHandle(*wish.promotion), onWord);
    return fmt::format("{}the tree {} from now on, which its `status` prints\n", holds, tree);
}

Result adopt(Service& service, Context& context) {
    const std::string stage = *context.arguments.positional("STAGE");
    const bool isDry = context.arguments.flag("dry-run");
    const AdoptWish wish = adoptWishOf(service, context);
    const Adopted adopted = service.engine(context.host.directory()).adopt(stage, wish, isDry);
    Result result;
    result.data = {{"stage", stage},
                   {"directory", adopted.held ? Json(adopted.held->directory.native()) : Json()},
                   {"tree", adopted.held ? Json(adopted.held->digest.hex()) : Json()},
                   {"vouched", wish.isGiven()},
                   {"promotion", wish.promotion ? Json(promotionHandle(*wish.promotion)) : Json()},
                   {"adopted", !isDry}};
    result.text = adoptedText(stage, adopted, wish, isDry);
    if (!isDry) result.next = {adopted.held ? "gradus status" : "gradus promote --to " + stage};
    return result;
}

}  // namespace

std::vector<Verb> tendVerbs(const OpenService& open) {
    return {
        {.words = "recover",
         .group = Group::kPromote,
         .summary = "end what a killed process left, go on with what is ready",
         .examples = {{"gradus recover", "every target is wholly before or wholly after"},
                      {"gradus recover --for 10m", "of a long queue, as much as begins within ten minutes"}},
         .options = {{.name = "for",
                      .value = "DURATION",
                      .doc = "begin nothing else of what waits after so long",
                      .fallback = "all that is ready"},
                     kDryRun},
         .handler = withService(open, recover)},
        {.words = "cancel",
         .group = Group::kPromote,
         .summary = "stop a promotion",
         .examples = {{"gradus cancel p3", "what it touched is restored"}},
         .positionals = {{"PROMOTION", "a promotion (p3), a change (c2) or a stage; the newest otherwise", false}},
         .options = {kDryRun},
         .handler = withService(open, cancel)},
        {.words = "adopt",
         .group = Group::kPromote,
         .summary = "take what is in a stage's target as what it holds",
         .examples = {{"gradus adopt production", "before the first promotion, or after mending by hand"}},
         .positionals = {{"STAGE", "the stage"}},
         .options = {{.name = "holds",
                      .value = "PROMOTION",
                      .doc = "where nobody can look, you vouch: it holds what that one brought, or `nothing`"},
                     kDryRun},
         .handler = withService(open, adopt)},
    };
}

}  // namespace gradus
