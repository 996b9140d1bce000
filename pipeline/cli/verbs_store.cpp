#include <fmt/format.h>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/sandbox_views.h"
#include "pipeline/cli/shell_word.h"
#include "pipeline/cli/verbs.h"
#include "policies/language/duration.h"
#include "policies/language/size.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

// Long enough for any command that put an object to have committed what refers to it.
constexpr Milliseconds kGrace = std::chrono::hours(24);

Json countsJson(const StoreCounts& counts) {
    return {{"events", counts.events},   {"redactions", counts.redactions}, {"projects", counts.projects},
            {"changes", counts.changes}, {"promotions", counts.promotions}, {"unfinished", counts.unfinished}};
}

Result check(Service& service, Context& context) {
    const StoreReport report = service.checkStore();
    Json problems = report.problems;
    for (const auto& flaw : report.objects.flaws)
        problems.push_back(fmt::format("{}: {}", flaw.file.native(), flaw.reason));
    Result result{
        .data = {{"problems", problems}, {"counts", countsJson(report.counts)}, {"objects", report.objects.objects}},
        .next = {"gradus audit verify"}};
    if (problems.empty()) {
        result.text =
            fmt::format("{}  {}, {} ({})\n", context.paint(Style::kGreen, "ok"), counted(report.counts.events, "event"),
                        counted(report.objects.objects, "object"), humanSize(report.objects.bytes));
        return result;
    }
    for (const Json& problem : problems)
        result.text += context.paint(Style::kRed, "problem: ") + problem.get<std::string>() + "\n";
    result.exit = Exit::kFailed;
    result.problem = Problem{"damaged", fmt::format("{} in the store", counted(problems.size(), "problem")),
                             "restore the latest backup; keep the damaged directory aside"};
    return result;
}

Result stats(Service& service, Context& /*context*/) {
    const StatsReport report = service.stats();
    const double events = std::max<double>(1, static_cast<double>(report.counts.events));
    Json data{{"home", report.home.native()},
              {"schema", report.sizes.schema},
              {"counts", countsJson(report.counts)},
              {"database_bytes", report.sizes.database},
              {"write_ahead_log_bytes", report.sizes.writeAheadLog},
              {"anchor_bytes", report.anchorBytes},
              {"objects", report.objects},
              {"object_bytes", report.objectBytes},
              {"ballast", report.sizes.ballast}};
    std::string text = fmt::format(
        "state         {} (schema {})\n"
        "database      {} + {} write-ahead log, {:.0f} bytes per event\n"
        "events        {} ({} redacted)\n"
        "projects      {}\n"
        "changes       {}\n"
        "promotions    {} ({} unfinished)\n"
        "objects       {}, {}\n"
        "anchor        {}\n"
        "ballast       {}\n",
        printable(report.home.native()), report.sizes.schema, humanSize(report.sizes.database),
        humanSize(report.sizes.writeAheadLog), static_cast<double>(report.sizes.database) / events,
        report.counts.events, report.counts.redactions, report.counts.projects, report.counts.changes,
        report.counts.promotions, report.counts.unfinished, counted(report.objects, "file"),
        humanSize(report.objectBytes), humanSize(report.anchorBytes),
        report.sizes.ballast ? "set aside for a full disk" : "missing: it is set aside again when there is room");
    return {.data = std::move(data), .text = std::move(text)};
}

Result backup(Service& service, Context& context) {
    const std::filesystem::path target = context.arguments.positional("DIR").value();
    service.backup(target);
    return {.data = {{"backup", target.native()}},
            .text = fmt::format("backed up to {}; it is a state directory of its own\n", printable(target.native())),
            .next = {fmt::format("GRADUS_HOME={} gradus audit verify",
                                 shellWord(std::filesystem::absolute(target).lexically_normal().native()))}};
}

Result rebuild(Service& service, Context& /*context*/) {
    service.rebuild();
    return {.text = "every state table was recomputed from the events\n", .next = {"gradus audit verify"}};
}

Json handles(const std::vector<std::int64_t>& sandboxes) {
    Json all = Json::array();
    for (const std::int64_t sandbox : sandboxes) all.push_back(sandboxHandle(sandbox));
    return all;
}

// Sandboxes first: what an expired one changed is stored before objects are looked at.
Result collect(Service& service, Context& context) {
    const CollectReport sandboxes = service.sandboxes().collect();
    const SweepReport report = service.sweep(kGrace);
    for (const std::string& problem : sandboxes.problems) context.progress.text("warning: " + printable(problem));
    Json data{{"removed", report.removed},
              {"removed_bytes", report.removedBytes},
              {"kept", report.referenced},
              {"young", report.young},
              {"temporaries", report.temporaries},
              {"sandboxes",
               {{"reaped", handles(sandboxes.reaped)},
                {"expired", handles(sandboxes.expired)},
                {"layers", sandboxes.layers},
                {"commits", sandboxes.commits},
                {"removed_bytes", sandboxes.removedBytes},
                {"problems", sandboxes.problems}}}};
    std::vector<std::string> next;
    for (const std::int64_t gone : sandboxes.expired) next.push_back(fmt::format("gradus sandbox diff s{}", gone));
    return {
        .data = std::move(data),
        .text = fmt::format("removed {} ({}), kept {} in use and {} younger than a day\n"
                            "ended {}, {} of them expired; removed {} and {} ({})\n",
                            counted(report.removed, "object"), humanSize(report.removedBytes), report.referenced,
                            report.young, counted(sandboxes.reaped.size() + sandboxes.expired.size(), "sandbox", "es"),
                            sandboxes.expired.size(), counted(sandboxes.layers, "layer"),
                            counted(sandboxes.commits, "pinned tree"), humanSize(sandboxes.removedBytes)),
        .next = std::move(next)};
}

}  // namespace

std::vector<Verb> storeVerbs(const OpenService& open) {
    return {
        {.words = "store check",
         .group = Group::kStore,
         .summary = "read everything that is stored and report damage",
         .examples = {{"gradus store check", "the database and every object; exit 1 if something is wrong"}},
         .handler = withService(open, check)},
        {.words = "store stats",
         .group = Group::kStore,
         .summary = "show what is stored and how large it is",
         .examples = {{"gradus store stats", "sizes and counts"}},
         .handler = withService(open, stats)},
        {.words = "store backup",
         .group = Group::kStore,
         .summary = "copy the whole store, consistently, while it is in use",
         .examples = {{"gradus store backup /backup/gradus-monday", "a state directory that GRADUS_HOME can point to"}},
         .positionals = {{"DIR", "where to put it; must not exist yet"}},
         .handler = withService(open, backup)},
        {.words = "store rebuild",
         .group = Group::kStore,
         .summary = "recompute the state tables from the events",
         .examples = {{"gradus store rebuild", "after `gradus audit verify` said state-mismatch"}},
         .handler = withService(open, rebuild)},
        {.words = "gc",
         .group = Group::kStore,
         .summary = "remove contents and sandboxes that nothing refers to",
         .examples = {{"gradus gc", "never takes what a change, a log or trusted rules refer to"}},
         .handler = withService(open, collect)},
    };
}

}  // namespace gradus
