#include <fmt/format.h>

#include <algorithm>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/engine/step_words.h"
#include "policies/language/duration.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

std::string seconds(Milliseconds time) { return formatDuration(std::chrono::floor<std::chrono::seconds>(time)); }

MonitorWish wishOf(const Context& context) {
    MonitorWish wish;
    wish.stage = context.arguments.positional("STAGE");
    if (const auto text = context.arguments.value("for")) {
        const auto parsed = parseDuration(*text);
        if (!parsed) throw usageError("monitor", fmt::format("--for '{}' {}", printable(*text), parsed.problem));
        wish.most = *parsed.value;
    }
    return wish;
}

Json monitoredJson(const Monitored& one) {
    return {{"promotion", promotionJson(one.promotion, "")},
            {"since", formatTime(one.watch.began.at)},
            {"looked_at", formatTime(one.watch.looked.at)},
            {"counted_ms", one.watch.counted.count()},
            {"gap_ms", one.watch.gap.count()},
            {"left_ms", one.left.count()},
            {"over", one.watch.ended},
            {"left_to_a_person", one.isLeftToAPerson},
            {"note", one.note}};
}

/// It said no: left to a person, or taken back.
bool isFailed(const Monitored& one, const MonitorReport& report) {
    return one.isLeftToAPerson || std::ranges::any_of(report.takenBack, [&](const StageReport& back) {
               return back.promotion.undoes == one.promotion.id;
           });
}

/// For how long it was well. Of what failed, the note says that, with the time that it soaked.
std::string standingText(const Monitored& one, bool isFailed) {
    if (isFailed) return "failed";
    return fmt::format("well for {}{}", seconds(one.watch.counted),
                       one.watch.ended ? ", over" : fmt::format(", {} to go", seconds(one.left)));
}

std::string monitoredText(const Monitored& one, bool isFailed) {
    std::string text =
        fmt::format("{} ({}) in {}: {}", promotionHandle(one.promotion.id), changeHandle(one.promotion.change),
                    printable(one.promotion.stage), standingText(one, isFailed));
    if (one.watch.gap >= std::chrono::seconds(1)) text += fmt::format("; not looked at for {}", seconds(one.watch.gap));
    if (!one.note.empty()) text += "; " + printable(one.note);
    return text + "\n";
}

/// As of a promotion that failed and stays: it waits for somebody who decides.
void leaveToAPerson(const Monitored& one, const Engine& engine, Result& result) {
    const std::string id = promotionHandle(one.promotion.id);
    result.exit = Exit::kWaiting;
    Problem problem;
    problem.code = "failed";
    problem.message = fmt::format("{} failed in {} and is not taken back: {}", id, one.promotion.stage, one.note);
    const WayBack back = wayBackOf(engine, one.promotion);
    problem.hint = back.hint;
    result.problem = problem;
    result.next = {"gradus why " + id};
    if (back.command) result.next.insert(result.next.begin(), *back.command);
}

Result resultOf(const MonitorReport& report, const Engine& engine, const Context& context) {
    Result result;
    result.data = {{"monitored", Json::array()}, {"taken_back", Json::array()}};
    for (const Monitored& one : report.stages) {
        result.data["monitored"].push_back(monitoredJson(one));
        result.text += monitoredText(one, isFailed(one, report));
        if (one.isLeftToAPerson) leaveToAPerson(one, engine, result);
    }
    if (report.stages.empty()) result.text = "nothing is monitored\n";
    for (const StageReport& back : report.takenBack) {
        result.data["taken_back"].push_back(stageReportJson(back));
        result.text += stageText(back, context.paint);
        result.exit = back.succeeded() ? Exit::kRestored : Exit::kInfrastructure;
        Problem problem;
        problem.code = back.succeeded() ? "rolled-back" : "stuck";
        problem.message =
            fmt::format("{} failed in {} after it was promoted: {}", promotionHandle(back.promotion.undoes.value_or(0)),
                        back.promotion.stage, back.reason);
        result.problem = problem;
        result.next = {"gradus why " + promotionHandle(back.promotion.id), "gradus status"};
    }
    return result;
}

Result monitor(Service& service, Context& context) {
    const Interrupt interrupt(kLeftInTheMiddle);
    const MonitorWish wish = wishOf(context);
    std::vector<std::string> stages;
    for (const Stage& stage : service.engine(context.host.directory()).project().pipeline.stages)
        stages.push_back(stage.name);
    ClimbView view(context, stages);
    Engine& engine = service.recovered(context.host.directory(), view.progress(), interrupt.token());
    const MonitorReport report = engine.monitor(wish, view.progress(), interrupt.token());
    view.clear();
    return resultOf(report, engine, context);
}

}  // namespace

std::vector<Verb> monitorVerbs(const OpenService& open) {
    return {
        {.words = "monitor",
         .group = Group::kPromote,
         .summary = "keep looking after what was promoted, take back what fails",
         .examples = {{"gradus monitor", "every stage that has a `monitor`, until its time is over"},
                      {"gradus monitor production --for 1h", "one of them, for a while"},
                      {"gradus monitor --for 0s", "one look at what is due"}},
         .positionals = {{"STAGE", "the stage; all otherwise", false}},
         .options = {{.name = "for", .value = "DURATION", .doc = "how long at most", .fallback = "until it is over"}},
         .handler = withService(open, monitor)}};
}

}  // namespace gradus
