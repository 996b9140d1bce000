#include <algorithm>

#include "pipeline/engine/drive.h"
#include "pipeline/engine/queue.h"
#include "policies/gate/overrides.h"
#include "stages/changes/hazards.h"
#include "store/model/error.h"

namespace gradus {

Closed closedGates(const Decision& decision) {
    Closed closed;
    const auto add = [](std::string& text, const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    for (const GateAnswer& answer : decision.gates) {
        // One that says what to do instead (check, merge) is nothing to wait for.
        if (answer.state != GateState::kClosed || answer.instead) continue;
        add(closed.reason, answer.reason);
        if (!answer.rule.empty()) add(closed.rules, fmt::format("{} {}", nameOf(kGates, answer.gate), answer.rule));
    }
    return closed;
}

namespace {

/// Nothing: the stage is stuck, and what lies there is not looked at.
std::optional<DirectoryReader> readerOf(const Footing& footing) {
    if (footing.directory().empty()) return std::nullopt;
    return std::optional<DirectoryReader>(std::in_place, footing.directory());
}

}  // namespace

void Drive::warnOfHazards(const Footing& footing) {
    const auto there = readerOf(footing);
    for (const std::string& hazard : hazardsOf(footing.changes, parts_.objects, there ? &*there : nullptr))
        report_.notes.push_back("look at this: " + hazard);
}

Facts Drive::factsOf(const Footing& footing) const {
    FactsRequest request{project_,        sourcesNow(parts_),   stage_,         footing.change,
                         footing.changes, report_.promotion.id, footing.base(), checked_};
    if (promoter_) request.sources.promoter = *promoter_;
    const auto there = readerOf(footing);
    request.there = there ? &*there : nullptr;
    Facts facts = gatherFacts(request);
    if (takesTarget()) addQueue(request, parts_.zones(project_.pipeline), facts);
    return facts;
}

Decision Drive::decideOn(const Facts& facts) const {
    return decide(facts, stage_, project_.pipeline, parts_.zones(project_.pipeline), parts_.clock.now());
}

Decision Drive::decideNow(const Footing& footing) {
    const Facts facts = factsOf(footing);
    Decision decision = decideOn(facts);
    std::vector<GateOverride> words = granted(facts, decision);
    if (words.empty()) return decision;
    // An override is for one promotion, so there must be one.
    if (!isOpen()) open(footing, std::nullopt, {waitingFor(closedGates(decision), footing.base())});
    parts_.store.write([&](Writer& writer) {
        WordWriter writing(writer, writer.actor(parts_.actor), parts_.uid);
        for (GateOverride& word : words) {
            word.promotion = report_.promotion.id;
            writing.overrideGate(word);
        }
    });
    std::erase_if(*wishes_, [&](const OverrideWish& wish) {
        return std::any_of(words.begin(), words.end(),
                           [&](const GateOverride& word) { return word.gate == nameOf(kGates, wish.gate); });
    });
    return decideOn(factsOf(footing));
}

// Only what is closed is overridden, and only by who may: nothing is recorded that would not count.
std::vector<GateOverride> Drive::granted(const Facts& facts, const Decision& decision) const {
    std::vector<GateOverride> words;
    if (wishes_ == nullptr) return words;
    const auto roles = rolesHeld(project_.pipeline, parts_.actor.name, parts_.systemGroups(parts_.actor));
    const Zones none;
    const GateInput input{facts, stage_, project_.pipeline, none, parts_.clock.now()};
    for (const OverrideWish& wish : *wishes_) {
        const GateAnswer& answer = decision.at(wish.gate);
        if (answer.state != GateState::kClosed || answer.instead) continue;
        const std::string name(nameOf(kGates, wish.gate));
        const std::string about = overrideSubject(input, wish.gate);
        const OverrideFact fact{facts.promotion, name, parts_.actor, roles, input.now, wish.reason, about};
        const std::string why = whyNotOverridden(input, wish.gate, fact);
        if (!why.empty())
            throw Error(ErrorCode::kNotAllowed, "the gate '{}' of {} stays closed: {}", name, stage_.name, why)
                .hint(answer.reason);
        words.push_back({.promotion = 0, .gate = name, .roles = roles, .reason = wish.reason, .about = about});
    }
    return words;
}

std::vector<Approval> Drive::approvalsUsed(const Footing& footing) const {
    std::vector<Approval> used;
    Facts facts = factsOf(footing);
    const Decision with = decideOn(facts);
    facts.approvals.clear();
    if (decideOn(facts).step == NextStep::kApply) return used;
    for (const ApprovalAnswer& answer : with.approvals)
        if (answer.counts) used.push_back(parts_.store.records().words().approval(answer.id).value());
    return used;
}

}  // namespace gradus
