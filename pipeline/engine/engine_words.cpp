#include <algorithm>
#include <thread>

#include "pipeline/engine/drive.h"
#include "pipeline/engine/gather_facts.h"
#include "pipeline/engine/ground.h"
#include "pipeline/engine/person.h"
#include "pipeline/engine/queue.h"
#include "pipeline/engine/word_facts.h"
#include "policies/gate/consent.h"
#include "stages/changes/source_tree.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

using State = PromotionState;

constexpr Milliseconds kLookAgain{1000};
constexpr int kMostTries = 50;
constexpr Milliseconds kBetweenTries{10};

std::optional<Promotion> waitingIn(const Records& records, std::int64_t change, const std::string& stage) {
    for (const Promotion& promotion : records.unfinishedOf(change))
        if (promotion.stage == stage && promotion.state == State::kWaiting) return promotion;
    return std::nullopt;
}

std::vector<std::string> askedOf(const Decision& decision) {
    std::vector<std::string> reasons;
    for (const GateAnswer& answer : decision.gates)
        if (answer.needsPerson) reasons.push_back(answer.reason);
    return reasons;
}

std::string whoCould(const Decision& decision) {
    std::string text;
    for (const GateAnswer& answer : decision.gates)
        if (answer.needsPerson)
            for (const std::string& who : answer.unblock) text += (text.empty() ? "" : "; ") + who;
    return text;
}

/// When to look again; nothing: only people or work open it.
std::optional<Time> opensAt(const StageReport& report, Time now) {
    if (isUnderWay(report.promotion.state) && !report.gates) return now + kLookAgain;
    if (report.promotion.state != State::kWaiting || !report.gates) return std::nullopt;
    std::optional<Time> latest;
    for (const GateAnswer& answer : report.gates->gates) {
        if (answer.state != GateState::kClosed || answer.instead) continue;
        if (!answer.next && answer.gate != Gate::kQueue) return std::nullopt;
        latest = std::max(latest.value_or(now), answer.next.value_or(now + kLookAgain));
    }
    // No gate is closed: somebody else was at work on the target.
    return latest.value_or(now + kLookAgain);
}

}  // namespace

std::optional<DirectoryReader> Ground::reader() const {
    if (held) return std::optional<DirectoryReader>(std::in_place, held->directory);
    if (seed) return std::optional<DirectoryReader>(std::in_place, seed->directory);
    return std::nullopt;
}

Ground groundOf(const EngineProject& project, const EngineParts& parts, const Stage& stage, std::int64_t change) {
    const Records& records = parts.store.records();
    const auto row = records.change(change);
    if (!row) throw Error(ErrorCode::kNotFound, "there is no change c{}", change);
    Ground ground{.change = *row};
    if (records.stageState(project.id, stage.name).stuck) return ground;
    const auto driver = parts.driver(stage, {});
    requireTarget(project, records, stage, *driver);
    ground.held = driver->held();
    requireThere(project, records, stage, ground.held.has_value());
    if (!ground.held) ground.seed = parts.seed(*row);
    ground.base = ground.held ? ground.held->digest : ground.seed->digest;
    const DirectoryReader whole(ground.held ? ground.held->directory : ground.seed->directory);
    const std::vector<std::string> built = ground.held ? ground.held->outputs : std::vector<std::string>();
    ground.merge = putOnto(PartialReader(whole, built), project, parts, *row);
    return ground;
}

Standing Engine::standing(std::int64_t change, const std::string& name) {
    const Stage& stage = stageNamed(project_, name);
    const Records& records = parts_.store.records();
    const Ground ground = groundOf(project_, parts_, stage, change);
    Standing standing{.change = ground.change, .stage = name, .base = ground.base};
    standing.mergedPaths = ground.merge.mergedPaths;
    standing.mergeConflicts = ground.merge.conflicts;
    standing.waiting = waitingIn(records, change, name);
    FactsRequest request{project_,
                         sourcesNow(parts_),
                         stage,
                         ground.change,
                         ground.merge.merged,
                         standing.waiting ? standing.waiting->id : 0,
                         ground.base,
                         standing.waiting
                             ? provenFor(*standing.waiting, ground.change.revision, ground.base, project_.rules)
                             : std::nullopt};
    const auto there = ground.reader();
    request.there = there ? &*there : nullptr;
    standing.facts = gatherFacts(request);
    if (hasTarget(parts_, stage)) addQueue(request, parts_.zones(project_.pipeline), standing.facts);
    // Whoever asks is not always who promotes.
    if (standing.waiting)
        standing.facts.promoter = records.movedBy(standing.waiting->id).value_or(Actor{ActorKind::kAgent, ""});
    standing.gates = decideOn(stage, standing.facts);
    return standing;
}

Decision Engine::decideOn(const Stage& stage, const Facts& facts) const {
    return decide(facts, stage, project_.pipeline, parts_.zones(project_.pipeline), parts_.clock.now());
}

std::vector<std::string> Engine::rolesOf(const Actor& actor) const {
    return rolesHeld(project_.pipeline, actor.name, parts_.systemGroups(actor));
}

ApprovalGiven Engine::approve(std::int64_t change, const std::string& name, const std::string& reason, bool onlyTry) {
    requirePerson(parts_.actor, "approve");
    const Stage& stage = stageNamed(project_, name);
    Standing now = standing(change, name);
    const std::string handle = fmt::format("{}.{}", changeHandle(change), now.change.revision);
    if (!now.mergedPaths.empty() || !now.mergeConflicts.empty())
        throw Error(ErrorCode::kNotAllowed, "{} does not fit what {} holds as it is", handle, name)
            .hint(fmt::format("promote it first: gradus promote {} --to {}", changeHandle(change), name));
    // Before anybody promotes it: whoever made it is the one of whom most is asked.
    if (!now.waiting && !now.facts.change.makers.empty()) now.facts.promoter = now.facts.change.makers.back().actor;
    const Decision before = decideOn(stage, now.facts);
    Approval approval{.project = project_.id,
                      .change = change,
                      .revision = now.change.revision,
                      .stage = name,
                      .rules = project_.rules,
                      .base = now.base,
                      .roles = rolesOf(parts_.actor),
                      .reason = reason,
                      .given = parts_.clock.moment()};
    if (now.facts.checked) approval.evidence = now.facts.checked->evidence;
    ApprovalFact fact = approvalFact(parts_.store.records(), approval);
    fact.by = parts_.actor;
    fact.at = parts_.clock.now();
    if (const std::string why = whyItDoesNotCount(now.facts, fact); !why.empty())
        throw Error(ErrorCode::kNotAllowed, "an approval of {} by {} does not count: it {}", handle, parts_.actor.name,
                    why)
            .hint("it takes " + whoCould(before));
    now.facts.approvals.push_back(fact);
    now.gates = decideOn(stage, now.facts);
    if (!askedOf(before).empty() && askedOf(before) == askedOf(now.gates))
        throw Error(ErrorCode::kNotAllowed, "{} asks for the consent of others than {}", name, parts_.actor.name)
            .hint("it takes " + whoCould(before));
    if (!onlyTry)
        parts_.store.write([&](Writer& writer) {
            approval.id = WordWriter(writer, writer.actor(parts_.actor), parts_.uid).approve(approval);
        });
    return {approval, std::move(now)};
}

std::size_t Engine::withdraw(std::int64_t change, const std::string& stage) {
    const Records& records = parts_.store.records();
    std::vector<Approval> own;
    for (const Approval& approval : records.words().approvals(change, stageNamed(project_, stage).name))
        if (!approval.usedBy && records.actor(approval.by) == parts_.actor) own.push_back(approval);
    if (own.empty())
        throw Error(ErrorCode::kNotFound, "{} has given no approval of {} in {} that can be taken back",
                    parts_.actor.name, changeHandle(change), stage);
    parts_.store.write([&](Writer& writer) {
        WordWriter words(writer, writer.actor(parts_.actor), parts_.uid);
        for (const Approval& approval : own) words.withdraw(approval);
    });
    return own.size();
}

std::optional<Promotion> Engine::reject(std::int64_t change, const std::string& stage, const std::string& reason) {
    requirePerson(parts_.actor, "reject");
    stageNamed(project_, stage);
    const Records& records = parts_.store.records();
    const auto row = records.change(change);
    if (!row) throw Error(ErrorCode::kNotFound, "there is no change c{}", change);
    // A process that has just parked it lets go of it soon. One that goes on with it asks for rejections in each
    // transaction that moves it, up to the one that promotes it.
    std::optional<SandboxLock> lock;
    auto waiting = waitingIn(records, change, stage);
    for (int i = 0; waiting && i < kMostTries; ++i, waiting = waitingIn(records, change, stage)) {
        if (auto taken = SandboxLock::attempt(drivingLock(parts_.state, waiting->id))) {
            lock.emplace(std::move(*taken));
            break;
        }
        std::this_thread::sleep_for(kBetweenTries);
    }
    waiting = waitingIn(records, change, stage);
    parts_.store.write([&](Writer& writer) {
        const ActorId actor = writer.actor(parts_.actor);
        if (lock && waiting)
            writer.movePromotion(
                {.promotion = waiting->id,
                 .from = State::kWaiting,
                 .to = State::kRejected,
                 .cause = Cause::kCancelled,
                 .reason = fmt::format("{} said no{}", parts_.actor.name, reason.empty() ? "" : ": " + reason)},
                actor);
        WordWriter(writer, actor, parts_.uid)
            .reject(
                {change, row->revision, stage, lock && waiting ? std::optional(waiting->id) : std::nullopt, reason});
    });
    if (lock && waiting) {
        lock->removeFile();
        return find(waiting->id);
    }
    for (const Promotion& promotion : records.unfinishedOf(change))
        if (promotion.stage == stage && !promotion.undoes) return promotion;
    return std::nullopt;
}

bool Engine::awaitOpening(const StageReport& report, Milliseconds& patience, const EngineProgress& progress,
                          const std::stop_token& cancel) {
    const auto next = opensAt(report, parts_.clock.now());
    if (!next || patience <= Milliseconds(0) || cancel.stop_requested()) return false;
    progress.waiting(report, *next);
    // Counted by what was slept, so that a clock that jumps neither shortens nor prolongs it.
    while (patience > Milliseconds(0) && parts_.clock.now() < *next) {
        const Milliseconds pause =
            std::min({kLookAgain, patience, std::max(*next - parts_.clock.now(), Milliseconds(1))});
        parts_.sleep(pause, cancel);
        patience -= pause;
        if (cancel.stop_requested()) return false;
        expire();
        // Whoever comes next judges it by what is in force now.
        if (areOutdated(project_, parts_.store.records())) return false;
        // Somebody else may have brought it on, or to an end: what came of it is looked at.
        if (isFinal(find(report.promotion.id)->state)) return find(report.promotion.id)->state == State::kPromoted;
    }
    return parts_.clock.now() >= *next;
}

}  // namespace gradus
