#include <fmt/format.h>

#include <algorithm>

#include "policies/language/resolver.h"

namespace gradus {

namespace {

bool builds(const Check& check) { return check.settings.find("outputs") != nullptr; }

}  // namespace

// A release without what an earlier one had built would be another thing than what was looked at there.
void Resolver::addBuilders(std::vector<Value>& wanted, const DriverWords& driver) const {
    if (!driver.carriesOutputs) return;
    for (const std::string& name : builders_) {
        if (std::any_of(wanted.begin(), wanted.end(), [&](const Value& value) { return value.text == name; })) continue;
        Value value;
        value.type = ValueType::kName;
        value.text = name;
        value.origin = pipeline_.checks.at(name).settings.find("outputs")->origin;
        wanted.push_back(std::move(value));
    }
}

void Resolver::judgeOutputs(const Stage& stage, const DriverWords& driver) {
    const Value* listed =
        draft_.stages.contains(stage.name) ? draft_.stages.at(stage.name).settings.find("checks") : nullptr;
    for (const std::string& name : stage.checks) {
        if (!builds(pipeline_.checks.at(name))) continue;
        builders_.insert(name);
        isCarried_ = isCarried_ || driver.carriesOutputs;
        // What a sandbox checks is only looked at; a stage that names the check may think that it gets something.
        const bool isNamed = listed != nullptr && std::any_of(listed->items.begin(), listed->items.end(),
                                                              [&](const Value& item) { return item.text == name; });
        if (!isNamed || driver.carriesOutputs || !driver.hasTarget) continue;
        findings_
            .error(listed->origin, "outputs",
                   fmt::format("stage '{}' does not take what check '{}' builds", stage.name, name),
                   fmt::format("driver '{}' brings in the tree and nothing else", driver.name),
                   "the check runs here all the same; a stage with driver = \"release-directory\" takes its outputs")
            .severity = Severity::kWarning;
    }
}

void Resolver::judgeUncarried() {
    if (isCarried_) return;
    for (const std::string& name : builders_)
        findings_
            .error(pipeline_.checks.at(name).settings.find("outputs")->origin, "outputs",
                   fmt::format("no stage takes what check '{}' builds", name),
                   "only the drivers 'release-directory' and 'command' do", "add such a stage, or remove `outputs`")
            .severity = Severity::kWarning;
}

}  // namespace gradus
