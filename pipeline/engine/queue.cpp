#include "pipeline/engine/queue.h"

#include <algorithm>

#include "pipeline/engine/ground.h"

namespace gradus {

namespace {

using State = PromotionState;

constexpr Milliseconds kDefaultWait = std::chrono::hours(24 * 30);

bool isShut(const GateAnswer& answer) { return answer.state == GateState::kClosed && !answer.instead; }

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
                     provenFor(promotion, change->revision, request.base, request.project.rules)});
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

std::int64_t placeOf(const Records& records, const Promotion& promotion) {
    std::int64_t place = promotion.id;
    const auto all = records.promotionsOf(promotion.change);
    for (auto other = all.rbegin(); other != all.rend(); ++other) {
        if (other->id >= place || other->stage != promotion.stage || other->undoes) continue;
        if (other->state != State::kSuperseded) break;
        place = other->id;
    }
    return place;
}

std::vector<Promotion> lineOf(const Records& records, std::int64_t project, const std::string& stage) {
    std::vector<std::pair<std::int64_t, Promotion>> line;
    for (const Promotion& promotion : records.unfinished(project))
        if (promotion.stage == stage && !promotion.undoes)
            line.emplace_back(isUnderWay(promotion.state) ? 0 : placeOf(records, promotion), promotion);
    std::stable_sort(line.begin(), line.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Promotion> promotions;
    for (auto& [place, promotion] : line) promotions.push_back(std::move(promotion));
    return promotions;
}

bool isReady(const Decision& decision) { return std::none_of(decision.gates.begin(), decision.gates.end(), isShut); }

bool waitsForItsTurn(const Decision& decision) {
    // People are asked last, about what the checks proved: whether a yes counts is not known before its turn.
    const auto isElse = [](const GateAnswer& answer) {
        return isShut(answer) && !answer.needsPerson && answer.gate != Gate::kQueue;
    };
    return isShut(decision.at(Gate::kQueue)) && std::none_of(decision.gates.begin(), decision.gates.end(), isElse);
}

void addQueue(const FactsRequest& request, const Zones& zones, Facts& facts) {
    const Records& records = request.sources.records;
    const auto own = records.promotion(request.promotion);
    const std::int64_t place = own ? placeOf(records, *own) : std::numeric_limits<std::int64_t>::max();
    for (const Promotion& other : records.unfinished(request.project.id)) {
        if (other.stage != request.stage.name || other.id == request.promotion) continue;
        const bool isLineage = other.change == request.change.id && !other.undoes;
        if (isLineage && other.revision > request.change.revision) facts.newer = queuedFact(other);
        if (isUnderWay(other.state)) {
            if (isBefore(other, own)) facts.ahead.push_back(queuedFact(other));
        } else if (!isLineage && !(own && isUnderWay(own->state)) && placeOf(records, other) < place &&
                   isReadyThere(other, request, zones)) {
            facts.ahead.push_back(queuedFact(other));
        }
    }
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
