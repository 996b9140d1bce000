#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/time_argument.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/service/past.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

/// A number alone is an event; everything else is a time.
PastRequest requestFrom(const Context& context) {
    PastRequest request{.stage = context.arguments.value("stage")};
    const std::string text = context.arguments.positional("MOMENT").value();
    if (text.empty() || !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        request.time = parseTimeArgument(text, context.host.clock().now());
        return request;
    }
    std::int64_t seq = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seq);
    if (error != std::errc() || seq < 1)
        throw usageError("audit as-of", fmt::format("'{}' is not the number of an event", text),
                         "`gradus audit query` shows the numbers; an age is written 2d, a time 2026-03-01T12:00:00Z");
    request.seq = seq;
    return request;
}

std::string holdsText(const PastStage& stage) {
    if (stage.holds.stuck) return fmt::format("nobody knows: {} got stuck", promotionHandle(*stage.holds.stuck));
    if (stage.promotion)
        return fmt::format("{}.{} {}", changeHandle(stage.promotion->change), stage.promotion->revision,
                           stage.title.value_or("[redacted]"));
    return stage.holds.tree ? "what was there before" : "-";
}

Json stageJson(const PastStage& stage) {
    Json json{{"stage", stage.stage}};
    json["change"] = stage.promotion ? Json(changeHandle(stage.promotion->change)) : Json();
    json["revision"] = stage.promotion ? Json(stage.promotion->revision) : Json();
    json["title"] = stage.title ? Json(*stage.title) : Json();
    json["tree"] = stage.holds.tree ? Json(stage.holds.tree->hex()) : Json();
    json["promotion"] = stage.promotion ? Json(promotionHandle(stage.promotion->id)) : Json();
    json["by"] = stage.promotion ? Json(stage.by) : Json();
    json["since"] = stage.promotion ? Json(formatTime(stage.promotion->movedAt)) : Json();
    json["stuck"] = stage.holds.stuck ? Json(promotionHandle(*stage.holds.stuck)) : Json();
    json["attention"] = stage.holds.attention ? Json(promotionHandle(*stage.holds.attention)) : Json();
    return json;
}

Json viewJson(const PastView& view) {
    Json json{{"seq", view.moment.seq},
              {"at", formatTime(view.moment.at)},
              {"event", nameOf(kEventKinds, view.kind)},
              {"by", view.by.empty() ? Json() : Json(view.by)},
              {"newest", view.moment.isNewest},
              {"also_at", view.moment.otherwise},
              {"stages", Json::array()},
              {"unfinished", Json::array()},
              {"words", Json::array()},
              {"rules", Json()}};
    for (const PastStage& stage : view.stages) json["stages"].push_back(stageJson(stage));
    for (const auto& [promotion, reason] : view.unfinished)
        json["unfinished"].push_back({{"id", promotionHandle(promotion.id)},
                                      {"change", changeHandle(promotion.change)},
                                      {"revision", promotion.revision},
                                      {"stage", promotion.stage},
                                      {"state", nameOf(kPromotionStates, promotion.state)},
                                      {"reason", reason}});
    for (const WordInForce& word : view.words)
        json["words"].push_back({{"kind", word.kind},
                                 {"text", word.text},
                                 {"by", word.by},
                                 {"since", formatTime(word.at)},
                                 {"until", word.until ? Json(formatTime(*word.until)) : Json()}});
    if (view.rules)
        json["rules"] = {{"digest", view.rules->rules.hex()},
                         {"by", view.rules->by},
                         {"since", formatTime(view.rules->at)},
                         {"kept", view.rules->isKept}};
    return json;
}

std::string momentText(const PastView& view, const PastRequest& request) {
    std::string text =
        fmt::format("as of event {}{}, recorded {}{}\n", view.moment.seq, view.moment.isNewest ? ", the newest" : "",
                    formatTime(view.moment.at), view.by.empty() ? "" : " by " + printable(view.by));
    if (request.seq && *request.seq != view.moment.seq)
        text += fmt::format("  event {} was recorded together with those up to {}\n", *request.seq, view.moment.seq);
    if (!view.moment.otherwise.empty())
        text += fmt::format("  the clock went back: it showed that time after event {} as well\n",
                            fmt::join(view.moment.otherwise, " and "));
    return text;
}

std::string stagesText(const PastView& view, const Context& context) {
    TextTable table({{"stage"}, {"held"}, {"tree"}, {"promotion"}, {"by"}, {"since"}});
    for (const PastStage& stage : view.stages)
        table.row({{stage.stage, Style::kBold},
                   {holdsText(stage), stage.holds.stuck ? Style::kRed : Style::kPlain},
                   stage.holds.tree ? stage.holds.tree->brief() : "",
                   stage.promotion ? promotionHandle(stage.promotion->id) : "",
                   stage.by,
                   stage.promotion ? formatTime(stage.promotion->movedAt).substr(0, 19) + "Z" : ""});
    return table.empty() ? "" : "\n" + table.render(context.paint, context.width);
}

std::string restText(const PastView& view) {
    std::string text;
    if (!view.unfinished.empty()) text += "\nunfinished\n";
    for (const auto& [promotion, reason] : view.unfinished)
        text += fmt::format("  {} {}.{} into {}: {}{}\n", promotionHandle(promotion.id), changeHandle(promotion.change),
                            promotion.revision, printable(promotion.stage), nameOf(kPromotionStates, promotion.state),
                            reason.empty() ? "" : " (" + printable(reason) + ")");
    if (!view.words.empty()) text += "\nin force\n";
    for (const WordInForce& word : view.words)
        text += fmt::format("  {}, since {}{}\n", printable(word.text), formatTime(word.at),
                            word.until ? ", until " + formatTime(*word.until) : "");
    text += "\n";
    if (!view.rules) return text + "no rules were trusted\n";
    return text + fmt::format("rules {}, trusted by {} on {}{}\n", view.rules->rules.brief(), printable(view.rules->by),
                              formatTime(view.rules->at),
                              view.rules->isKept ? "" : "; their files cannot be read any more");
}

Result asOf(Service& service, Context& context) {
    const PastRequest request = requestFrom(context);
    const PastView view = service.asOf(context.host.directory(), request);
    return {.data = viewJson(view),
            .text = momentText(view, request) + stagesText(view, context) + restText(view),
            .next = {fmt::format("gradus audit timeline --until {}", formatTime(view.moment.at + Milliseconds(1)))}};
}

}  // namespace

std::vector<Verb> pastVerbs(const OpenService& open) {
    return {{.words = "audit as-of",
             .group = Group::kAnswer,
             .summary = "show what every stage held at an earlier moment",
             .examples = {{"gradus audit as-of 2d", "two days ago"},
                          {"gradus audit as-of 3h --stage production", "one stage alone"},
                          {"gradus audit as-of 118", "right after event 118"}},
             .positionals = {{"MOMENT", "an age (2d, 90m), RFC 3339, or the number of an event"}},
             .options = {{.name = "stage", .value = "STAGE", .doc = "only this stage"}},
             .handler = withService(open, asOf)}};
}

}  // namespace gradus
