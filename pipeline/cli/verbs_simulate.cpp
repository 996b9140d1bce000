#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/time_argument.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/service/simulation.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLargestRuleFile = 256 * 1024;

/// Rules to be tried, and what their pipeline file is called where the caller stands.
struct TriedRules {
    RuleFiles files;
    std::string name = kPipelineFile;

    /// "strict.toml:12:9" for a rule that says gradus.toml:12:9.
    std::string place(const std::string& rule) const {
        const std::string own = std::string(kPipelineFile) + ":";
        return rule.starts_with(own) ? name + rule.substr(own.size() - 1) : rule;
    }
};

/// The project's own files; one that is named stands in for its gradus.toml, a directory for all of them.
TriedRules triedFrom(Service& service, const Context& context) {
    const fs::path root = service.projectRoot(context.host.directory());
    const auto named = context.arguments.positional("FILE");
    if (!named) return {readRuleFiles(root)};
    const fs::path path = context.host.directory() / *named;
    std::error_code ignored;
    if (!fs::exists(path, ignored))
        throw Error(ErrorCode::kNotFound, "there is no {}", *named)
            .hint("name a pipeline file or a directory that has one; without it, this project's own is read");
    if (fs::is_directory(path, ignored))
        return {readRuleFiles(path), (fs::path(*named) / kPipelineFile).lexically_normal().native()};
    const std::string bytes = readSmallFile(path, kLargestRuleFile, "the pipeline file");
    RuleFiles files;
    if (fs::exists(root / kPipelineFile, ignored)) files = readRuleFiles(root);
    std::erase_if(files.files, [](const RuleFile& file) { return file.path == kPipelineFile; });
    files.files.push_back({kPipelineFile, bytes});
    std::ranges::sort(files.files, {}, &RuleFile::path);
    return {std::move(files), *named};
}

Json gatesJson(const std::vector<GateAnswer>& gates) {
    Json list = Json::array();
    for (const GateAnswer& gate : gates)
        list.push_back({{"gate", nameOf(kGates, gate.gate)},
                        {"reason", gate.reason},
                        {"rule", gate.rule.empty() ? Json() : Json(gate.rule)}});
    return list;
}

Json promotionJson(const SimulatedPromotion& one) {
    return {{"promotion", promotionHandle(one.promotion.id)},
            {"change", changeHandle(one.promotion.change)},
            {"revision", one.promotion.revision},
            {"stage", one.promotion.stage},
            {"at", formatTime(one.at)},
            {"was", nameOf(kPassages, one.was)},
            {"would", one.unclear.empty() ? Json(nameOf(kPassages, one.would)) : Json()},
            {"closed", gatesJson(one.closed)},
            {"closed_then", gatesJson(one.closedThen)},
            {"never_ran", one.neverRan},
            {"ran_otherwise", one.ranOtherwise},
            {"unclear", one.unclear.empty() ? Json() : Json(one.unclear)}};
}

struct Counts {
    std::size_t same = 0;
    std::size_t differ = 0;
    std::size_t unknown = 0;
    std::size_t unclear = 0;
};

Counts count(const Simulation& simulation) {
    Counts counts;
    for (const SimulatedPromotion& one : simulation.promotions) {
        if (!one.unclear.empty())
            ++counts.unclear;
        else if (one.would == Passage::kUnknown)
            ++counts.unknown;
        else
            ++(one.differs() ? counts.differ : counts.same);
    }
    return counts;
}

/// Check names, and for how many promotions.
std::map<std::string, std::size_t> neverRan(const Simulation& simulation) {
    std::map<std::string, std::size_t> checks;
    for (const SimulatedPromotion& one : simulation.promotions)
        for (const std::string& check : one.neverRan) ++checks[check];
    return checks;
}

std::string wouldText(const SimulatedPromotion& one) {
    if (!one.unclear.empty()) return "nothing can be said: " + printable(one.unclear);
    if (one.would == Passage::kUnknown)
        return fmt::format("it depends on what never ran: {}", fmt::join(one.neverRan, ", "));
    if (one.would == Passage::kWaited) return "it would have waited";
    return one.would == Passage::kEntered ? "it would have entered" : "it would have gone on to its checks";
}

std::string gateLines(const SimulatedPromotion& one, const Paint& paint) {
    std::string text;
    for (const GateAnswer& gate : one.closed)
        text += fmt::format("    {:<15} {}{}\n", nameOf(kGates, gate.gate), printable(gate.reason),
                            gate.rule.empty() ? "" : paint(Style::kDim, "  [" + printable(gate.rule) + "]"));
    if (!one.closed.empty() || one.was != Passage::kWaited) return text;
    for (const GateAnswer& gate : one.closedThen)
        text += fmt::format("    {:<15} was closed: {}{}\n", nameOf(kGates, gate.gate), printable(gate.reason),
                            gate.rule.empty() ? "" : paint(Style::kDim, "  [" + printable(gate.rule) + "]"));
    return text;
}

std::string promotionText(const SimulatedPromotion& one, const Paint& paint) {
    return fmt::format("{} {}.{} into {} {} on {}: {}\n", promotionHandle(one.promotion.id),
                       changeHandle(one.promotion.change), one.promotion.revision, printable(one.promotion.stage),
                       one.was == Passage::kChecked ? "was ended by its checks" : nameOf(kPassages, one.was),
                       formatTime(one.at), paint(one.differs() ? Style::kYellow : Style::kDim, wouldText(one))) +
           (one.differs() ? gateLines(one, paint) : "");
}

std::vector<std::string> notesOf(const Simulation& simulation) {
    std::vector<std::string> notes;
    if (!neverRan(simulation).empty()) notes.emplace_back("whether checks that never ran would have passed");
    if (std::ranges::any_of(simulation.promotions, [](const auto& one) { return !one.ranOtherwise.empty(); }))
        notes.emplace_back("what checks would have said that are defined in another way by now");
    notes.emplace_back(
        "what people would have done: approvals, overrides and consents count as they were given, with the roles held "
        "then");
    notes.emplace_back("decisions before the last one about a promotion, and what would have followed from another");
    return notes;
}

std::string simulationText(const Simulation& simulation, Time since, const Paint& paint) {
    const Counts counts = gradus::count(simulation);
    std::string text = fmt::format("{} decided since {}: {} the same, {} different, {} not known, {} unclear\n",
                                   counted(simulation.promotions.size(), "promotion"), formatTime(since), counts.same,
                                   counts.differ, counts.unknown, counts.unclear);
    for (const SimulatedPromotion& one : simulation.promotions)
        if (one.differs() || !one.unclear.empty()) text += promotionText(one, paint);
    for (const auto& [check, times] : neverRan(simulation))
        text += fmt::format("check {} never ran for {}\n", printable(check), counted(times, "promotion"));
    text += "not known:\n";
    for (const std::string& note : notesOf(simulation)) text += "  " + note + "\n";
    return text;
}

Json simulationJson(const Simulation& simulation, Time since) {
    const Counts counts = gradus::count(simulation);
    Json json{{"since", formatTime(since)},
              {"in_force", simulation.isInForce},
              {"counts",
               {{"promotions", simulation.promotions.size()},
                {"same", counts.same},
                {"different", counts.differ},
                {"unknown", counts.unknown},
                {"unclear", counts.unclear},
                {"taken_back", simulation.takenBack}}},
              {"promotions", Json::array()},
              {"never_ran", Json::object()},
              {"not_known", notesOf(simulation)}};
    for (const SimulatedPromotion& one : simulation.promotions) json["promotions"].push_back(promotionJson(one));
    for (const auto& [check, times] : neverRan(simulation)) json["never_ran"][check] = times;
    return json;
}

/// Rules and mistakes are where the caller finds them. What held then is left as it was called then.
void rename(Simulation& simulation, const TriedRules& tried) {
    for (Diagnostic& diagnostic : simulation.loaded.diagnostics)
        if (diagnostic.file == kPipelineFile) diagnostic.file = tried.name;
    for (SimulatedPromotion& one : simulation.promotions)
        for (GateAnswer& gate : one.closed) gate.rule = tried.place(gate.rule);
}

Result simulate(Service& service, Context& context) {
    const Time since = parseTimeArgument(context.arguments.value("since").value_or("30d"), context.host.clock().now());
    const TriedRules tried = triedFrom(service, context);
    Simulation simulation = service.simulate(context.host.directory(), {since, tried.files});
    rename(simulation, tried);
    if (!simulation.loaded.pipeline)
        return {.exit = Exit::kUsage,
                .data = {{"diagnostics", Json::parse(diagnosticsJson(simulation.loaded.diagnostics))}},
                .text = renderDiagnostics(simulation.loaded.diagnostics, context.paint.usesColour()),
                .problem = Problem{"usage", "rules with errors cannot be simulated", "mend the places above"}};
    if (simulation.isInForce && !context.json)
        context.progress.text("note: these are the rules in force; what differs comes from rules that held before");
    return {.data = simulationJson(simulation, since),
            .text = simulationText(simulation, since, context.paint),
            .next = simulation.isInForce ? std::vector<std::string>{} : std::vector<std::string>{"gradus trust"}};
}

}  // namespace

std::vector<Verb> simulateVerbs(const OpenService& open) {
    return {{.words = "policy simulate",
             .group = Group::kRules,
             .summary = "hold past promotions to the rules on disk",
             .examples = {{"gradus policy simulate", "the last 30 days, under gradus.toml as it is now"},
                          {"gradus policy simulate --since 90d strict.toml", "under another file"}},
             .positionals = {{"FILE", "a pipeline file, or a directory with one", false}},
             .options = {{.name = "since",
                          .value = "TIME",
                          .doc = "from then on: an age (2d, 90m) or RFC 3339",
                          .fallback = "30d"}},
             .handler = withService(open, simulate)}};
}

}  // namespace gradus
