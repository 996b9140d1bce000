#include "policies/gate/consent.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "store/model/actor_name.h"

namespace gradus {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// Names are declared: one who may not act as `alice` does not become another by writing `Alice`.
bool isSame(const Actor& one, const Actor& other) {
    return one.kind == other.kind && (one.name == other.name || actorKey(one.name) == actorKey(other.name));
}

bool isSponsor(const Facts& facts, const Actor& actor) {
    const auto& makers = facts.change.makers;
    return std::any_of(makers.begin(), makers.end(),
                       [&](const Maker& maker) { return maker.sponsor && isSame(*maker.sponsor, actor); });
}

/// Whatever its age.
bool suits(const GateInput& input, const ConsentDemand& demand, const ApprovalFact& approval) {
    if (!whyItDoesNotCount(input.facts, approval).empty()) return false;
    if (!demand.role.empty() && !contains(approval.roles, demand.role)) return false;
    if (demand.notSponsor && isSponsor(input.facts, approval.by)) return false;
    return !(demand.notPromoter && isSame(approval.by, input.facts.promoter));
}

struct Latest {
    std::string name;
    Time lapse = Time::min();
    bool counts = false;
};

std::string expiredText(const Consent& consent) {
    return consent.expired.empty() ? std::string() : fmt::format(" (expired: {})", listText(consent.expired));
}

std::string whyOtherSubject(const Facts& facts, const Subject& subject) {
    if (subject.change != facts.change.id || subject.revision != facts.change.revision)
        return "is for another revision";
    if (subject.rules != facts.rules) return "was given under other rules";
    if (subject.base != facts.base) return "was given when the stage held another tree";
    if (subject.evidence && (!facts.checked || facts.checked->evidence != *subject.evidence))
        return "was given on other evidence";
    return {};
}

}  // namespace

bool isMaker(const Facts& facts, const Actor& actor) {
    const auto& makers = facts.change.makers;
    return std::any_of(makers.begin(), makers.end(), [&](const Maker& maker) { return isSame(maker.actor, actor); });
}

bool isByPeople(const Facts& facts) {
    const auto& makers = facts.change.makers;
    return facts.promoter.kind == ActorKind::kPerson && !makers.empty() &&
           std::all_of(makers.begin(), makers.end(),
                       [](const Maker& maker) { return maker.actor.kind == ActorKind::kPerson; });
}

std::string whyItDoesNotCount(const Facts& facts, const ApprovalFact& approval) {
    if (approval.by.kind != ActorKind::kPerson) return "comes from a machine";
    if (isMaker(facts, approval.by)) return "comes from who made the change";
    if (approval.usedBy && *approval.usedBy != facts.promotion) return fmt::format("was used by p{}", *approval.usedBy);
    return whyOtherSubject(facts, approval.subject);
}

Consent consentTo(const GateInput& input, const ConsentDemand& demand) {
    Consent consent;
    std::map<std::string, Latest> lapses;  // of each person's latest
    for (const ApprovalFact& approval : input.facts.approvals) {
        if (!suits(input, demand, approval)) continue;
        const Time until = approval.at + demand.expires;
        // A clock that was set back makes nothing young again.
        const bool isExpired = std::max(input.now, approval.known) >= until;
        consent.uses.push_back({approval.id, until, isExpired});
        Latest& latest = lapses.try_emplace(actorKey(approval.by.name), Latest{approval.by.name}).first->second;
        latest.counts = latest.counts || !isExpired;
        if (!isExpired) latest.lapse = std::max(latest.lapse, until);
    }
    std::vector<Time> latestFirst;
    for (const auto& [key, latest] : lapses) {
        (latest.counts ? consent.people : consent.expired).push_back(latest.name);
        if (latest.counts) latestFirst.push_back(latest.lapse);
    }
    const auto needed = static_cast<std::size_t>(demand.count);
    consent.isEnough = latestFirst.size() >= needed;
    std::sort(latestFirst.rbegin(), latestFirst.rend());
    if (consent.isEnough && needed > 0) consent.lapses = latestFirst[needed - 1];
    return consent;
}

std::string whoMayConsent(const ConsentDemand& demand) {
    std::string text =
        demand.role.empty() ? "any person but the author" : "role " + demand.role + ", but not the author";
    if (demand.notSponsor) text += ", not the sponsor";
    if (demand.notPromoter) text += ", not the promoter";
    return text;
}

GateAnswer consentGate(const GateInput& input, Gate gate, const std::string& reason, const std::string& rule,
                       std::string_view asked) {
    const Consent consent = consentTo(input, {});
    GateAnswer answer = consent.isEnough
                            ? open(gate, fmt::format("{}; {} consented", reason, listText(consent.people)), rule)
                            : closed(gate, fmt::format("{}{}{}", reason, asked, expiredText(consent)), rule);
    answer.uses = consent.uses;
    answer.next = consent.lapses;
    if (consent.isEnough) return answer;
    answer.since = input.facts.openedAt;
    answer.unblock = {whoMayConsent({})};
    answer.needsPerson = true;
    return answer;
}

GateAnswer personGate(const GateInput& input, Gate gate, const std::string& reason, const std::string& rule) {
    if (isByPeople(input.facts)) return open(gate, reason + "; people made and promote it", rule);
    return consentGate(input, gate, reason, rule, ": needs a person");
}

}  // namespace gradus
