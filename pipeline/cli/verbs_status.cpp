#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/promote_words.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/engine/step_words.h"
#include "policies/language/duration.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

struct RulesLine {
    RulesState state;
    Style style;
    std::string_view text;
};
constexpr std::array kRulesLines{
    RulesLine{RulesState::kNone, Style::kDim, "no gradus.toml here"},
    RulesLine{RulesState::kUntrusted, Style::kYellow, "gradus.toml is not trusted yet: nothing of it runs"},
    RulesLine{RulesState::kTrusted, Style::kGreen, "trusted"},
    RulesLine{RulesState::kChanged, Style::kYellow, "the files differ from the trusted ones, which stay in force"},
};

/// Of what was said no to and stays: what takes it back, as it is accepted.
std::vector<std::string> nextOfLeft(const Promotion& promotion, const Engine& engine) {
    std::vector<std::string> next{"gradus why " + promotionHandle(promotion.id)};
    if (const auto command = wayBackOf(engine, promotion).command) next.push_back(*command);
    return next;
}

std::vector<std::string> nextSteps(const StatusReport& report, Service& service, const Context& context) {
    const bool broken = report.rules.unreadable || (report.loaded && !report.loaded->pipeline);
    if (broken) return {"gradus policy lint"};
    if (report.needRecovery > 0) return {"gradus recover"};
    if (report.rules.state == RulesState::kNone) return {"gradus try -- COMMAND", "gradus init"};
    if (report.rules.state != RulesState::kTrusted) return {"gradus trust"};
    for (const StageStatus& stage : report.stages)
        if (stage.holds.stuck) return {"gradus why " + promotionHandle(*stage.holds.stuck)};
    for (const StageStatus& stage : report.stages)
        for (const QueueEntry& entry : stage.queue)
            if (entry.isLeftToAPerson) return nextOfLeft(entry.promotion, service.engine(context.host.directory()));
    for (const StageStatus& stage : report.stages)
        if (stage.strayed)
            return {"gradus adopt " + stage.stage + " --dry-run", "gradus audit timeline " + stage.stage};
    for (const Promotion& promotion : report.unfinished)
        if (promotion.state == PromotionState::kWaiting) return {"gradus why " + promotionHandle(promotion.id)};
    std::vector<std::string> next;
    if (report.stopped) next.push_back("gradus why " + promotionHandle(*report.stopped));
    if (report.ahead) next.push_back("gradus promote " + changeHandle(*report.ahead));
    if (report.hasEdits) next.emplace_back("gradus promote");
    next.emplace_back("gradus try -- COMMAND");
    return next;
}

Json changesJson(const StatusReport& report) {
    Json out = Json::array();
    for (const Change& change : report.changes)
        out.push_back({{"id", changeHandle(change.id)},
                       {"revision", change.revision},
                       {"title", change.title ? Json(*change.title) : Json()},
                       {"submitted_at", formatTime(change.submittedAt)}});
    return out;
}

Json unfinishedJson(const StatusReport& report) {
    Json out = Json::array();
    for (const Promotion& promotion : report.unfinished)
        out.push_back({{"id", promotionHandle(promotion.id)},
                       {"change", changeHandle(promotion.change)},
                       {"stage", promotion.stage},
                       {"state", nameOf(kPromotionStates, promotion.state)}});
    return out;
}

std::string rulesText(const StatusReport& report, const Context& context) {
    const auto* line = std::find_if(kRulesLines.begin(), kRulesLines.end(),
                                    [&](const RulesLine& row) { return row.state == report.rules.state; });
    std::string text = context.paint(line->style, line->text) + "\n";
    if (report.rules.lost) text += "          " + context.paint(Style::kRed, *report.rules.lost) + "\n";
    if (report.rules.unreadable) text += "          " + context.paint(Style::kRed, *report.rules.unreadable) + "\n";
    if (!report.rules.changedFiles.empty())
        text += fmt::format("          changed: {}\n", fmt::join(report.rules.changedFiles, ", "));
    if (!report.loaded) return text;
    if (!report.loaded->pipeline)
        return text + "          " + context.paint(Style::kRed, "the rules have errors") + "\n";
    std::vector<std::string> stages;
    for (const Stage& stage : report.loaded->pipeline->stages) stages.push_back(stage.name);
    return text + fmt::format("pipeline  {}: {}\n", report.loaded->pipeline->name, fmt::join(stages, " → "));
}

Json queueJson(const StageStatus& stage) {
    Json out = Json::array();
    for (const QueueEntry& entry : stage.queue)
        out.push_back({{"id", promotionHandle(entry.promotion.id)},
                       {"change", changeHandle(entry.promotion.change)},
                       {"state", nameOf(kPromotionStates, entry.promotion.state)},
                       {"since", formatTime(entry.promotion.openedAt)},
                       {"waited_ms", entry.waited.count()},
                       {"expires_at", entry.expires ? Json(formatTime(*entry.expires)) : Json()},
                       {"reason", entry.reason}});
    return out;
}

Json monitorJson(const Watch& watch) {
    return {{"since", formatTime(watch.began.at)},
            {"looked_at", formatTime(watch.looked.at)},
            {"counted_ms", watch.counted.count()},
            {"gap_ms", watch.gap.count()}};
}

/// Until something newer came in: whoever brought that looked.
bool isToBeLookedAt(const StageStatus& stage) {
    return stage.holds.attention && stage.newest && stage.newest->id == *stage.holds.attention;
}

Json stagesJson(const StatusReport& report) {
    Json out = Json::array();
    for (const StageStatus& stage : report.stages) {
        Json row{{"stage", stage.stage}, {"driver", stage.driver}};
        row["holds"] = stage.holds.tree ? Json(stage.holds.tree->hex()) : Json();
        row["promotion"] = stage.promotion ? Json(promotionHandle(stage.promotion->id)) : Json();
        row["change"] = stage.promotion ? Json(changeHandle(stage.promotion->change)) : Json();
        row["adopted"] = stage.adopted ? adoptionJson(*stage.adopted) : Json();
        row["newest"] = stage.newest ? Json({{"id", promotionHandle(stage.newest->id)},
                                             {"state", nameOf(kPromotionStates, stage.newest->state)}})
                                     : Json();
        row["queue"] = queueJson(stage);
        row["monitor"] = stage.monitor ? monitorJson(*stage.monitor) : Json();
        row["steps"] = Json::array();
        for (const StepRecord& step : stage.steps) row["steps"].push_back(stepJson(step));
        row["stuck"] = stage.holds.stuck ? Json(promotionHandle(*stage.holds.stuck)) : Json();
        row["strayed"] = stage.strayed ? Json(describe(*stage.strayed)) : Json();
        row["attention"] = isToBeLookedAt(stage) ? Json(promotionHandle(*stage.holds.attention)) : Json();
        out.push_back(std::move(row));
    }
    return out;
}

std::string stageState(const StageStatus& stage) {
    if (stage.holds.stuck) return fmt::format("stuck ({})", promotionHandle(*stage.holds.stuck));
    if (stage.strayed) return "not what is on record";
    if (isToBeLookedAt(stage)) return fmt::format("look at {}", promotionHandle(*stage.holds.attention));
    // One that was stuck and is not what closes the stage any more was put right since; so was what a person looked at.
    if (!stage.newest || stage.newest->state == PromotionState::kPromoted ||
        stage.newest->state == PromotionState::kStuck ||
        (stage.adopted && isFinal(stage.newest->state) && stage.adopted->adoption.at >= stage.newest->movedAt))
        return "";
    return fmt::format("{} {}", promotionHandle(stage.newest->id), nameOf(kPromotionStates, stage.newest->state));
}

std::string holdsText(const StageStatus& stage) {
    if (stage.promotion) return changeHandle(stage.promotion->change) + " " + stage.title;
    if (!stage.holds.tree) return "-";
    if (stage.adopted && stage.adopted->adoption.brought)
        return fmt::format("what {} brought, by a person's word", promotionHandle(*stage.adopted->adoption.brought));
    return "what was there before";
}

std::string stagesText(const StatusReport& report, const Context& context) {
    if (std::none_of(report.stages.begin(), report.stages.end(),
                     [](const StageStatus& stage) { return stage.newest.has_value() || stage.holds.tree.has_value(); }))
        return {};
    TextTable table({{"stage"}, {"holds"}, {"by"}, {"since"}, {""}});
    for (const StageStatus& stage : report.stages) {
        table.row({{stage.stage, Style::kBold},
                   holdsText(stage),
                   stage.adopted ? stage.adopted->by : stage.by,
                   stage.promotion ? formatTime(stage.promotion->movedAt)
                   : stage.adopted ? formatTime(stage.adopted->adoption.at)
                                   : "",
                   {stageState(stage), stage.holds.stuck ? Style::kRed : Style::kYellow}});
    }
    return "\n" + table.render(context.paint, context.width);
}

std::string waitText(const QueueEntry& entry, Time now) {
    if (entry.isLeftToAPerson) return " (" + printable(entry.reason) + ")";
    if (!entry.expires) return {};
    return fmt::format(" for {}{}{}", formatDuration(std::chrono::floor<std::chrono::seconds>(entry.waited)),
                       entry.reason.empty() ? "" : " (" + printable(entry.reason) + ")",
                       now < *entry.expires ? fmt::format(", until {} at most", formatTime(*entry.expires))
                                            : fmt::format("; {}", kWaitIsOver));
}

/// Who is under way and who is next, stage by stage; then what is in no stage of the rules any more, or takes something
/// back.
std::string queueText(const StatusReport& report, Time now) {
    std::string text;
    std::vector<std::int64_t> told;
    const auto line = [&](const Promotion& promotion, const std::string& more) {
        told.push_back(promotion.id);
        text += fmt::format("{:<9} {} into {}: {}{}\n", promotionHandle(promotion.id), changeHandle(promotion.change),
                            promotion.stage, nameOf(kPromotionStates, promotion.state), more);
    };
    for (const StageStatus& stage : report.stages) {
        for (const QueueEntry& entry : stage.queue) line(entry.promotion, waitText(entry, now));
        if (stage.monitor)
            text += fmt::format("{:<9} monitored in {} since {}, looked at last {}\n",
                                promotionHandle(stage.monitor->promotion), stage.stage,
                                formatTime(stage.monitor->began.at), formatTime(stage.monitor->looked.at));
    }
    for (const StageStatus& stage : report.stages)
        for (const StepRecord& step : stage.steps)
            text += fmt::format("{:<9} step {} of {} is {}{}\n", promotionHandle(step.promotion), printable(step.name),
                                stage.stage, nameOf(kStepStates, step.state),
                                isInDoubt(step.state) ? ": nobody saw its end yet" : "");
    for (const Promotion& promotion : report.unfinished)
        if (std::find(told.begin(), told.end(), promotion.id) == told.end()) line(promotion, "");
    return text;
}

Result showStatus(Service& service, Context& context) {
    const StatusReport report = service.status(context.host.directory());
    Json data{{"project", report.rules.root.native()},
              {"rules", nameOf(kRulesStates, report.rules.state)},
              {"changed_files", report.rules.changedFiles},
              {"changes", changesJson(report)},
              {"stages", stagesJson(report)},
              {"unfinished", unfinishedJson(report)},
              {"need_recovery", report.needRecovery}};
    std::string text =
        fmt::format("project   {}\nrules     ", printable(report.rules.root.native())) + rulesText(report, context);
    if (!report.hasStore) text += "history   nothing is recorded yet\n";
    for (const Change& change : report.changes)
        text += fmt::format("{:<9} {}\n", changeHandle(change.id), change.title.value_or("[redacted]"));
    text += queueText(report, context.host.clock().now());
    data["words"] = Json::array();
    for (const WordInForce& word : service.wordsInForce(context.host.directory())) {
        data["words"].push_back({{"kind", word.kind}, {"text", word.text}, {"by", word.by}});
        text += context.paint(Style::kYellow, printable(word.text)) + "\n";
    }
    if (report.needRecovery > 0)
        text += context.paint(Style::kYellow, fmt::format("{} left by a process that ended: nothing is lost",
                                                          counted(report.needRecovery, "promotion"))) +
                "\n";
    text += stagesText(report, context);
    return {.data = std::move(data), .text = std::move(text), .next = nextSteps(report, service, context)};
}

}  // namespace

std::vector<Verb> statusVerbs(const OpenService& open) {
    return {{.words = "status",
             .group = Group::kAnswer,
             .summary = "show where this project stands and what to do next",
             .examples = {{"gradus status", "this project"},
                          {"gradus status -C ../shop --json", "another one, for programs"}},
             .onFrontPage = true,
             .handler = withService(open, showStatus)}};
}

}  // namespace gradus
