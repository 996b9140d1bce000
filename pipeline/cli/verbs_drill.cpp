#include <fmt/format.h>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/service/drill.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kMostShown = 20;

Json conflictsJson(const DrillReport& report) {
    Json list = Json::array();
    for (const MergeConflict& conflict : report.mergeConflicts)
        list.push_back({{"path", conflict.path}, {"why", conflict.detail}});
    for (const Conflict& conflict : report.conflicts)
        list.push_back({{"path", conflict.path}, {"why", describe(conflict)}});
    return list;
}

Json reportJson(const DrillReport& report) {
    Json json{
        {"stage", report.stage},
        {"driver", report.driver},
        {"change", report.subject},
        {"changed_paths", report.changedPaths},
        {"conflicts", conflictsJson(report)},
        {"copied", {{"paths", report.copiedPaths}, {"bytes", report.copiedBytes}, {"ms", report.copyTime.count()}}},
        {"notes", report.notes},
        {"applied", report.outcome && report.outcome->applied},
        {"restored", report.outcome && report.outcome->restored}};
    if (!report.outcome) return json;
    json["compared_paths"] = report.outcome->paths;
    json["prepare_ms"] = report.outcome->prepareTime.count();
    json["apply_ms"] = report.outcome->applyTime.count();
    json["rollback_ms"] = report.outcome->rollbackTime.count();
    json["problems"] = report.outcome->problems;
    json["differences"] = Json::array();
    for (const auto& [path, what] : report.outcome->differences)
        json["differences"].push_back({{"path", path}, {"what", what}});
    return json;
}

std::string tick(const Paint& paint, bool good) { return paint(good ? Style::kGreen : Style::kRed, good ? "✓" : "✗"); }

std::string outcomeText(const DrillReport& report, const Paint& paint) {
    const RehearsalOutcome& outcome = *report.outcome;
    std::string text =
        fmt::format("  {} copied {} ({} KiB) in {} ms\n", tick(paint, true), counted(report.copiedPaths, "path"),
                    report.copiedBytes >> 10, report.copyTime.count());
    text += fmt::format("  {} applied {} in {} ms, prepared in {} ms\n", tick(paint, outcome.applied),
                        counted(report.changedPaths, "path"), outcome.applyTime.count(), outcome.prepareTime.count());
    text += fmt::format(
        "  {} rolled back in {} ms; {} of {} as before\n", tick(paint, outcome.restored), outcome.rollbackTime.count(),
        outcome.paths - std::min(outcome.paths, outcome.differences.size()), counted(outcome.paths, "path"));
    for (const std::string& problem : outcome.problems) text += fmt::format("    {}\n", printable(problem));
    for (std::size_t i = 0; i < outcome.differences.size() && i < kMostShown; ++i)
        text += fmt::format("    '{}': {}\n", printable(outcome.differences[i].path), outcome.differences[i].what);
    if (outcome.differences.size() > kMostShown)
        text += fmt::format("    and {} more (--json lists all)\n", outcome.differences.size() - kMostShown);
    return text;
}

std::string reportText(const DrillReport& report, const Paint& paint) {
    std::string text =
        fmt::format("drill of {} ({}) with {}\n", printable(report.stage), report.driver, report.subject);
    if (report.outcome) text += outcomeText(report, paint);
    for (const Json& conflict : conflictsJson(report))
        text += fmt::format("  {} '{}': {}\n", tick(paint, false), printable(conflict["path"].get<std::string>()),
                            printable(conflict["why"].get<std::string>()));
    for (const std::string& note : report.notes) text += paint(Style::kDim, "  " + printable(note)) + "\n";
    return text;
}

Problem problemOf(const DrillReport& report) {
    if (!report.outcome)
        return {"failed", fmt::format("{} does not fit what {} holds", report.subject, report.stage),
                "nothing was applied, not even on the copy; `gradus rebase` puts a change onto newer ground"};
    return {"failed", fmt::format("the drill of {} did not end as it began", report.stage),
            "the target itself was only read; do not promote there before this is understood"};
}

Result drill(Service& service, Context& context) {
    const DrillReport report = service.drill(
        context.host.directory(), {context.arguments.positional("STAGE").value(), context.arguments.value("change")});
    Result result{.data = reportJson(report), .text = reportText(report, context.paint)};
    if (report.succeeded()) return result;
    result.exit = Exit::kFailed;
    result.problem = problemOf(report);
    return result;
}

}  // namespace

std::vector<Verb> drillVerbs(const OpenService& open) {
    return {{.words = "drill",
             .group = Group::kPromote,
             .summary = "apply and roll back on a copy of a target",
             .examples = {{"gradus drill production", "with a change made up for it"},
                          {"gradus drill production --change c12", "with the one that is to come"}},
             .positionals = {{"STAGE", "a stage whose target is a work tree or a release directory"}},
             .options = {{.name = "change", .value = "CHANGE", .doc = "the change to apply, such as c12"}},
             .handler = withService(open, drill)}};
}

}  // namespace gradus
