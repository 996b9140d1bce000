#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

#include "tests/policies/gate/gate_fixture.h"
#include "tests/policies/gate/gate_table.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::Row;

const std::vector<Row>& rows() {
    static const std::vector<Row> all = [] {
        std::vector<Row> some = test::consentRows();
        for (const auto& more : {test::changeRows(), test::timeRows()})
            some.insert(some.end(), more.begin(), more.end());
        return some;
    }();
    return all;
}

/// The policy of one row and the facts of up to three: situations that nobody thought of.
struct Mixed {
    Pipeline pipeline;
    Facts facts;
    Time now;

    Stage& here() {
        return *std::find_if(pipeline.stages.begin(), pipeline.stages.end(),
                             [](const Stage& s) { return s.name == "here"; });
    }
    Decision decide(Time at) const { return test::decideHere(facts, pipeline, at); }
    Decision decide() const { return decide(now); }
};

Mixed mixed() {
    const auto row = [] { return rows()[*rc::gen::inRange<std::size_t>(0, rows().size())]; };
    std::string words;
    const int count = *rc::gen::inRange(1, 4);
    for (int i = 0; i < count; ++i) words += row().facts + " ";
    const std::string policy = row().policy;
    RC_LOG("policy: " + policy + "\nfacts: " + words);
    const test::Situation situation = test::situationOf(words);
    return {test::pipelineWith(policy), situation.facts, situation.now};
}

std::vector<GateState> states(const Decision& decision) {
    std::vector<GateState> result;
    for (const GateAnswer& answer : decision.gates) result.push_back(answer.state);
    return result;
}

/// All that a decision says about its gates, as text that shows where two differ.
std::string everything(const Decision& decision) {
    std::string text(nameOf(kNextSteps, decision.step));
    for (const GateAnswer& answer : decision.gates) {
        text += fmt::format("\n{} {} {} {} {} {} {}", nameOf(kGates, answer.gate), nameOf(kGateStates, answer.state),
                            answer.reason, answer.rule, answer.since ? toMillis(*answer.since) : 0,
                            answer.next ? toMillis(*answer.next) : 0, answer.ask);
        for (const std::string& who : answer.unblock) text += " " + who;
    }
    return text;
}

template <typename T>
void shuffle(std::vector<T>& items, std::mt19937& random) {
    std::shuffle(items.begin(), items.end(), random);
}

RC_GTEST_PROP(GateProperty, TheOrderOfFactsDoesNotMatter, ()) {
    Mixed mix = mixed();
    const std::string before = everything(mix.decide());
    std::mt19937 random(*rc::gen::arbitrary<unsigned>());
    Facts& facts = mix.facts;
    shuffle(facts.change.makers, random);
    shuffle(facts.change.paths, random);
    shuffle(facts.verified, random);
    shuffle(facts.approvals, random);
    shuffle(facts.holds, random);
    shuffle(facts.pins, random);
    shuffle(facts.vetoes, random);
    shuffle(facts.ahead, random);
    shuffle(facts.spent.promotions, random);
    shuffle(facts.spent.rollbacks, random);
    shuffle(facts.overrides, random);
    RC_ASSERT(everything(mix.decide()) == before);
}

RC_GTEST_PROP(GateProperty, AGateChangesByItselfExactlyWhenItSays, ()) {
    const Mixed mix = mixed();
    const Decision decision = mix.decide();
    const Time sometime = mix.now + Milliseconds(*rc::gen::inRange<std::int64_t>(0, 40LL * 86'400'000));
    const auto later = states(mix.decide(sometime));
    for (std::size_t i = 0; i < kGates.size(); ++i) {
        RC_LOG(std::string(kGates[i].word));
        const GateAnswer& answer = decision.gates[i];
        if (!answer.next || sometime < *answer.next) RC_ASSERT(later[i] == answer.state);
        if (!answer.next) continue;
        RC_ASSERT(*answer.next > mix.now);
        RC_ASSERT(states(mix.decide(*answer.next - Milliseconds(1)))[i] == answer.state);
        RC_ASSERT(states(mix.decide(*answer.next))[i] != answer.state);
    }
}

Value listOf(std::initializer_list<const char*> texts) {
    Value list;
    for (const char* text : texts) list.items.emplace_back().text = text;
    return list;
}

void addItems(Settings& settings, const std::string& key, const Value& more) {
    Value list = settings.has(key) ? *settings.find(key) : Value{};
    list.items.insert(list.items.end(), more.items.begin(), more.items.end());
    settings.set(key, list);
}

void setNumber(Settings& settings, const std::string& key, std::int64_t number) {
    Value value;
    value.number = std::min(number, settings.has(key) ? settings.number(key) : number);
    settings.set(key, value);
}

void addApprovalEntry(Settings& settings) {
    Value entry;
    entry.fields["count"].number = 2;
    entry.fields["role"].text = "sre";
    entry.fields["expires"].number = 3'600'000;
    Value list;
    list.items.push_back(entry);
    addItems(settings, "approvals", list);
}

void denyAlways(Mixed& mix) {
    Value deny;
    deny.fields["cron"].text = "0 * * * *";
    deny.fields["for"].number = 1'800'000;
    deny.fields["timezone"].text = "UTC";
    Window& window = mix.pipeline.windows.emplace_back();
    window.settings.set("stages", listOf({"here"}));
    window.settings.set("deny", deny);
}

void tightenRisk(Settings& settings) {
    Value risk = settings.has("risk") ? *settings.find("risk") : Value{};
    risk.fields["person-above"].text = "low";
    risk.fields["files"].number = 1;
    settings.set("risk", risk);
}

void tightenBudget(Settings& settings) {
    Value budget = settings.has("budget") ? *settings.find("budget") : Value{};
    budget.fields["promotions"].number = 1;
    budget.fields["rollbacks"].number = 1;
    budget.fields["per"].number = 30LL * 86'400'000;
    settings.set("budget", budget);
}

using Demand = void (*)(Mixed& mix);

const std::vector<Demand>& demands() {
    static const std::vector<Demand> all{
        [](Mixed& mix) { addApprovalEntry(mix.here().policy.settings); },
        [](Mixed& mix) { mix.here().policy.settings.set("alone", Value{}); },
        [](Mixed& mix) { mix.here().policy.settings.set("overridable", Value{}); },
        [](Mixed& mix) { addItems(mix.here().policy.settings, "protected-paths", listOf({"**"})); },
        [](Mixed& mix) { addItems(mix.here().policy.settings, "test-paths", listOf({"**"})); },
        [](Mixed& mix) { setNumber(mix.here().policy.settings, "evidence-lifetime", 60'000); },
        [](Mixed& mix) { tightenRisk(mix.here().policy.settings); },
        [](Mixed& mix) { tightenBudget(mix.here().policy.settings); },
        [](Mixed& mix) {
            Value exact;
            exact.text = "exact";
            mix.here().policy.settings.set("freshness", exact);
        },
        denyAlways,
        [](Mixed& mix) { mix.facts.holds.push_back({.reason = "more"}); },
        [](Mixed& mix) { mix.facts.vetoes.push_back({.patch = mix.facts.change.patch}); },
        [](Mixed& mix) { mix.facts.pins.push_back({.stage = "here", .change = 99}); },
        [](Mixed& mix) { mix.facts.halt = HaltFact{}; },
        [](Mixed& mix) { mix.facts.stuck = StuckFact{}; },
        [](Mixed& mix) { mix.facts.ahead.push_back({.promotion = 2}); },
        [](Mixed& mix) {
            mix.facts.climb = ClimbFact{"sandbox", ""};
        },
        [](Mixed& mix) { mix.facts.change.paths.push_back({.path = "gradus.toml", .isThere = false}); },
        [](Mixed& mix) {
            mix.facts.change.makers.push_back({{ActorKind::kAgent, "late"}, std::nullopt});
        },
    };
    return all;
}

RC_GTEST_PROP(GateProperty, AddingADemandNeverOpensAGate, ()) {
    Mixed mix = mixed();
    const Decision before = mix.decide();
    const auto which = *rc::gen::inRange<std::size_t>(0, demands().size());
    RC_LOG(fmt::format("demand {}", which));
    demands()[which](mix);
    const Decision after = mix.decide();
    for (std::size_t i = 0; i < kGates.size(); ++i)
        if (before.gates[i].state == GateState::kClosed) RC_ASSERT(after.gates[i].state == GateState::kClosed);
    if (after.step == NextStep::kApply) RC_ASSERT(before.step == NextStep::kApply);
}

/// Yes from somebody new to exactly what is decided about.
ApprovalFact freshYes(const Facts& facts, const std::string& person) {
    ApprovalFact yes = test::approvalOf(facts, person);
    yes.id = 100;
    yes.roles = {"sre", "ops", "override"};
    return yes;
}

void expectNothingOpens(Mixed& mix, const ApprovalFact& yes) {
    const auto before = states(mix.decide());
    mix.facts.approvals.push_back(yes);
    RC_ASSERT(states(mix.decide()) == before);
    RC_ASSERT(!mix.decide().approvals.back().counts);
}

RC_GTEST_PROP(GateProperty, AnApprovalForSomethingElseOpensNothing, ()) {
    Mixed mix = mixed();
    ApprovalFact yes = freshYes(mix.facts, "zoe");
    switch (*rc::gen::inRange(0, 6)) {
        case 0:
            ++yes.subject.revision;
            break;
        case 1:
            ++yes.subject.change;
            break;
        case 2:
            yes.subject.rules = test::named("others");
            break;
        case 3:
            yes.subject.base = test::named("others");
            break;
        case 4:
            yes.subject.evidence = test::named("others");
            break;
        default:
            yes.usedBy = mix.facts.promotion - 1;
    }
    expectNothingOpens(mix, yes);
}

RC_GTEST_PROP(GateProperty, AnApprovalByItsMakersOrByAMachineOpensNothing, ()) {
    Mixed mix = mixed();
    ApprovalFact yes = freshYes(mix.facts, "zoe");
    if (*rc::gen::arbitrary<bool>())
        yes.by.kind = *rc::gen::element(ActorKind::kAgent, ActorKind::kDaemon, ActorKind::kCi);
    else
        yes.by = (*rc::gen::elementOf(mix.facts.change.makers)).actor;
    expectNothingOpens(mix, yes);
}

RC_GTEST_PROP(GateProperty, PeopleAreAskedOnlyWhenNothingElseIsInTheWay, ()) {
    const Decision decision = mixed().decide();
    for (const GateAnswer& answer : decision.gates) {
        if (!decision.asks()) break;
        if (answer.state == GateState::kClosed) RC_ASSERT(answer.needsPerson && answer.ask);
    }
    if (decision.asks()) RC_ASSERT(decision.step == NextStep::kWait);
}

RC_GTEST_PROP(GateProperty, ItGoesAheadExactlyIfNoGateIsClosed, ()) {
    const Decision decision = mixed().decide();
    const auto all = states(decision);
    const bool isClosed = std::find(all.begin(), all.end(), GateState::kClosed) != all.end();
    RC_ASSERT((decision.step == NextStep::kApply) == !isClosed);
}

RC_GTEST_PROP(GateProperty, WhatPeopleAreAskedForOpensWhenTheySayYes, ()) {
    Mixed mix = mixed();
    if (!mix.decide().asks()) return;
    for (const char* person : {"xaver", "yara", "zoe"}) {
        mix.facts.approvals.push_back(freshYes(mix.facts, person));
        mix.facts.approvals.back().at = mix.now;
    }
    RC_ASSERT(mix.decide().step == NextStep::kApply);
}

}  // namespace
}  // namespace gradus
