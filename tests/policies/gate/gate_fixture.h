#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "policies/gate/gate.h"
#include "policies/gate/overrides.h"
#include "policies/language/duration.h"
#include "tests/policies/language/loading.h"

namespace gradus::test {

/// Wednesday, 2026-03-04 12:00 UTC.
constexpr Time kNoon{std::chrono::sys_days{std::chrono::year{2026} / 3 / 4}.time_since_epoch() +
                     std::chrono::hours(12)};

inline Digest named(const std::string& name) { return sha256(name); }

inline const Zones& systemZones() {
    static const Zones zones = [] {
        Pipeline pipeline;
        for (const char* name :
             {"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"}) {
            Value when;
            when.fields["timezone"].text = name;
            Window window;
            window.settings.set("allow", when);
            pipeline.windows.push_back(window);
        }
        return readZones(pipeline);
    }();
    return zones;
}

/// Stages sandbox, local (a work tree) and here; `rules` is TOML: keys of the policy of `here`, then whatever follows.
inline Pipeline pipelineWith(const std::string& rules) {
    const std::string text =
        "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\", \"here\"]\n"
        "[check.unit]\nrun = \"make test\"\n"
        "[stage.here]\ndriver = \"release-directory\"\npath = \"/srv/shop\"\npolicy = \"here\"\n"
        "[policy.here]\nextends = \"none\"\n" +
        rules + "\n";
    LoadResult result = loadText(text);
    if (!result.pipeline) throw std::runtime_error(renderDiagnostics(result.diagnostics, false));
    return *result.pipeline;
}

/// Everything in order: anna made revision 2 and promotes it, it was verified and checked an hour ago.
inline Facts readyFacts() {
    Facts facts;
    facts.promotion = 7;
    facts.openedAt = kNoon - std::chrono::hours(2);
    facts.promoter = {ActorKind::kPerson, "anna"};
    facts.change.id = 12;
    facts.change.revision = 2;
    facts.change.changeSet = named("change set");
    facts.change.patch = named("patch");
    facts.change.makers = {{{ActorKind::kPerson, "anna"}, std::nullopt}};
    facts.change.paths = {{.path = "src/shop.c", .added = 3, .removed = 1, .bytesBefore = 100, .bytesAfter = 140}};
    facts.rules = named("rules");
    facts.base = named("base");
    facts.checked = CheckedFact{named("evidence"), facts.rules, kNoon - std::chrono::hours(1)};
    for (const char* stage : {"sandbox", "local"})
        facts.verified.push_back({stage, 2, kNoon - std::chrono::hours(3), std::nullopt, {}});
    return facts;
}

/// ben says yes to the facts as they are, an hour ago.
inline ApprovalFact approvalOf(const Facts& facts, const std::string& person = "ben") {
    ApprovalFact approval;
    approval.id = 1;
    approval.by = {ActorKind::kPerson, person};
    approval.at = kNoon - std::chrono::hours(1);
    approval.subject = {facts.change.id, facts.change.revision, facts.rules, facts.base, std::nullopt};
    if (facts.checked) approval.subject.evidence = facts.checked->evidence;
    return approval;
}

inline Decision decideHere(Facts facts, const Pipeline& pipeline, Time now = kNoon, const std::string& stage = "here") {
    // A consent that names no steps is to those that there are.
    for (OverrideFact& word : facts.overrides)
        if (word.gate == nameOf(kGates, Gate::kSteps) && word.about.empty())
            word.about = irreversibleDigest(*pipeline.findStage(stage));
    return decide(facts, *pipeline.findStage(stage), pipeline, systemZones(), now);
}

inline Decision decideHere(const Facts& facts, const std::string& rules, Time now = kNoon) {
    return decideHere(facts, pipelineWith(rules), now);
}

}  // namespace gradus::test
