#include <fmt/format.h>

#include <algorithm>

#include "policies/language/resolver.h"
#include "policies/language/suggest.h"
#include "policies/language/table_reader.h"

namespace gradus {

namespace {

Value nameValue(std::string text, const Origin& origin = {}) {
    Value value;
    value.type = ValueType::kName;
    value.text = std::move(text);
    value.origin = origin;
    return value;
}

std::vector<std::string> driverNames(const Vocabulary& vocabulary) {
    std::vector<std::string> names;
    for (const DriverWords& driver : vocabulary.drivers) names.push_back(driver.name);
    return names;
}

}  // namespace

// Most often the name is mistyped: the right one has a section in the file, or a driver of its own.
std::string Resolver::missingDriverHint(const std::string& stage) const {
    std::vector<std::string> known;
    for (const auto& [name, section] : draft_.stages) known.push_back(name);
    for (const DriverWords& driver : vocabulary_.drivers) {
        known.push_back(driver.name);
        known.insert(known.end(), driver.stageNames.begin(), driver.stageNames.end());
    }
    std::erase(known, stage);
    if (const auto meant = suggest(stage, known)) return fmt::format("did you mean '{}'?", *meant);
    return fmt::format("add [stage.{}] with driver = \"release-directory\"; {}", stage,
                       findings_.hintFor("", driverNames(vocabulary_), "drivers"));
}

const DriverWords* Resolver::driverOf(const std::string& name, const Settings& settings, const Origin& origin) {
    const Value* said = settings.find("driver");
    if (said == nullptr) {
        const DriverWords* driver = vocabulary_.driverForStage(name);
        if (driver == nullptr)
            findings_.error(origin, "missing-key", fmt::format("stage '{}' has no driver", name),
                            "no driver is called like it", missingDriverHint(name));
        return driver;
    }
    const DriverWords* driver = vocabulary_.findDriver(said->text);
    if (driver == nullptr)
        findings_.error(said->origin, "unknown-name", fmt::format("unknown driver '{}'", said->text),
                        fmt::format("stage '{}' names it", name),
                        findings_.hintFor(said->text, driverNames(vocabulary_), "drivers"));
    return driver;
}

std::string Resolver::policyOf(const std::string& name, const Settings& settings) {
    const Value* said = settings.find("policy");
    if (said == nullptr) return name;
    if (!policies_.knows(said->text))
        findings_.error(said->origin, "unknown-name", fmt::format("unknown policy '{}'", said->text),
                        fmt::format("stage '{}' names it", name),
                        findings_.hintFor(said->text, policies_.names(), "policies"));
    return said->text;
}

void Resolver::refuseMissingDriverKeys(const Stage& stage, const DriverWords& driver) {
    if (draft_.stages.contains(stage.name)) return;  // Its section was read against these keys.
    for (const KeyRow& row : driver.keys)
        if (row.required)
            findings_.error(
                stage.origin, "missing-key",
                fmt::format("stage '{}' has no '{}', which driver '{}' requires", stage.name, row.name, driver.name),
                "it has no section", fmt::format("add [stage.{}] with {} = {}", stage.name, row.name, row.example));
}

void Resolver::resolveLeast(Stage& stage, const std::string& key, const char* doing) {
    const Value& least = *stage.policy.settings.find(key);
    const Value* own = stage.settings.find(key);
    if (own == nullptr) return stage.settings.set(key, least);
    if (own->number >= least.number) return;
    if (least.origin.kind == Origin::Kind::kCeiling) return stage.settings.set(key, least);
    findings_
        .error(own->origin, "looser",
               fmt::format("stage '{}' {} for less than policy '{}' demands", stage.name, doing, stage.policy.name),
               fmt::format("{} is less than {}", valueText(*own), valueText(least)),
               fmt::format("write {} or more, or leave it out", valueText(least)))
        .note = fmt::format("{} = {} comes from {}", key, valueText(least), least.origin.text());
}

std::vector<Value> Resolver::wantedChecks(const Stage& stage, const DriverWords& driver) {
    std::vector<Value> wanted;
    if (const Value* listed = stage.settings.find("checks")) {
        wanted = listed->items;
    } else {
        for (const std::string& name : fileChecks_) {
            const auto check = pipeline_.checks.find(name);
            if (check != pipeline_.checks.end() && check->second.when == CheckWhen::kBefore)
                wanted.push_back(nameValue(name));
        }
    }
    if (const Value* demanded = stage.policy.settings.find("checks"))
        wanted.insert(wanted.end(), demanded->items.begin(), demanded->items.end());
    if (const Value* own = stage.policy.settings.find("check"))
        for (const Value& item : own->items)
            if (const auto name = item.fields.find("name"); name != item.fields.end())
                wanted.push_back(nameValue(name->second.text, name->second.origin));
    addBuilders(wanted, driver);
    for (const Value& name : wanted) {
        const auto check = pipeline_.checks.find(name.text);
        if (driver.hasTarget || check == pipeline_.checks.end() || check->second.when == CheckWhen::kBefore) continue;
        findings_.error(
            name.origin, "conflict",
            fmt::format("check '{}' runs after, and stage '{}' has nothing to look at", name.text, stage.name),
            fmt::format("driver '{}' leaves nothing running", driver.name),
            "leave it out here, or write when = \"before\"");
    }
    return wanted;
}

void Resolver::resolveStageChecks(Stage& stage, const DriverWords& driver) {
    std::vector<std::string> names;
    Value resolved;
    resolved.type = ValueType::kNameList;
    if (const Value* listed = stage.settings.find("checks")) resolved.origin = listed->origin;
    const std::vector<Value> wanted = wantedChecks(stage, driver);
    for (const Value& name : wanted)
        if (isKnownCheck(name, "stage '" + stage.name + "'") && graph_.contains(name.text)) names.push_back(name.text);
    stage.checks = withNeeds(graph_, names);
    for (const std::string& name : stage.checks) {
        const auto said = std::find_if(wanted.begin(), wanted.end(), [&](const Value& v) { return v.text == name; });
        resolved.items.push_back(nameValue(name, said != wanted.end() ? said->origin : resolved.origin));
        judgeAgainstPolicy(stage, pipeline_.checks.at(name));
    }
    stage.settings.set("checks", std::move(resolved));
}

void Resolver::resolveMonitor(Stage& stage) {
    std::vector<std::string> after;
    for (const std::string& name : stage.checks)
        if (pipeline_.checks.at(name).when == CheckWhen::kAfter) after.push_back(name);
    const Value* listed = stage.settings.find("monitor-checks");
    if (listed == nullptr) {
        stage.monitorChecks = after;
        return;
    }
    for (const Value& name : listed->items) {
        stage.monitorChecks.push_back(name.text);
        if (std::find(after.begin(), after.end(), name.text) != after.end()) continue;
        findings_.error(name.origin, "unknown-name",
                        fmt::format("'{}' is not an after check of stage '{}'", name.text, stage.name),
                        "only after checks can keep running", findings_.hintFor(name.text, after, "after checks"));
    }
}

void Resolver::judgeTargetless(const Stage& stage, const DriverWords& driver) {
    if (driver.hasTarget) return;
    for (const char* key : {"soak", "monitor", "monitor-checks"}) {
        const Value* value = stage.settings.find(key);
        if (value == nullptr) continue;
        findings_.error(value->origin, "conflict", fmt::format("stage '{}' cannot have '{}'", stage.name, key),
                        fmt::format("driver '{}' leaves nothing running", driver.name), "remove it");
    }
}

void Resolver::addStage(const Value& stageName) {
    const auto found = draft_.stages.find(stageName.text);
    Stage stage;
    stage.name = stageName.text;
    stage.origin = found != draft_.stages.end() ? found->second.origin : stageName.origin;
    if (found != draft_.stages.end()) stage.settings = found->second.settings;
    const DriverWords* driver = driverOf(stage.name, stage.settings, stage.origin);
    stage.policy = policies_.effective(policyOf(stage.name, stage.settings));
    if (driver == nullptr) return;
    stage.driver = driver->name;
    stage.carriesOutputs = driver->carriesOutputs;
    judgeTargetless(stage, *driver);
    refuseMissingDriverKeys(stage, *driver);
    if (!stage.settings.has("driver")) stage.settings.set("driver", nameValue(driver->name));
    if (!stage.settings.has("policy")) stage.settings.set("policy", nameValue(stage.policy.name));
    if (driver->hasTarget) {
        resolveLeast(stage, "soak", "soaks");
        resolveLeast(stage, "monitor", "is monitored");
    }
    fillDefaults(stage.settings, stageRows(*driver), vocabulary_);
    resolveStageChecks(stage, *driver);
    judgeOutputs(stage, *driver);
    resolveMonitor(stage);
    resolveSteps(stage, *driver);
    pipeline_.stages.push_back(std::move(stage));
}

void Resolver::refuseUnlistedStages() {
    const std::vector<std::string> listed = draft_.pipeline.settings.list("stages");
    if (listed.empty()) return;  // Said when it was read.
    for (const auto& [name, stage] : draft_.stages)
        if (std::find(listed.begin(), listed.end(), name) == listed.end())
            findings_.error(stage.origin, "unknown-name",
                            fmt::format("stage '{}' is not among the stages of the pipeline", name),
                            "no change would ever reach it", findings_.hintFor(name, listed, "stages"));
}

void Resolver::addStages() {
    const Value* listed = draft_.pipeline.settings.find("stages");
    if (listed == nullptr) return;
    for (const Value& name : listed->items) {
        const auto found = draft_.stages.find(name.text);
        const Settings none;
        const Settings& settings = found != draft_.stages.end() ? found->second.settings : none;
        const Value* said = settings.find("policy");
        addPolicyChecks(policies_.effective(said != nullptr ? said->text : name.text));
    }
    buildGraph();
    for (const Value& name : listed->items) addStage(name);
    judgeUncarried();
}

void Resolver::addWindows() {
    const std::vector<std::string> known = draft_.pipeline.settings.list("stages");
    for (const DraftSection& draft : draft_.windows) {
        Window window{draft.origin, draft.settings};
        const Value* allow = draft.settings.find("allow");
        const Value* deny = draft.settings.find("deny");
        if (allow != nullptr && deny != nullptr)
            findings_.error(deny->origin, "conflict", "a window has both 'allow' and 'deny'", "the second of the two",
                            "make two windows of it");
        if (allow == nullptr && deny == nullptr)
            findings_.error(draft.origin, "missing-key", "a window has neither 'allow' nor 'deny'",
                            "it says nothing about time",
                            "add deny = { cron = \"0 16 * * FRI\", for = \"64h\", timezone = \"Europe/Berlin\" }");
        if (const Value* stages = draft.settings.find("stages"))
            for (const Value& name : stages->items)
                if (!known.empty() && std::find(known.begin(), known.end(), name.text) == known.end())
                    findings_.error(name.origin, "unknown-name", fmt::format("unknown stage '{}'", name.text),
                                    "a window names it", findings_.hintFor(name.text, known, "stages"));
        fillDefaults(window.settings, section("window").rows, vocabulary_);
        pipeline_.windows.push_back(std::move(window));
    }
}

void Resolver::addSandbox() {
    pipeline_.sandbox = draft_.sandbox.settings;
    const std::vector<KeyRow>& rows = section("sandbox").rows;
    fillDefaults(pipeline_.sandbox, rows, vocabulary_);
    policies_.cap(pipeline_.sandbox, rows, "[sandbox]");
}

Pipeline Resolver::resolve() {
    pipeline_.name = draft_.pipeline.settings.text("name");
    addSandbox();
    addFileChecks();
    policies_.resolveAll();
    addStages();
    refuseUnlistedStages();
    finishChecks();
    addWindows();
    for (const auto& [name, service] : draft_.services) {
        pipeline_.services[name] = service.settings;
        fillDefaults(pipeline_.services[name], section("service").rows, vocabulary_);
    }
    for (const auto& [name, role] : draft_.roles) pipeline_.roles[name] = role.settings;
    return std::move(pipeline_);
}

Pipeline resolvePipeline(const Draft& draft, PolicySet& policies, const Vocabulary& vocabulary, Findings& findings) {
    return Resolver(draft, policies, vocabulary, findings).resolve();
}

}  // namespace gradus
