#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "policies/language/resolver.h"

namespace gradus {

namespace {

std::vector<std::string> wordsOf(const Value& step, const std::string& key) {
    std::vector<std::string> words;
    const auto found = step.fields.find(key);
    if (found == step.fields.end()) return words;
    for (const Value& word : found->second.items) words.push_back(word.text);
    return words;
}

const Value* fieldOf(const Value& step, const std::string& key) {
    const auto found = step.fields.find(key);
    return found == step.fields.end() ? nullptr : &found->second;
}

std::string textOf(const Value& step, const std::string& key) {
    const Value* value = fieldOf(step, key);
    return value == nullptr ? "" : value->text;
}

std::int64_t numberOf(const Value& step, const std::string& key) {
    const Value* value = fieldOf(step, key);
    return value == nullptr ? 0 : value->number;
}

StepPlan planOf(const Value& step) {
    StepPlan plan;
    plan.name = textOf(step, "name");
    plan.when = fromName(kStepWhens, textOf(step, "when")).value_or(StepWhen::kBeforeSwitch);
    plan.run = wordsOf(step, "run");
    plan.undo = wordsOf(step, "undo");
    plan.probe = wordsOf(step, "probe");
    plan.timeout = Milliseconds(numberOf(step, "timeout"));
    plan.irreversible = numberOf(step, "irreversible") != 0;
    plan.idempotence = fromName(kIdempotences, textOf(step, "idempotence")).value_or(Idempotence::kNo);
    return plan;
}

}  // namespace

void Resolver::judgeProgram(const Stage& stage, const Value& step, const std::string& key) {
    const std::vector<std::string> words = wordsOf(step, key);
    if (words.empty() || words.front().starts_with('/') || words.front().find('/') == std::string::npos) return;
    findings_
        .error(fieldOf(step, key)->origin, "moving-program",
               fmt::format("step '{}' of stage '{}' runs '{}' of the work tree", textOf(step, "name"), stage.name,
                           words.front()),
               "any change that came into the work tree decides what that is, also when it is undone later",
               "name a program on PATH or by its absolute path")
        .severity = Severity::kWarning;
}

void Resolver::judgeStep(const Stage& stage, const Value& step) {
    const std::string name = textOf(step, "name");
    const Value* undo = fieldOf(step, "undo");
    if (undo != nullptr && numberOf(step, "irreversible") != 0)
        findings_.error(undo->origin, "conflict",
                        fmt::format("step '{}' of stage '{}' is irreversible and has an 'undo'", name, stage.name),
                        "what can be undone is not irreversible", "remove one of the two");
    for (const char* key : {"run", "undo", "probe"}) judgeProgram(stage, step, key);
    const Value* probe = fieldOf(step, "probe");
    const bool isProbed = textOf(step, "idempotence") == "probe";
    if (isProbed && probe == nullptr)
        findings_.error(fieldOf(step, "idempotence")->origin, "missing-key",
                        fmt::format("step '{}' of stage '{}' has no 'probe'", name, stage.name),
                        "there is nothing to ask", "add probe = [\"migrate\", \"is-up\"], or write \"no\"");
    if (!isProbed && probe != nullptr)
        findings_.error(probe->origin, "conflict",
                        fmt::format("step '{}' of stage '{}' has a 'probe' that nobody asks", name, stage.name),
                        "it is asked only with idempotence = \"probe\"", "add idempotence = \"probe\", or remove it");
}

void Resolver::resolveSteps(Stage& stage, const DriverWords& driver) {
    const Value* steps = stage.settings.find("step");
    if (steps == nullptr) return;
    if (!driver.hasTarget) {
        findings_.error(steps->origin, "conflict", fmt::format("stage '{}' cannot have steps", stage.name),
                        fmt::format("driver '{}' switches nothing", driver.name), "remove them");
        return;
    }
    std::set<std::string> names;
    for (const Value& step : steps->items) {
        const Value* name = fieldOf(step, "name");
        if (name == nullptr || fieldOf(step, "run") == nullptr) continue;  // Said when it was read.
        if (!names.insert(name->text).second)
            findings_.error(name->origin, "duplicate",
                            fmt::format("step '{}' of stage '{}' is defined twice", name->text, stage.name),
                            "another one is called so", "rename one of the two");
        judgeStep(stage, step);
        stage.steps.push_back(planOf(step));
    }
}

}  // namespace gradus
