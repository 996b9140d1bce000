#include "pipeline/engine/engine.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "pipeline/engine/by_hand.h"
#include "pipeline/engine/drive.h"
#include "pipeline/engine/gather_facts.h"
#include "pipeline/engine/ground.h"
#include "pipeline/engine/person.h"
#include "pipeline/engine/queue.h"
#include "pipeline/engine/step_words.h"
#include "pipeline/engine/verified.h"
#include "pipeline/engine/way_back.h"
#include "stages/sandbox/owner.h"
#include "store/adoption_records.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

std::string stageNames(const EngineProject& project) {
    std::string known;
    for (const Stage& stage : project.pipeline.stages) known += (known.empty() ? "" : ", ") + stage.name;
    return known;
}

const Stage& stageNamed(const EngineProject& project, const std::string& name) {
    if (const Stage* stage = project.pipeline.findStage(name)) return *stage;
    throw Error(ErrorCode::kNotFound, "there is no stage '{}'", name).hint("stages here: " + stageNames(project));
}

namespace {

using State = PromotionState;

constexpr std::chrono::seconds kPatienceWithCancelled{10};
constexpr Milliseconds kBetweenGlances{20};

Promotion promotionOf(const Records& records, std::int64_t id) {
    if (const auto promotion = records.promotion(id)) return *promotion;
    throw Error(ErrorCode::kNotFound, "there is no promotion p{}", id).hint("see `gradus status`");
}

// Something is there if it can be taken, or if only a person can tell what it is.
bool isGone(const StageDriver& driver, const StageState& state) {
    if (!state.promotion && !state.tree && !state.stuck) return false;
    try {
        return !driver.shown().has_value();
    } catch (const Error&) {
        return false;
    }
}

/// Nobody drives it, and it has begun to touch its target.
void requireNotHalfWay(const Promotion& promotion) {
    if (!promotion.checkpoint || !isUnderWay(promotion.state)) return;
    throw Error(ErrorCode::kBusy, "{} stands at {} in {}", promotionHandle(promotion.id),
                nameOf(kPromotionStates, promotion.state), promotion.stage)
        .hint("gradus recover brings it to its end: on, or back; look again then");
}

void requireStanding(const Records& records, const StageState& holds, const Promotion& promotion) {
    if (promotion.state == State::kStuck) {
        if (holds.stuck == promotion.id) return;
        throw Error(ErrorCode::kNotAllowed, "{} is not stuck by {} any more", promotion.stage,
                    promotionHandle(promotion.id))
            .hint("see `gradus status`");
    }
    if (promotion.undoes)
        throw Error(ErrorCode::kNotAllowed, "{} took something back, and that is not taken back itself",
                    promotionHandle(promotion.id))
            .hint("promote the change again: gradus promote " + changeHandle(promotion.change));
    if (promotion.state == State::kVerifying || promotion.state == State::kSoaking) return;
    requireNotHalfWay(promotion);
    if (promotion.state != State::kPromoted || !promotion.checkpoint)
        throw Error(ErrorCode::kNotAllowed, "{} is {}: there is nothing to take back", promotionHandle(promotion.id),
                    nameOf(kPromotionStates, promotion.state));
    requireNotClosedTo(records, holds, promotion);
    if (isWhatStands(records, holds, promotion.id)) return;
    if (!holds.promotion && !holds.tree)
        throw Error(ErrorCode::kNotAllowed, "{} was taken back: {} holds nothing", promotionHandle(promotion.id),
                    promotion.stage)
            .hint("see `gradus status`");
    throw Error(ErrorCode::kNotAllowed, "{} came into {} after {}: take that back first",
                holds.promotion ? promotionHandle(*holds.promotion) : "something else", promotion.stage,
                promotionHandle(promotion.id))
        .hint(holds.promotion ? fmt::format("gradus rollback {}", promotionHandle(*holds.promotion))
                              : "see `gradus status`");
}

bool isParked(const Promotion& promotion) { return promotion.state == State::kWaiting; }

// Whoever wants to say what a stage holds has looked at it: nobody may be half-way into it, then or since.
void requireStill(const Records& records, std::int64_t project, const std::string& name, const StageState& seen) {
    for (const Promotion& other : records.atWork(project, name)) requireNotHalfWay(other);
    const StageState now = records.stageState(project, name);
    if (now.promotion != seen.promotion || now.tree != seen.tree || now.stuck != seen.stuck)
        throw Error(ErrorCode::kBusy, "{} holds something else than when you looked", name)
            .hint("gradus status says what; look again");
}

}  // namespace

Engine::Engine(EngineProject project, EngineParts parts) : project_(std::move(project)), parts_(std::move(parts)) {}
Engine::~Engine() = default;

StageReport Engine::enter(std::int64_t change, const std::string& stage, PromoteWish& wish,
                          const EngineProgress& progress, std::stop_token cancel) {
    if (!wish.recheck || wish.rechecked.contains(stage))
        if (const auto there = stillIn(change, stageNamed(project_, stage))) {
            endWaiting(*there);
            return {.promotion = *there, .already = true};
        }
    if (auto other = drivenElsewhere(change, stage)) return std::move(*other);
    Drive drive(project_, parts_, stageNamed(project_, stage), progress, std::move(cancel));
    drive.mayOverride(wish.overrides);
    if (!wish.goal.empty()) drive.aimAt(wish.goal);
    if (wish.promoter) drive.actFor(*wish.promoter);
    if (wish.recheck) drive.askAll();
    StageReport report = drive.enter(change);
    if (report.promotion.state != State::kWaiting) wish.rechecked.insert(stage);
    return report;
}

// People switch branches, and tidy up. What is not there any more comes in again; what was edited since is theirs.
std::optional<Promotion> Engine::stillIn(std::int64_t change, const Stage& stage) {
    auto there = standingIn(project_, parts_.store.records(), change, stage.name);
    if (!there || !there->checkpoint) return there;
    const auto driver = parts_.driver(stage, {});
    if (!driver->identity().isNamedBy(*there->target)) return std::nullopt;
    const auto shown = driver->shown();
    if (!shown || driver->foreignTree()) return std::nullopt;
    const auto row = parts_.store.records().change(change);
    const ChangeSet wanted = readChanges(parts_.objects, row->changeSet);
    const MergeResult merge = mergeOnto(wanted, DirectoryReader(*shown), parts_.objects);
    return merge.conflicts.empty() && !merge.merged.empty() ? std::nullopt : there;
}

StageReport Engine::entered(std::int64_t change, const std::string& stage, PromoteWish& wish,
                            std::vector<StageReport>& others, const EngineProgress& progress,
                            const std::stop_token& cancel) {
    const auto earlier = parts_.store.records().promotionsOf(change);
    try {
        return enterInTurn(change, stage, wish, others, progress, cancel);
    } catch (const Error& e) {
        // What was done in the stages before stays done, and is told.
        return faultIn(change, stage, earlier.empty() ? 0 : earlier.back().id, e);
    }
}

Climb Engine::climbOnce(std::int64_t change, const std::string& to, PromoteWish& wish, const EngineProgress& progress,
                        const std::stop_token& cancel) {
    Climb climb{change, {}, {}};
    for (const Stage& stage : project_.pipeline.stages) {
        climb.stages.push_back(entered(change, stage.name, wish, climb.others, progress, cancel));
        if (!climb.stages.back().succeeded() || stage.name == to) break;
    }
    return climb;
}

StageReport Engine::faultIn(std::int64_t change, const std::string& stage, std::int64_t before,
                            const Error& fault) const {
    StageReport report{.reason = fault.what(), .fault = fault};
    report.promotion.change = change;
    report.promotion.stage = stage;
    for (const Promotion& promotion : parts_.store.records().promotionsOf(change))
        if (promotion.stage == stage && (promotion.id > before || promotion.state == State::kWaiting))
            report.promotion = promotion;
    if (report.promotion.id == 0)
        if (const auto row = parts_.store.records().change(change)) report.promotion.revision = row->revision;
    return report;
}

Climb Engine::promote(std::int64_t change, const std::string& to, const EngineProgress& progress,
                      const std::stop_token& cancel, PromoteWish wish) {
    stageNamed(project_, to);
    requireNewestState(project_, parts_);
    wish.goal = to;
    Milliseconds patience = wish.patience.value_or(Milliseconds(0));
    std::vector<StageReport> others;
    while (true) {
        expire();
        Climb climb = climbOnce(change, to, wish, progress, cancel);
        others.insert(others.end(), climb.others.begin(), climb.others.end());
        if (climb.succeeded() || climb.stages.back().fault ||
            !awaitOpening(climb.stages.back(), patience, progress, cancel)) {
            for (StageReport& report : climb.stages) update(report);
            climb.others = std::move(others);
            return climb;
        }
        // Whoever was before it may have died meanwhile.
        if (needRecovery(parts_.store.records(), parts_.state, project_) > 0) recover(progress, cancel);
    }
}

// It may have come to an end while it was waited for.
void Engine::update(StageReport& report) const {
    if (report.promotion.id == 0) return;
    const State before = std::exchange(report.promotion, *find(report.promotion.id)).state;
    if (report.promotion.state != before)
        report.reason = parts_.store.records().lastReason(report.promotion.id).value_or("");
}

std::optional<Conflict> Engine::strayed(const std::string& name) {
    const Stage& stage = stageNamed(project_, name);
    const auto driver = parts_.driver(stage, {});
    const auto there = driver->holdsOnlyOurs() ? driver->held() : std::nullopt;
    return there ? strayedFrom(project_, parts_.store.records(), stage, *driver, *there) : std::nullopt;
}

std::vector<StagePlan> Engine::plan(std::int64_t change, const std::string& to) {
    stageNamed(project_, to);
    std::vector<StagePlan> plans;
    for (const Stage& stage : project_.pipeline.stages) {
        const Ground ground = groundOf(project_, parts_, stage, change);
        StagePlan plan{.stage = stage.name};
        plan.already = stillIn(change, stage).has_value();
        plan.seeds = ground.seed.has_value();
        plan.changes = ground.merge.merged;
        plan.mergedPaths = ground.merge.mergedPaths;
        plan.mergeConflicts = ground.merge.conflicts;
        StageChange entering;
        entering.changes = ground.merge.merged;
        if (ground.seed) entering.seed = ground.seed->directory;
        if (plan.mergeConflicts.empty()) plan.conflicts = parts_.driver(stage, {})->conflicts(entering);
        if (auto other = strayed(stage.name)) plan.conflicts.insert(plan.conflicts.begin(), std::move(*other));
        plan.checks = stage.checks;
        plan.steps = stage.steps;
        for (const std::string& check : stage.carriesOutputs ? stage.checks : std::vector<std::string>())
            if (auto built = project_.pipeline.checks.at(check).settings.list("outputs"); !built.empty())
                plan.outputs.emplace(check, std::move(built));
        FactsRequest request{project_, sourcesNow(parts_), stage,       ground.change, ground.merge.merged,
                             0,        ground.base,        std::nullopt};
        const auto there = ground.reader();
        request.there = there ? &*there : nullptr;
        Facts facts = gatherFacts(request);
        if (hasTarget(parts_, stage)) addQueue(request, parts_.zones(project_.pipeline), facts);
        plan.gates = decide(facts, stage, project_.pipeline, parts_.zones(project_.pipeline), parts_.clock.now());
        plans.push_back(std::move(plan));
        if (stage.name == to) break;
    }
    return plans;
}

void Engine::requireUndriven(const Promotion& promotion) const {
    if (isFinal(promotion.state) || !SandboxLock::holder(drivingLock(parts_.state, promotion.id))) return;
    const std::string id = promotionHandle(promotion.id);
    throw Error(ErrorCode::kBusy, "{} is {} in {}, and another process drives it", id,
                nameOf(kPromotionStates, promotion.state), promotion.stage)
        .hint(fmt::format("wait for it, or end it with `gradus cancel {}`: what it touched is restored", id));
}

void Engine::requireTakeable(const Promotion& promotion, const UndoWish& wish) const {
    requireUndriven(promotion);
    const Records& records = parts_.store.records();
    requireStanding(records, records.stageState(project_.id, promotion.stage), promotion);
    const bool isAWayBack = promotion.state == State::kStuck && promotion.undoes;
    const Promotion taken = isAWayBack ? promotionOf(records, *promotion.undoes) : promotion;
    requireStepsTakeable(parts_, taken, wish, promotion.id);
    const auto driver = parts_.driver(stageNamed(project_, promotion.stage), {});
    requireTargetOf(taken, *driver);
    TargetLock::requireOurs(driver->identity(), claimOf(project_, parts_, promotion.stage));
    if (promotion.state == State::kPromoted && taken.checkpoint) requireWayBack(*driver, parts_.objects, taken);
    requireUnobstructed(*driver, parts_.objects, taken);
    requireRestTakeable(parts_, *driver, promotion, wish);
}

std::vector<Promotion> Engine::goesWith(const Promotion& promotion) const {
    return gradus::goesWith(parts_.store.records(), promotion);
}

std::optional<HeldTree> Engine::heldIn(const std::string& stage) const {
    return parts_.driver(stageNamed(project_, stage), {})->held();
}

StageReport Engine::rollBack(std::int64_t id, const EngineProgress& progress, const std::stop_token& cancel,
                             const UndoWish& wish) {
    const Promotion promotion = promotionOf(parts_.store.records(), id);
    const Stage& stage = stageNamed(project_, promotion.stage);
    requireNewestState(project_, parts_);
    requireTakeable(promotion, wish);
    StageReport report = rollBackOne(promotion, progress, cancel, wish);
    if (report.isOut()) takeOutRest(project_, parts_, stage, promotion, std::nullopt, wish, progress, report);
    return report;
}

StageReport Engine::rollBackOne(const Promotion& promotion, const EngineProgress& progress,
                                const std::stop_token& cancel, const UndoWish& wish) {
    if (promotion.state == State::kStuck) return freeStage(promotion, progress, cancel, wish);
    Drive drive(project_, parts_, stageNamed(project_, promotion.stage), progress, cancel);
    if (promotion.state == State::kVerifying || promotion.state == State::kSoaking)
        return drive.giveUp(promotion, "a person took it back", wish);
    return drive.undo(promotion, std::nullopt, wish);
}

// The way back that failed is gone again, by a row of its own: an end stays one.
StageReport Engine::freeStage(const Promotion& stuck, const EngineProgress& progress, const std::stop_token& cancel,
                              const UndoWish& wish) {
    const Promotion undone = stuck.undoes ? promotionOf(parts_.store.records(), *stuck.undoes) : stuck;
    Drive drive(project_, parts_, stageNamed(project_, stuck.stage), progress, cancel);
    return drive.undo(undone, std::nullopt, wish);
}

std::vector<Recovered> Engine::recover(const EngineProgress& progress, const std::stop_token& cancel) {
    std::vector<Recovered> all;
    // What an old copy of the state knows as half-way was brought to its end since.
    if (!parts_.store.records().atWork(project_.id).empty()) requireNewestState(project_, parts_);
    for (const Promotion& promotion : parts_.store.records().atWork(project_.id)) {
        try {
            if (auto report = recoverOne(promotion, progress, cancel)) all.push_back({promotion, std::move(*report)});
        } catch (const Error& e) {
            all.push_back({promotion, {.promotion = *find(promotion.id), .reason = e.what(), .fault = e}, e});
        }
    }
    for (const Promotion& left : parts_.store.records().leftBelow(project_.id)) {
        const Stage* stage = project_.pipeline.findStage(left.stage);
        if (stage == nullptr) continue;
        try {
            all.push_back({left, goOnOut(project_, parts_, *stage, left, progress)});
        } catch (const Error& e) {
            all.push_back({left, {.promotion = left, .reason = e.what(), .fault = e}, e});
        }
    }
    return all;
}

void Engine::tidyMarkers() {
    for (const Stage& stage : project_.pipeline.stages) {
        try {
            const TargetIdentity target = parts_.driver(stage, {})->identity();
            if (!target.marker.empty()) TargetLock::dropLeft(target, parts_.files);
        } catch (const Error&) {
            // A target that cannot be reached has nothing that could be tidied now.
            continue;
        }
    }
}

std::vector<Recovered> Engine::retryStuck(const EngineProgress& progress, const std::stop_token& cancel) {
    std::vector<Recovered> all;
    for (const Stage& stage : project_.pipeline.stages) {
        const auto stuck = parts_.store.records().stageState(project_.id, stage.name).stuck;
        if (!stuck || cancel.stop_requested()) continue;
        const Promotion promotion = promotionOf(parts_.store.records(), *stuck);
        try {
            requireTakeable(promotion);
            // Before the target is locked, which may make its directory.
            const Promotion taken =
                promotion.undoes ? promotionOf(parts_.store.records(), *promotion.undoes) : promotion;
            requireWayBack(*parts_.driver(stage, {}), parts_.objects, taken);
            all.push_back({promotion, rollBack(promotion.id, progress, cancel)});
        } catch (const Error&) {
            continue;  // it stays as it is; whoever asks is told why, and the way out
        }
    }
    return all;
}

std::optional<StageReport> Engine::recoverOne(const Promotion& promotion, const EngineProgress& progress,
                                              const std::stop_token& cancel) {
    const Stage* stage = project_.pipeline.findStage(promotion.stage);
    if (stage == nullptr)
        throw Error(ErrorCode::kNotAllowed, "{} stands at {} in stage '{}', which the rules do not have any more",
                    promotionHandle(promotion.id), nameOf(kPromotionStates, promotion.state), promotion.stage)
            .hint("bring the stage back into gradus.toml, run `gradus trust`, then `gradus recover`");
    return Drive(project_, parts_, *stage, progress, cancel).recover(promotion);
}

std::size_t needRecovery(const Records& records, const StateDirectory& state, const EngineProject& project) {
    std::size_t count = 0;
    for (const Promotion& promotion : records.atWork(project.id))
        if (!SandboxLock::holder(drivingLock(state, promotion.id)) &&
            !leftToAPerson(records, project.pipeline.findStage(promotion.stage), promotion))
            ++count;
    return count + records.leftBelow(project.id).size();
}

// Whether it still could stop is told by how it ended.
void Engine::awaitEnd(std::int64_t promotion) const {
    const auto until = std::chrono::steady_clock::now() + kPatienceWithCancelled;
    while (std::chrono::steady_clock::now() < until) {
        const Promotion now = *find(promotion);
        if (isFinal(now.state) || isParked(now)) return;
        std::this_thread::sleep_for(kBetweenGlances);
    }
}

Promotion Engine::cancel(std::int64_t id) {
    Promotion promotion = promotionOf(parts_.store.records(), id);
    if (isFinal(promotion.state))
        throw Error(ErrorCode::kNotAllowed, "{} is {} and stays so", promotionHandle(id),
                    nameOf(kPromotionStates, promotion.state));
    const auto lock = SandboxLock::attempt(drivingLock(parts_.state, id));
    if (!lock) {
        // Whoever drives it takes an interrupt for a cancellation, and cleans up as it goes.
        const auto driver = SandboxLock::holder(drivingLock(parts_.state, id));
        if (driver && ::kill(*driver, SIGINT) == 0) {
            awaitEnd(id);
            return promotion;
        }
        throw Error(ErrorCode::kBusy, "{} is driven by a process that cannot be reached", promotionHandle(id))
            .hint("stop that process");
    }
    if (!isParked(promotion))
        throw Error(ErrorCode::kNotAllowed, "{} is {} and the process that drove it is gone", promotionHandle(id),
                    nameOf(kPromotionStates, promotion.state))
            .hint("gradus recover");
    parts_.store.write([&](Writer& writer) {
        writer.movePromotion(
            {.promotion = id, .from = State::kWaiting, .to = State::kCancelled, .cause = Cause::kCancelled},
            writer.actor(parts_.actor));
    });
    lock->removeFile();
    return promotion;
}

// What is on record says what may go in and what can be taken back: only a person puts something else in its place.
void Engine::requireMayAdopt(const std::string& name, const AdoptWish& wish) const {
    if (wish.isGiven()) requirePerson(parts_.actor, "vouch for what a stage holds");
    if (parts_.actor.kind == ActorKind::kPerson) return;
    const StageState holds = parts_.store.records().stageState(project_.id, stageNamed(project_, name).name);
    if (!holds.stuck && !holds.promotion && !holds.tree) return;
    throw Error(ErrorCode::kNotAllowed, "{} {} does not adopt {}, which {}: that takes a person",
                nameOf(kActorKinds, parts_.actor.kind), parts_.actor.name, name,
                holds.stuck ? fmt::format("is closed since {} got stuck", promotionHandle(*holds.stuck))
                            : std::string("holds something on record"))
        .hint("ask a person to look at the target and to adopt it");
}

std::optional<HeldTree> Engine::takeForHeld(const Stage& stage, StageDriver& driver, const AdoptWish& wish,
                                            StageDriver::Adopting how) const {
    if (wish.nothing) return driver.vouchedFor(std::nullopt, how);
    if (wish.promotion) {
        const Promotion promotion = promotionOf(parts_.store.records(), *wish.promotion);
        if (promotion.project != project_.id || promotion.stage != stage.name || !promotion.checkpoint)
            throw Error(ErrorCode::kNotFound, "{} has brought nothing into {}", promotionHandle(promotion.id),
                        stage.name)
                .hint(fmt::format("`gradus audit timeline {}` shows what came and went", stage.name));
        requireTargetOf(promotion, driver);
        return driver.vouchedFor(driver.treeAfter(readCheckpoint(parts_.objects, promotion)), how);
    }
    const bool isNothing =
        driver.canLook() && isGone(driver, parts_.store.records().stageState(project_.id, stage.name));
    return isNothing ? std::nullopt : std::optional(driver.adopt(how));
}

Adopted Engine::adopt(const std::string& name, const AdoptWish& wish, bool onlyTry) {
    const Stage& stage = stageNamed(project_, name);
    requireNewestState(project_, parts_);
    requireMayAdopt(name, wish);
    const StageState seen = parts_.store.records().stageState(project_.id, name);
    requireStill(parts_.store.records(), project_.id, name, seen);
    const auto driver = parts_.driver(stage, {});
    TargetLock::requireOurs(driver->identity(), claimOf(project_, parts_, name));
    // Before the lock, which marks the target: one that is refused stays as it is.
    Adopted adopted{takeForHeld(stage, *driver, wish, StageDriver::Adopting::kLook), driver->canLook()};
    if (onlyTry) return adopted;
    const auto look = [&](const TargetClaim& found) { requireNoneHalfWay(project_, parts_, name, found); };
    const TargetLock lock = TargetLock::take(driver->identity(), claimOf(project_, parts_, name), parts_.files,
                                             {.patience = parts_.targetPatience, .takeOver = false, .look = look});
    requireStill(parts_.store.records(), project_.id, name, seen);
    adopted.held = takeForHeld(stage, *driver, wish, StageDriver::Adopting::kTake);
    Adoption word{.project = project_.id,
                  .stage = name,
                  .vouched = wish.isGiven(),
                  .brought = wish.promotion,
                  .settles = seen.stuck ? seen.stuck : seen.attention,
                  .uid = parts_.uid};
    if (adopted.held) word.tree = adopted.held->digest;
    parts_.store.write([&](Writer& writer) { recordAdoption(writer, word, writer.actor(parts_.actor)); });
    return adopted;
}

}  // namespace gradus
