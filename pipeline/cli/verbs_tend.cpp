#include <fmt/format.h>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/envelope.h"
#include "pipeline/cli/promote_words.h"
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
    result.next.push_back(fmt::format("gradus promote {} --to {}", changeHandle(report.promotion.change), goal));
}

/// Stages that wait for their cause to be put right.
std::string stuckText(Service& service, const Context& context) {
    std::string text;
    for (const StageStatus& stage : service.status(context.host.directory()).stages)
        if (stage.holds.stuck)
            text += fmt::format("{} is stuck: `gradus rollback {}` tries to take it back again\n",
                                printable(stage.stage), promotionHandle(*stage.holds.stuck));
    return text;
}

Result recover(Service& service, Context& context) {
    const Interrupt interrupt(kLeftInTheMiddle);
    Engine& engine = service.engine(context.host.directory());
    if (context.arguments.flag("dry-run")) {
        const std::size_t count = service.needRecovery(context.host.directory());
        return {.data = {{"needed", count}}, .text = fmt::format("{} to recover\n", counted(count, "promotion"))};
    }
    ClimbView view(context, stagesUpTo(engine, ""));
    const auto all = engine.recover(view.progress(), interrupt.token());
    const auto expired = engine.expire();
    Result result;
    std::vector<StageReport> driven;
    try {
        driven = engine.driveReady(view.progress(), interrupt.token());
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
        json["was"] = nameOf(kPromotionStates, one.before.state);
        result.data["recovered"].push_back(std::move(json));
        addWayOn(one.report, engine, result);
        result.text +=
            fmt::format("{} was {}\n", promotionHandle(one.before.id), nameOf(kPromotionStates, one.before.state)) +
            stageText(one.report, context.paint);
        if (one.report.promotion.state == PromotionState::kStuck) {
            result.exit = Exit::kInfrastructure;
            result.problem = problemOf(one.report);
        }
        if (one.fault) {
            result.exit = faceOf(one.fault->code()).exit;
            result.problem = problemOf(one.report);
        }
    }
    if (all.empty()) result.text = "nothing to recover\n" + stuckText(service, context) + result.text;
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
    const Promotion was = service.engine(context.host.directory()).cancel(promotion.id);
    const bool ended = was.state == PromotionState::kWaiting;
    return {.data = {{"promotion", promotionJson(*service.engine(context.host.directory()).find(promotion.id), "")}},
            .text = ended ? fmt::format("cancelled {}\n", promotionHandle(promotion.id))
                          : fmt::format("asked the process that drives {} to stop\n", promotionHandle(promotion.id))};
}

AdoptWish adoptWishOf(Service& service, const Context& context) {
    const auto holds = context.arguments.value("holds");
    if (!holds) return {};
    if (*holds == "nothing") return {.promotion = std::nullopt, .nothing = true};
    return {.promotion = service.promotionNamed(context.host.directory(), *holds).id};
}

Result adopt(Service& service, Context& context) {
    const std::string stage = *context.arguments.positional("STAGE");
    Engine& engine = service.engine(context.host.directory());
    const AdoptWish wish = adoptWishOf(service, context);
    if (context.arguments.flag("dry-run")) {
        if (!engine.wouldAdopt(stage, wish))
            return {.data = {{"stage", stage}, {"directory", nullptr}},
                    .text = fmt::format("would take it that {} holds nothing\n", printable(stage))};
        const std::string target = engine.targetOf(stage).native();
        return {
            .data = {{"stage", stage}, {"directory", target}},
            .text = fmt::format("would take what is in {} as what {} holds\n", printable(target), printable(stage))};
    }
    const auto held = engine.adopt(stage, wish);
    if (!held)
        return {
            .data = {{"stage", stage}, {"directory", nullptr}, {"tree", nullptr}},
            .text = fmt::format("{} holds nothing from now on{}\n", printable(stage),
                                wish.nothing ? ": a promotion that fails is taken back to nothing, whatever is there"
                                             : ": what it held on record is not there any more"),
            .next = {"gradus promote --to " + stage}};
    return {.data = {{"stage", stage}, {"directory", held->directory.native()}, {"tree", held->digest.hex()}},
            .text = fmt::format("{} holds what is in {} from now on\n", printable(stage),
                                printable(held->directory.native())),
            .next = {"gradus status"}};
}

}  // namespace

std::vector<Verb> tendVerbs(const OpenService& open) {
    return {
        {.words = "recover",
         .group = Group::kPromote,
         .summary = "end what a killed process left, go on with what is ready",
         .examples = {{"gradus recover", "every target is wholly before or wholly after"}},
         .options = {kDryRun},
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
