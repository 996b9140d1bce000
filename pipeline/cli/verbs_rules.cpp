#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/service/project.h"
#include "policies/language/schema.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLargestRuleFile = 256 * 1024;

std::size_t errorCount(const std::vector<Diagnostic>& diagnostics) {
    return static_cast<std::size_t>(std::count_if(diagnostics.begin(), diagnostics.end(),
                                                  [](const Diagnostic& d) { return d.severity == Severity::kError; }));
}

/// A file by itself is judged as a pipeline file; a directory with all its policies.
struct Linted {
    std::string name;
    LoadResult result;
};

/// Files are named as seen from where the caller stands.
Linted lintDirectory(Service& service, const fs::path& directory) {
    const auto named = [&](const std::string& file) { return (directory / file).lexically_normal().native(); };
    const RuleFiles files = readRuleFiles(directory);
    Linted linted{named(kPipelineFile), service.load(files)};
    for (Diagnostic& diagnostic : linted.result.diagnostics)
        if (files.find(diagnostic.file) != nullptr) diagnostic.file = named(diagnostic.file);
    return linted;
}

Linted lintPath(Service& service, const fs::path& path) {
    std::error_code ignored;
    if (fs::status(path, ignored).type() == fs::file_type::not_found)
        throw Error(ErrorCode::kNotFound, "there is no {}", path.native())
            .hint("name a pipeline file or a project's directory");
    if (fs::is_directory(path, ignored)) return lintDirectory(service, path);
    if (path.filename() == kPipelineFile)
        return lintDirectory(service, path.has_parent_path() ? path.parent_path() : fs::path("."));
    Linted linted{path.native(),
                  service.load({{{kPipelineFile, readSmallFile(path, kLargestRuleFile, "the pipeline file")}}})};
    for (Diagnostic& diagnostic : linted.result.diagnostics)
        if (diagnostic.file == kPipelineFile) diagnostic.file = linted.name;
    return linted;
}

Linted lintWanted(Service& service, Context& context) {
    if (const auto path = context.arguments.positional("PATH")) return lintPath(service, *path);
    return {kPipelineFile, service.load(readRuleFiles(service.projectRoot(context.host.directory())))};
}

Result lint(Service& service, Context& context) {
    const Linted linted = lintWanted(service, context);
    const std::string name = printable(linted.name);
    const auto& diagnostics = linted.result.diagnostics;
    Result result{.data = {{"file", linted.name}, {"diagnostics", Json::parse(diagnosticsJson(diagnostics))}},
                  .text = renderDiagnostics(diagnostics, context.paint.usesColour())};
    if (const std::size_t errors = errorCount(diagnostics); errors > 0) {
        result.exit = Exit::kUsage;
        result.problem = Problem{"usage", fmt::format("{} has {}", name, counted(errors, "error")),
                                 "mend the places above and lint again"};
    } else {
        result.text += fmt::format("{}  {}: {}, {}\n", context.paint(Style::kGreen, "ok"), name,
                                   counted(linted.result.pipeline->stages.size(), "stage"),
                                   counted(linted.result.pipeline->checks.size(), "check"));
        result.next = {"gradus policy show", "gradus trust"};
    }
    return result;
}

/// Which of the two sets of files is shown, and what to say about that.
struct Shown {
    RuleFiles files;
    std::string note;
};

Shown chooseRules(const ProjectRules& rules, bool onDisk) {
    if (rules.pinned && !onDisk) {
        std::string note;
        if (rules.state == RulesState::kChanged)
            note = fmt::format("the trusted rules are shown; the files differ: {} (--on-disk shows them)",
                               fmt::join(rules.changedFiles, ", "));
        return {*rules.pinned, note};
    }
    Shown shown{readRuleFiles(rules.root), ""};
    if (rules.state == RulesState::kUntrusted) shown.note = "these rules are not trusted yet: nothing of them runs";
    if (rules.state == RulesState::kChanged)
        shown.note = "the files on disk are shown; the trusted rules stay in force";
    return shown;
}

Result show(Service& service, Context& context) {
    const ProjectRules rules = service.rules(context.host.directory());
    const Shown shown = chooseRules(rules, context.arguments.flag("on-disk"));
    const LoadResult loaded = service.load(shown.files);
    if (!loaded.pipeline)
        return {.exit = Exit::kUsage,
                .data = {{"diagnostics", Json::parse(diagnosticsJson(loaded.diagnostics))}},
                .text = renderDiagnostics(loaded.diagnostics, context.paint.usesColour()),
                .problem = Problem{"usage", "the rules have errors", "mend the places above"}};
    const auto wanted = context.arguments.positional("KEY");
    Json list = Json::array();
    TextTable table({{"rule"}, {"value"}, {"from"}});
    for (const EffectiveRule& rule : effectiveRules(*loaded.pipeline)) {
        if (wanted && rule.key.find(*wanted) == std::string::npos) continue;
        list.push_back({{"key", rule.key}, {"value", rule.value}, {"origin", rule.origin}});
        table.row({rule.key, rule.value, TextTable::Cell(rule.origin, Style::kDim)});
    }
    if (wanted && list.empty())
        throw Error(ErrorCode::kNotFound, "no rule matches '{}'", printable(*wanted))
            .hint("`gradus policy show` lists them all");
    const std::string digest = rulesDigest(*loaded.pipeline).hex();
    if (!shown.note.empty()) context.progress.text("note: " + shown.note);
    return {.data = {{"rules", std::move(list)}, {"digest", digest}, {"state", nameOf(kRulesStates, rules.state)}},
            .text = table.empty() ? "no rule matches\n" : table.render(context.paint, context.width)};
}

Result schema(Service& service, Context& /*context*/) {
    const std::string text = schemaJson(service.vocabulary());
    return {.data = Json::parse(text), .text = text.ends_with('\n') ? text : text + "\n"};
}

std::string describeFiles(const ProjectRules& rules, const RuleFiles& files) {
    std::string text;
    for (const RuleFile& file : files.files) {
        const bool changed =
            std::find(rules.changedFiles.begin(), rules.changedFiles.end(), file.path) != rules.changedFiles.end();
        text += fmt::format("  {}  {}{}\n", sha256(file.bytes).brief(), file.path,
                            rules.pinned && changed ? "  (changed)" : "");
    }
    return text;
}

/// What would run because of these files: what a person should have read before saying yes.
std::string describeCommands(const Pipeline& pipeline) {
    std::string text;
    const auto say = [&](std::string_view what, const std::string& name, const Settings& settings, const char* key,
                         std::string_view verb) {
        if (const Value* value = settings.find(key);
            value != nullptr && (!value->items.empty() || !value->text.empty()))
            text += fmt::format("  {} {:<12} {} {}\n", what, name, verb, valueText(*value));
    };
    for (const auto& [name, check] : pipeline.checks) {
        say("check", name, check.settings, "run", "runs");
        say("check", name, check.settings, "http", "asks");
        say("check", name, check.settings, "without", "gives up");
        const Value* network = check.settings.find("network");
        if (network != nullptr && network->text != "none")
            say("check", name, check.settings, "network", "has the network");
    }
    for (const Stage& stage : pipeline.stages) {
        say("stage", stage.name, stage.settings, "activate", "runs on this machine");
        say("stage", stage.name, stage.policy.settings, "alone", "is entered without another person by");
    }
    return text;
}

std::optional<Result> declined(Context& context, const ProjectRules& rules, const LoadResult& loaded) {
    if (context.arguments.flag("yes")) return std::nullopt;
    const std::string question = fmt::format("{}{}trust these rules? [y/N] ", describeFiles(rules, *rules.onDisk),
                                             describeCommands(*loaded.pipeline));
    const auto answer = context.host.ask(question);
    if (!answer) throw usageError("trust", "there is no terminal to ask at", "read the files, then add --yes");
    if (*answer == "y" || *answer == "Y" || *answer == "yes") return std::nullopt;
    return Result{.exit = Exit::kDeclined, .problem = Problem{"declined", "nothing was trusted"}};
}

Result trust(Service& service, Context& context) {
    const Actor by = service.caller();
    Service::requireTruster(by);
    ProjectRules rules = service.rulesToTrust(context.host.directory());
    rules.onDisk = readRuleFiles(rules.root);
    const LoadResult loaded = service.load(*rules.onDisk);
    if (!loaded.pipeline)
        return {.exit = Exit::kUsage,
                .data = {{"diagnostics", Json::parse(diagnosticsJson(loaded.diagnostics))}},
                .text = renderDiagnostics(loaded.diagnostics, context.paint.usesColour()),
                .problem = Problem{"usage", "rules with errors cannot be trusted", "mend the places above"}};
    if (context.arguments.flag("dry-run"))
        return {
            .data = {{"project", rules.root.native()}, {"rules", rules.onDisk->digest().hex()}, {"recorded", false}},
            .text = fmt::format(
                "{}\n{}", rules.state == RulesState::kTrusted ? "these rules are trusted already:" : "would trust:",
                describeFiles(rules, *rules.onDisk))};
    if (rules.state != RulesState::kTrusted)
        if (auto no = declined(context, rules, loaded)) return *no;
    const TrustReport report = service.trust(context.host.directory(), by, rules.onDisk->digest());
    Json files = Json::array();
    for (const RuleFile& file : report.before.onDisk->files)
        files.push_back({{"path", file.path}, {"sha256", sha256(file.bytes).hex()}});
    Json data{{"project", report.before.root.native()},
              {"rules", report.before.onDisk->digest().hex()},
              {"recorded", report.recorded},
              {"files", files}};
    return {.data = std::move(data),
            .text = fmt::format("{}\n{}", report.recorded ? "trusted:" : "these rules were trusted before:",
                                describeFiles(report.before, *report.before.onDisk)),
            .next = {"gradus status"}};
}

}  // namespace

std::vector<Verb> rulesVerbs(const OpenService& open) {
    return {
        {.words = "policy lint",
         .group = Group::kRules,
         .summary = "check gradus.toml and its policies, all mistakes at once",
         .examples = {{"gradus policy lint", "this project"}, {"gradus policy lint other/gradus.toml", "another file"}},
         .positionals = {{"PATH", "a pipeline file or a project's directory", false}},
         .onFrontPage = true,
         .handler = withService(open, lint)},
        {.words = "policy show",
         .group = Group::kRules,
         .summary = "show every rule in force and where it came from",
         .examples = {{"gradus policy show", "all of them"},
                      {"gradus policy show production", "those with this in their name"}},
         .positionals = {{"KEY", "only rules whose name contains this", false}},
         .options = {{.name = "on-disk", .doc = "what the files say now, even if other rules are trusted"}},
         .handler = withService(open, show)},
        {.words = "policy schema",
         .group = Group::kRules,
         .summary = "print a JSON Schema of gradus.toml for editors",
         .examples = {{"gradus policy schema > gradus.schema.json", "then name it in the editor's settings"}},
         .handler = withService(open, schema)},
        {.words = "trust",
         .group = Group::kRules,
         .summary = "put this project's rules in force, as they are now",
         .examples = {{"gradus trust", "shows what would run, and asks"},
                      {"gradus trust --yes", "where there is no terminal"}},
         .options = {{.name = "yes", .doc = "do not ask", .letter = 'y'},
                     {.name = "dry-run", .doc = "say what would happen, and do nothing"}},
         .onFrontPage = true,
         .handler = withService(open, trust)},
    };
}

}  // namespace gradus
