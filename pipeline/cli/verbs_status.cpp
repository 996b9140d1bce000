#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pipeline/cli/context.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
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

std::vector<std::string> nextSteps(const StatusReport& report) {
    const bool broken = report.rules.unreadable || (report.loaded && !report.loaded->pipeline);
    if (broken) return {"gradus policy lint"};
    if (report.rules.state == RulesState::kNone) return {"gradus help policy lint"};
    if (report.rules.state != RulesState::kTrusted) return {"gradus trust"};
    return {"gradus policy show"};
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

Result showStatus(Service& service, Context& context) {
    const StatusReport report = service.status(context.host.directory());
    Json data{{"project", report.rules.root.native()},
              {"rules", nameOf(kRulesStates, report.rules.state)},
              {"changed_files", report.rules.changedFiles},
              {"changes", changesJson(report)},
              {"unfinished", unfinishedJson(report)}};
    std::string text =
        fmt::format("project   {}\nrules     ", printable(report.rules.root.native())) + rulesText(report, context);
    if (!report.hasStore) text += "history   nothing is recorded yet\n";
    for (const Change& change : report.changes)
        text += fmt::format("{:<9} {}\n", changeHandle(change.id), change.title.value_or("[redacted]"));
    for (const Promotion& promotion : report.unfinished)
        text += fmt::format("{:<9} {} into {}: {}\n", promotionHandle(promotion.id), changeHandle(promotion.change),
                            promotion.stage, nameOf(kPromotionStates, promotion.state));
    return {.data = std::move(data), .text = std::move(text), .next = nextSteps(report)};
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
