#include "policies/language/pipeline.h"

#include <algorithm>

#include "store/model/canonical.h"

namespace gradus {

namespace {

/// Calls visit(section path, settings) for everything that holds rules, in a fixed order.
template <typename Visit>
void forEachSettings(const Pipeline& pipeline, const Visit& visit) {
    visit("sandbox", pipeline.sandbox);
    for (const auto& [name, check] : pipeline.checks) visit("check." + name, check.settings);
    std::map<std::string, const Settings*> policies;
    for (const Stage& stage : pipeline.stages) {
        visit("stage." + stage.name, stage.settings);
        policies.emplace(stage.policy.name, &stage.policy.settings);
    }
    for (const auto& [name, settings] : policies) visit("policy." + name, *settings);
    for (std::size_t i = 0; i < pipeline.windows.size(); ++i)
        visit("window." + std::to_string(i + 1), pipeline.windows[i].settings);
    for (const auto& [name, settings] : pipeline.services) visit("service." + name, settings);
    for (const auto& [name, settings] : pipeline.roles) visit("role." + name, settings);
}

bool haveOneOrigin(const std::vector<Value>& items) {
    return std::all_of(items.begin(), items.end(), [&](const Value& item) {
        return item.origin.kind == items[0].origin.kind && item.origin.file == items[0].origin.file;
    });
}

bool isListOfSettings(const Value& value) {
    if (value.items.empty() || value.type == ValueType::kCommand || value.type == ValueType::kNetwork) return false;
    return value.type == ValueType::kTableList || !haveOneOrigin(value.items);
}

/// A table is one rule per key, and a list that several files added to one per element: each has its own origin.
void addRules(const std::string& key, const Value& value, std::vector<EffectiveRule>& rules) {
    if (value.type == ValueType::kTable) {
        for (const auto& [name, field] : value.fields) addRules(key + "." + name, field, rules);
    } else if (isListOfSettings(value)) {
        for (std::size_t i = 0; i < value.items.size(); ++i)
            addRules(key + "." + std::to_string(i + 1), value.items[i], rules);
    } else {
        rules.push_back({key, valueText(value), value.origin.text()});
    }
}

std::string names(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& name : list) text += (text.empty() ? "" : ", ") + tomlQuoted(name);
    return "[" + text + "]";
}

}  // namespace

const Stage* Pipeline::findStage(std::string_view stageName) const {
    const auto found = std::find_if(stages.begin(), stages.end(), [&](const Stage& s) { return s.name == stageName; });
    return found == stages.end() ? nullptr : &*found;
}

std::vector<EffectiveRule> effectiveRules(const Pipeline& pipeline) {
    std::vector<EffectiveRule> rules;
    forEachSettings(pipeline, [&](const std::string& path, const Settings& settings) {
        for (const auto& [key, value] : settings.values()) addRules(path + "." + key, value, rules);
    });
    return rules;
}

Digest rulesDigest(const Pipeline& pipeline) {
    Canonical canonical("gradus.rules.1");
    canonical.text(pipeline.name).list(pipeline.stages.size());
    for (const Stage& stage : pipeline.stages)
        canonical.text(stage.name)
            .text(stage.driver)
            .text(stage.policy.name)
            .text(names(stage.checks))
            .text(names(stage.monitorChecks));
    forEachSettings(pipeline, [&](const std::string& path, const Settings& settings) {
        canonical.text(path).list(settings.values().size());
        for (const auto& [key, value] : settings.values()) canonical.text(key).text(valueText(value));
    });
    return canonical.hash();
}

}  // namespace gradus
