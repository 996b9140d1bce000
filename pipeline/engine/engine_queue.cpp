#include <algorithm>

#include "pipeline/engine/drive.h"
#include "pipeline/engine/ground.h"
#include "pipeline/engine/queue.h"
#include "policies/language/duration.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

using State = PromotionState;

bool waitsForItsTurn(const StageReport& report) {
    return report.promotion.state == State::kWaiting && report.gates && waitsForItsTurn(*report.gates);
}

}  // namespace

std::vector<Promotion> Engine::expire() {
    std::vector<Promotion> ended;
    const Moment now = parts_.clock.moment();
    for (const Promotion& promotion : parts_.store.records().unfinished(project_.id)) {
        const Milliseconds limit = waitLimit(project_.pipeline, promotion.stage);
        if (promotion.state != State::kWaiting || waited(promotion, now) < limit) continue;
        const auto lock = SandboxLock::attempt(drivingLock(parts_.state, promotion.id));
        if (!lock || find(promotion.id)->state != State::kWaiting) continue;
        parts_.store.write([&](Writer& writer) {
            writer.movePromotion({.promotion = promotion.id,
                                  .from = State::kWaiting,
                                  .to = State::kExpired,
                                  .cause = Cause::kTimedOut,
                                  .reason = fmt::format("it waited {}, and wait-limit is {}",
                                                        formatDuration(waited(promotion, now)), formatDuration(limit))},
                                 writer.actor(parts_.actor));
        });
        lock->removeFile();
        ended.push_back(*find(promotion.id));
    }
    return ended;
}

void Engine::endWaiting(const Promotion& there) {
    for (const Promotion& promotion : parts_.store.records().unfinishedOf(there.change)) {
        if (promotion.stage != there.stage || promotion.state != State::kWaiting) continue;
        const auto lock = SandboxLock::attempt(drivingLock(parts_.state, promotion.id));
        if (!lock || find(promotion.id)->state != State::kWaiting) continue;
        parts_.store.write([&](Writer& writer) {
            writer.movePromotion({.promotion = promotion.id,
                                  .from = State::kWaiting,
                                  .to = State::kSuperseded,
                                  .reason = promotionHandle(there.id) + " brought it in",
                                  .replacedBy = there.id},
                                 writer.actor(parts_.actor));
        });
        lock->removeFile();
    }
}

// One that cannot be driven must not be in the way of all that come after it.
void Engine::endUndriven(const Promotion& promotion, const std::string& why) {
    if (find(promotion.id)->state != State::kWaiting) return;
    parts_.store.write([&](Writer& writer) {
        writer.movePromotion({.promotion = promotion.id,
                              .from = State::kWaiting,
                              .to = State::kCancelled,
                              .cause = Cause::kErrored,
                              .reason = "it was its turn, and " + why},
                             writer.actor(parts_.actor));
    });
}

std::optional<StageReport> Engine::drivenElsewhere(std::int64_t change, const std::string& stage) const {
    const Records& records = parts_.store.records();
    const auto newest = records.change(change);
    for (const Promotion& promotion : records.unfinishedOf(change)) {
        const bool isSame =
            promotion.stage == stage && !promotion.undoes && newest && promotion.revision == newest->revision;
        if (isSame && isUnderWay(promotion.state) && SandboxLock::holder(drivingLock(parts_.state, promotion.id)))
            return StageReport{.promotion = promotion, .reason = "another process drives it", .elsewhere = true};
    }
    return std::nullopt;
}

StageReport Engine::enterInTurn(std::int64_t change, const std::string& name, PromoteWish& wish,
                                std::vector<StageReport>& others, const EngineProgress& progress,
                                const std::stop_token& cancel) {
    StageReport report = enter(change, name, wish, progress, cancel);
    std::set<std::int64_t> tried;
    // It has its place by now. Those before it that nobody drives would wait for ever if nobody did.
    while (waitsForItsTurn(report) && !cancel.stop_requested()) {
        auto other = driveNext(stageNamed(project_, name), tried, report.promotion.place, progress, cancel);
        if (!other) break;
        others.push_back(std::move(*other));
        goOn(Promotion(others.back().promotion), others, progress, cancel);
        report = enter(change, name, wish, progress, cancel);
    }
    return report;
}

std::vector<StageReport> Engine::driveReady(const EngineProgress& progress, const std::stop_token& cancel,
                                            std::optional<Milliseconds> most) {
    std::vector<StageReport> reports;
    const Moment began = parts_.clock.moment();
    std::size_t all = 0;
    for (const Stage& stage : project_.pipeline.stages)
        all += static_cast<std::size_t>(parts_.store.records().lineLength(project_.id, stage.name));
    EngineProgress counting = progress;
    std::size_t number = 0;
    counting.driving = [&](const Promotion& promotion, std::size_t, std::size_t) {
        progress.driving(promotion, ++number, std::max(number, all));
    };
    for (const Stage& stage : project_.pipeline.stages) {
        std::set<std::int64_t> tried;
        while (!cancel.stop_requested() && (!most || elapsed(began, parts_.clock.moment()) < *most)) {
            auto report = driveNext(stage, tried, std::nullopt, counting, cancel);
            if (!report) break;
            reports.push_back(std::move(*report));
            goOn(Promotion(reports.back().promotion), reports, progress, cancel);
        }
    }
    return reports;
}

std::optional<std::string> Engine::goalOf(std::int64_t change) const {
    for (const Promotion& promotion : parts_.store.records().unfinishedOf(change))
        if (promotion.state == State::kWaiting && promotion.goal &&
            project_.pipeline.findStage(*promotion.goal) != nullptr)
            return promotion.goal;
    return std::nullopt;
}

Goal Engine::goalFor(std::int64_t change) const {
    const auto all = parts_.store.records().unfinishedOf(change);
    const auto waiting = std::ranges::find(all, State::kWaiting, &Promotion::state);
    if (waiting == all.end()) return {.stage = project_.pipeline.stages.back().name};
    const auto by = promoterOf(waiting->id);
    // What another asked for is theirs to go on with: whoever calls has asked for no more than what waits.
    const std::string stage = by == parts_.actor ? waiting->goal.value_or(waiting->stage) : waiting->stage;
    for (const std::string& wanted : {waiting->stage, stage})
        if (project_.pipeline.findStage(wanted) == nullptr)
            throw Error(ErrorCode::kNotFound, "{} {} '{}', which the rules do not have any more",
                        promotionHandle(waiting->id), wanted == waiting->stage ? "waits for" : "was to go on to",
                        wanted)
                .hint(fmt::format("say anew how far: gradus promote {} --to STAGE ({}); or end it: gradus cancel {}",
                                  changeHandle(change), stageNames(project_), promotionHandle(waiting->id)));
    return {.stage = stage, .waiting = *waiting, .by = by};
}

void Engine::goOn(const Promotion& entered, std::vector<StageReport>& reports, const EngineProgress& progress,
                  const std::stop_token& cancel) {
    if (entered.state != State::kPromoted || !entered.goal) return;
    if (project_.pipeline.findStage(*entered.goal) == nullptr) {
        reports.back().notes.push_back(
            fmt::format("{0} was to go on to '{1}', which the rules do not have any more: it stays here; say anew how "
                        "far: gradus promote {0} --to STAGE",
                        changeHandle(entered.change), *entered.goal));
        return;
    }
    PromoteWish wish;
    wish.goal = *entered.goal;
    wish.promoter = parts_.store.records().movedBy(entered.id);
    if (!wish.promoter) return;
    bool isBeyond = false;
    for (const Stage& stage : project_.pipeline.stages) {
        if (isBeyond && !cancel.stop_requested()) {
            StageReport report = this->entered(entered.change, stage.name, wish, reports, progress, cancel);
            const bool goesOn = report.succeeded();
            if (!report.already) reports.push_back(std::move(report));
            if (!goesOn) return;
        }
        if (stage.name == wish.goal) return;
        isBeyond = isBeyond || stage.name == entered.stage;
    }
}

// Whoever asked for it is who the gates are told of, not whoever happens to drive it.
std::optional<StageReport> Engine::driveNext(const Stage& stage, std::set<std::int64_t>& tried,
                                             std::optional<std::int64_t> before, const EngineProgress& progress,
                                             const std::stop_token& cancel) {
    const Records& records = parts_.store.records();
    const auto active = records.atWork(project_.id, stage.name);
    if (std::ranges::any_of(active, [](const Promotion& other) { return !other.undoes && isUnderWay(other.state); }))
        return std::nullopt;
    std::optional<StageReport> driven;
    walkLine(records, project_.id, stage.name, [&](const Promotion& promotion) {
        if (before && promotion.place >= *before) return true;
        if (tried.insert(promotion.id).second) driven = driveIfReady(promotion, stage, progress, cancel);
        return driven.has_value();
    });
    return driven;
}

std::optional<StageReport> Engine::driveIfReady(const Promotion& promotion, const Stage& stage,
                                                const EngineProgress& progress, const std::stop_token& cancel) {
    try {
        if (!isReady(standing(promotion.change, stage.name).gates)) return std::nullopt;
    } catch (const Error&) {
        return std::nullopt;  // it waits for something that only it needs, as `gradus why` says: others are driven
    }
    progress.driving(promotion, 0, 0);
    Drive drive(project_, parts_, stage, progress, cancel);
    drive.actFor(promoterOf(promotion.id).value_or(Actor{ActorKind::kAgent, ""}));
    if (promotion.goal) drive.aimAt(*promotion.goal);
    try {
        return drive.goOnWaiting(promotion.change);
    } catch (const Error& e) {
        if (e.code() != ErrorCode::kBusy) endUndriven(promotion, e.what());
        return std::nullopt;
    }
}

}  // namespace gradus
