#include "pipeline/engine/queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "pipeline/engine/ground.h"

namespace gradus {

namespace {

using State = PromotionState;

constexpr Milliseconds kDefaultWait = std::chrono::hours(24 * 30);

// The gate names fewer, and that there are others.
constexpr std::size_t kMostTold = 4;

bool isShut(const GateAnswer& answer) { return answer.state == GateState::kClosed && !answer.instead; }

// People are asked last, about what the checks proved: whether a yes counts is not known before its turn.
bool isShutInItsTurn(const GateAnswer& answer) {
    return isShut(answer) && !answer.needsPerson && answer.gate != Gate::kQueue;
}

QueuedFact queuedFact(const Promotion& promotion) {
    return {promotion.id, promotion.change, promotion.revision, promotion.openedAt};
}

/// As far as it can be told without looking at the tree: what a merge would say is found when it is driven.
bool isReadyThere(const Promotion& promotion, const FactsRequest& request, const Zones& zones) {
    const Records& records = request.sources.records;
    // Whoever drives it brings in the newest revision.
    const auto change = records.change(promotion.change);
    if (!change || !request.sources.objects.contains(change->changeSet)) return false;
    const ChangeSet changes = readChanges(request.sources.objects, change->changeSet);
    FactSources sources = request.sources;
    sources.promoter = records.movedBy(promotion.id).value_or(Actor{ActorKind::kAgent, ""});
    const Facts facts =
        gatherFacts({request.project, sources, request.stage, *change, changes, promotion.id, request.base,
                     provenFor(promotion, change->revision, request.base, request.project.rules), request.there});
    return isReady(decide(facts, request.stage, request.project.pipeline, zones, sources.now));
}

/// One that has its turn keeps it; of two that took it in the same instant the older one does.
bool isBefore(const Promotion& other, const std::optional<Promotion>& own) {
    if (!own || !isUnderWay(own->state)) return true;
    return other.state != State::kChecking || other.id < own->id;
}

}  // namespace

std::optional<CheckedFact> provenFor(const Promotion& promotion, std::int64_t revision, const Digest& base,
                                     const Digest& rules) {
    if (!promotion.evidence || promotion.base != base || promotion.rules != rules || promotion.revision != revision)
        return std::nullopt;
    return CheckedFact{*promotion.evidence, rules, promotion.movedAt};
}

bool isUnderWay(State state) { return !isFinal(state) && state != State::kQueued && state != State::kWaiting; }

std::vector<Promotion> lineOf(const Records& records, std::int64_t project, const std::string& stage) {
    std::vector<Promotion> line;
    for (Promotion& promotion : records.atWork(project, stage))
        if (!promotion.undoes) line.push_back(std::move(promotion));
    walkLine(records, project, stage, [&](const Promotion& promotion) {
        line.push_back(promotion);
        return false;
    });
    return line;
}

void walkLine(const Records& records, std::int64_t project, const std::string& stage,
              const std::function<bool(const Promotion&)>& visit) {
    constexpr std::int64_t kAtOnce = 16;
    std::int64_t from = 0;
    while (true) {
        const auto some = records.waitingIn(project, stage, from, kAtOnce);
        for (const Promotion& promotion : some)
            if (visit(promotion)) return;
        if (std::cmp_less(some.size(), kAtOnce)) return;
        from = some.back().place + 1;
    }
}

bool isReady(const Decision& decision) { return std::none_of(decision.gates.begin(), decision.gates.end(), isShut); }

bool waitsForItsTurn(const Decision& decision) {
    return isShut(decision.at(Gate::kQueue)) &&
           std::none_of(decision.gates.begin(), decision.gates.end(), isShutInItsTurn);
}

void addQueue(const FactsRequest& request, const Zones& zones, Facts& facts) {
    const Records& records = request.sources.records;
    const std::string& stage = request.stage.name;
    const auto own = records.promotion(request.promotion);
    for (const Promotion& other : records.unfinishedOf(request.change.id))
        if (other.stage == stage && other.id != request.promotion && !other.undoes &&
            other.revision > request.change.revision)
            facts.newer = queuedFact(other);
    for (const Promotion& other : records.atWork(request.project.id, stage))
        if (isUnderWay(other.state) && other.id != request.promotion && isBefore(other, own))
            facts.ahead.push_back(queuedFact(other));
    // Whoever has its turn keeps it; and who could not go in on its turn need not know whose turn it is.
    if (own && isUnderWay(own->state)) return;
    const Decision alone = decide(facts, request.stage, request.project.pipeline, zones, request.sources.now);
    if (std::any_of(alone.gates.begin(), alone.gates.end(), isShutInItsTurn)) return;
    const std::int64_t place = own ? own->place : std::numeric_limits<std::int64_t>::max();
    walkLine(records, request.project.id, stage, [&](const Promotion& other) {
        if (other.place >= place || facts.ahead.size() >= kMostTold) return true;
        if (other.change != request.change.id && isReadyThere(other, request, zones))
            facts.ahead.push_back(queuedFact(other));
        return false;
    });
}

Milliseconds waited(const Promotion& promotion, const Moment& now) { return elapsed(promotion.opened, now); }

Time expiresAt(const Promotion& promotion, Milliseconds limit, const Moment& now) {
    return now.at + (limit - waited(promotion, now));
}

Milliseconds waitLimit(const Pipeline& pipeline, const std::string& stage) {
    const Stage* known = pipeline.findStage(stage);
    return known != nullptr ? known->policy.settings.duration("wait-limit") : kDefaultWait;
}

}  // namespace gradus
