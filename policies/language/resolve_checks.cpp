#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "policies/language/resolver.h"
#include "policies/language/table_reader.h"
#include "policies/language/tighten.h"

namespace gradus {

namespace {

std::int64_t usualTimeout(const Settings& settings, const CheckKindWords& kind) {
    const std::int64_t pauses = std::max<std::int64_t>(settings.number("consecutive-success"), 1) - 1;
    return kind.timeout->count() + pauses * settings.number("interval");
}

CheckWhen whenOf(const Settings& settings, const CheckKindWords& kind) {
    const std::string said = settings.text("when");
    if (!said.empty()) return said == "after" ? CheckWhen::kAfter : CheckWhen::kBefore;
    if (settings.text("on") == "host") return CheckWhen::kAfter;
    return kind.when == "after" ? CheckWhen::kAfter : CheckWhen::kBefore;
}

/// A clone's own limits count where the check says nothing.
void inheritLimits(Settings& settings, const Settings& sandbox) {
    const Value* base = sandbox.find("limits");
    if (base == nullptr) return;
    Value limits = *base;
    if (const Value* own = settings.find("limits")) {
        limits.origin = own->origin;
        for (const auto& [key, field] : own->fields) limits.fields.insert_or_assign(key, field);
    }
    settings.set("limits", std::move(limits));
}

void inheritEnvironment(Settings& settings, const Settings& sandbox) {
    const Value* base = sandbox.find("env");
    if (base == nullptr) return;
    Value all = *base;
    if (const Value* own = settings.find("env")) {
        const auto nameOf = [](const Value& v) { return v.text.substr(0, v.text.find('=')); };
        for (const Value& item : own->items) {
            std::erase_if(all.items, [&](const Value& other) { return nameOf(other) == nameOf(item); });
            all.items.push_back(item);
        }
        all.origin = own->origin;
    }
    settings.set("env", std::move(all));
}

}  // namespace

std::vector<std::string> Resolver::checkNames() const {
    std::vector<std::string> names;
    for (const auto& [name, check] : pipeline_.checks) names.push_back(name);
    return names;
}

bool Resolver::isKnownCheck(const Value& name, const std::string& who) {
    if (pipeline_.checks.contains(name.text) || draft_.checks.contains(name.text)) return true;
    const std::vector<std::string> known = findings_.isFull() ? std::vector<std::string>{} : checkNames();
    findings_.error(name.origin, "unknown-name", fmt::format("unknown check '{}'", name.text),
                    fmt::format("{} names it", who), findings_.hintFor(name.text, known, "checks"));
    return false;
}

void Resolver::addCheck(const std::string& name, const Settings& settings, const Origin& origin) {
    Check check{name, settings.text(kKindSetting), CheckWhen::kBefore, origin, settings};
    const CheckKindWords* kind = vocabulary_.findCheckKind(check.kind);
    if (kind == nullptr) return;  // Said when it was read.
    check.settings.erase(kKindSetting);
    check.settings.erase("name");
    check.when = whenOf(settings, *kind);
    judgeHostCheck(check);
    pipeline_.checks.insert_or_assign(name, std::move(check));
}

void Resolver::judgeHostCheck(const Check& check) {
    const bool isOnHost = check.settings.text("on") == "host";
    const bool choosesPlace = findRow(vocabulary_.findCheckKind(check.kind)->keys, "on") != nullptr;
    if (choosesPlace && !isOnHost && check.when == CheckWhen::kAfter)
        findings_.error(check.settings.find("when")->origin, "conflict",
                        fmt::format("check '{}' runs after the stage was touched, and in a sandbox", check.name),
                        "nothing runs there to look at", "write on = \"host\", or when = \"before\"");
    if (!isOnHost) return;
    if (check.when == CheckWhen::kBefore)
        findings_.error(check.settings.find("when")->origin, "conflict",
                        fmt::format("check '{}' runs on the host before the stage is touched", check.name),
                        "before, there is nothing to look at", "write when = \"after\", or on = \"sandbox\"");
    if (const Value* demands = check.settings.find("requires"))
        findings_.error(demands->origin, "conflict",
                        fmt::format("check '{}' asks for guarantees and runs on the host", check.name),
                        "nothing is guaranteed there", "remove it, or write on = \"sandbox\"");
}

void Resolver::addFileChecks() {
    for (const auto& [name, section] : draft_.checks) {
        addCheck(name, section.settings, section.origin);
        fileChecks_.insert(name);
    }
}

void Resolver::addPolicyChecks(const EffectivePolicy& policy) {
    const Value* own = policy.settings.find("check");
    if (own == nullptr) return;
    for (const Value& item : own->items) {
        Settings settings;
        for (const auto& [key, field] : item.fields) settings.set(key, field);
        const std::string name = settings.text("name");
        if (name.empty()) continue;  // Said when it was read.
        const auto existing = pipeline_.checks.find(name);
        const bool taken = draft_.checks.contains(name) ||
                           (existing != pipeline_.checks.end() && !(existing->second.origin.file == item.origin.file &&
                                                                    existing->second.origin.span == item.origin.span));
        if (taken)
            findings_.error(settings.find("name")->origin, "duplicate",
                            fmt::format("check '{}' is defined twice", name),
                            fmt::format("policy '{}' brings one of that name", policy.name), "rename one of the two");
        else
            addCheck(name, settings, item.origin);
    }
}

void Resolver::buildGraph() {
    for (const auto& [name, check] : pipeline_.checks) graph_[name] = {};
    for (const auto& [name, check] : pipeline_.checks) {
        const Value* needs = check.settings.find("needs");
        if (needs == nullptr) continue;
        for (const Value& need : needs->items) {
            if (!isKnownCheck(need, "check '" + name + "'")) continue;
            const auto needed = pipeline_.checks.find(need.text);
            if (needed == pipeline_.checks.end()) continue;
            if (check.when == CheckWhen::kBefore && needed->second.when == CheckWhen::kAfter)
                findings_.error(need.origin, "conflict",
                                fmt::format("check '{}' runs before and needs '{}', which runs after", name, need.text),
                                "it would wait for ever", "change `when` of one of the two");
            graph_[name].push_back(need.text);
        }
    }
    const auto cycles = findCycles(graph_);
    for (const auto& cycle : cycles) {
        const Check& last = pipeline_.checks.at(cycle[cycle.size() - 2]);
        findings_.error(last.settings.find("needs")->origin, "cycle",
                        fmt::format("checks need each other: {}", fmt::join(cycle, " → ")), "closes the circle",
                        "remove one of these from `needs`");
    }
    if (!cycles.empty())
        for (auto& [name, needs] : graph_) needs.clear();
}

void Resolver::finishChecks() {
    for (auto& [name, check] : pipeline_.checks) {
        const CheckKindWords* kind = vocabulary_.findCheckKind(check.kind);
        const std::vector<KeyRow> rows = checkRows(*kind);
        if (findRow(rows, "env") != nullptr) inheritEnvironment(check.settings, pipeline_.sandbox);
        inheritLimits(check.settings, pipeline_.sandbox);
        const bool hasTimeout = check.settings.has("timeout");
        fillDefaults(check.settings, rows, vocabulary_);
        if (!hasTimeout && kind->timeout) check.settings.find("timeout")->number = usualTimeout(check.settings, *kind);
        policies_.cap(check.settings, rows, "check '" + name + "'");
        if (!check.settings.has("when")) {
            Value when;
            when.type = ValueType::kChoice;
            when.text = check.when == CheckWhen::kAfter ? "after" : "before";
            check.settings.set("when", std::move(when));
        }
        judgeServices(check.settings, fmt::format("check '{}'", name));
    }
    judgeServices(pipeline_.sandbox, "[sandbox]");
}

void Resolver::judgeServices(const Settings& settings, const std::string& who) {
    const Value* services = settings.find("services");
    if (services == nullptr) return;
    std::vector<std::string> known;
    for (const auto& [name, section] : draft_.services) known.push_back(name);
    for (const Value& service : services->items)
        if (!draft_.services.contains(service.text))
            findings_.error(service.origin, "unknown-name", fmt::format("unknown service '{}'", service.text),
                            who + " names it", findings_.hintFor(service.text, known, "services"));
}

void Resolver::judgeAgainstPolicy(const Stage& stage, const Check& check) {
    for (const char* key : {"limits", "network"}) {
        const Value* limit = stage.policy.settings.find(key);
        const Value* wanted = check.settings.find(key);
        if (limit == nullptr || wanted == nullptr) continue;
        tightened(
            *findRow(section("policy").rows, key), *limit, *wanted,
            [&](const std::string& path, const Value& allowed, const Value& asked) {
                // The ceiling cuts by itself; here the files of the project disagree.
                if (allowed.origin.kind == Origin::Kind::kCeiling) return;
                findings_
                    .error(asked.origin, "conflict",
                           fmt::format("check '{}' asks for more than stage '{}' allows", check.name, stage.name),
                           fmt::format("{} = {}", path, valueText(asked)),
                           fmt::format("write {} or less, or leave the check out of the stage", valueText(allowed)))
                    .note = fmt::format("policy '{}' allows {}, set by {}", stage.policy.name, valueText(allowed),
                                        allowed.origin.text());
            },
            key);
    }
    refuseLoweredGuarantees(stage, check);
}

void Resolver::refuseLoweredGuarantees(const Stage& stage, const Check& check) {
    std::vector<const Value*> demands{stage.policy.settings.find("requires"), stage.settings.find("requires")};
    const auto refuse = [&](const Value& lowered, const std::string& guarantee) {
        for (const Value* demand : demands) {
            if (demand == nullptr) continue;
            for (const Value& item : demand->items) {
                // What the ceiling demands is kept, with a warning, once the checks are finished.
                if (item.text != guarantee || item.origin.kind == Origin::Kind::kCeiling) continue;
                findings_
                    .error(lowered.origin, "conflict",
                           fmt::format("check '{}' gives up '{}', which stage '{}' demands", check.name, guarantee,
                                       stage.name),
                           "given up here", "remove it, or leave the check out of the stage")
                    .note = fmt::format("demanded by {}", item.origin.text());
                return;
            }
        }
    };
    if (const Value* without = check.settings.find("without"))
        for (const Value& item : without->items) refuse(item, item.text);
    if (const Value* network = check.settings.find("network"); network != nullptr && network->text == "host")
        refuse(*network, "no-network");
}

}  // namespace gradus
