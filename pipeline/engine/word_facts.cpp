#include "pipeline/engine/word_facts.h"

#include <algorithm>

namespace gradus {

namespace {

constexpr const char* kRedacted = "its reason was redacted";

// Who is not known any more has no say.
Actor whoIs(const Records& records, ActorId id) { return records.actor(id).value_or(Actor{ActorKind::kAgent, ""}); }

HoldFact holdFact(const Records& records, const Hold& hold) {
    HoldFact fact;
    fact.stage = hold.stage;
    fact.change = hold.change;
    fact.patch = hold.patch;
    fact.onlyMachines = hold.onlyMachines;
    // After a failure it is held whoever drove.
    fact.by = hold.promotion ? Actor{ActorKind::kDaemon, "gradus"} : whoIs(records, hold.by);
    fact.at = hold.at;
    fact.until = hold.until;
    fact.reason = hold.reason.value_or(hold.promotion ? kRedacted : "");
    return fact;
}

OverrideFact overrideFact(const Records& records, const GateOverride& word) {
    return {word.promotion, word.gate, whoIs(records, word.by), word.roles, word.at, word.reason.value_or(kRedacted),
            word.about};
}

}  // namespace

std::vector<Maker> makerFacts(const Records& records, std::int64_t change) {
    std::vector<Maker> facts;
    for (const RevisionMaker& maker : records.words().makers(change)) {
        Maker fact{whoIs(records, maker.actor), std::nullopt};
        if (maker.sponsor) fact.sponsor = records.actor(*maker.sponsor);
        facts.push_back(std::move(fact));
    }
    return facts;
}

namespace {

// An approval grows old by what the machine counted and by what the log says happened since, not by the clock alone.
ApprovalFact agedBy(const Records& records, const Approval& approval, const Moment& now) {
    ApprovalFact fact = approvalFact(records, approval);
    // Of what was once, only what the log said by then is asked.
    if (now.at == Time{}) return fact;
    fact.known = std::max(records.latestSince(approval.seq), approval.at + elapsed(approval.given, now));
    return fact;
}

}  // namespace

ApprovalFact approvalFact(const Records& records, const Approval& approval) {
    ApprovalFact fact;
    fact.id = approval.id;
    fact.by = whoIs(records, approval.by);
    fact.roles = approval.roles;
    fact.at = approval.at;
    fact.subject = {approval.change, approval.revision, approval.rules, approval.base, approval.evidence};
    fact.usedBy = approval.usedBy;
    return fact;
}

void addWords(const Records& records, std::int64_t project, const std::string& stage, const Moment& now, Facts& facts) {
    const WordRecords words = records.words();
    for (const Approval& approval : words.approvals(facts.change.id, stage))
        facts.approvals.push_back(agedBy(records, approval, now));
    for (const Hold& hold : words.holds(project)) facts.holds.push_back(holdFact(records, hold));
    for (const Pin& pin : words.pins(project))
        facts.pins.push_back(
            {pin.stage, pin.change, pin.revision, whoIs(records, pin.by), pin.at, pin.reason.value_or("")});
    for (const Veto& veto : words.vetoes(project))
        facts.vetoes.push_back(
            {veto.changeSet, veto.patch, veto.stage, whoIs(records, veto.by), veto.at, veto.reason.value_or("")});
    if (const auto halt = words.halt(project))
        facts.halt =
            HaltFact{whoIs(records, halt->by), halt->at, halt->reason.value_or(""), !halt->project.has_value()};
    for (const GateOverride& word : words.overrides(facts.promotion))
        facts.overrides.push_back(overrideFact(records, word));
}

}  // namespace gradus
