#include "pipeline/engine/stage_monitor.h"

#include <algorithm>

#include "pipeline/engine/by_hand.h"
#include "pipeline/engine/queue.h"
#include "pipeline/engine/step_words.h"
#include "pipeline/engine/way_back.h"
#include "policies/language/duration.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

constexpr Milliseconds kLookAgain{30'000};
constexpr Milliseconds kBetweenRecords{300'000};

bool isNo(Cause verdict) { return verdict == Cause::kFailed || verdict == Cause::kTimedOut; }

/// As everything else about a monitor is told; what is shorter than a second, as it is.
std::string wholeSeconds(Milliseconds time) {
    const auto whole = std::chrono::floor<std::chrono::seconds>(time);
    return formatDuration(whole > Milliseconds(0) ? Milliseconds(whole) : time);
}

}  // namespace

std::unique_ptr<StageMonitor> StageMonitor::take(const EngineProject& project, EngineParts& parts, const Watch& watch) {
    const Records& records = parts.store.records();
    const auto promotion = records.promotion(watch.promotion);
    const Stage* stage = promotion ? project.pipeline.findStage(promotion->stage) : nullptr;
    if (stage == nullptr || stage->monitorChecks.empty()) return nullptr;
    auto lock = SandboxLock::attempt(drivingLock(parts.state, watch.promotion));
    if (!lock) return nullptr;
    std::unique_ptr<StageMonitor> monitor(
        new StageMonitor(project, parts, *stage, *promotion, watch, std::move(*lock)));
    if (monitor->isReplaced()) return nullptr;
    return monitor;
}

StageMonitor::StageMonitor(const EngineProject& project, EngineParts& parts, const Stage& stage,
                           const Promotion& promotion, const Watch& watch, SandboxLock lock)
    : project_(&project),
      parts_(&parts),
      stage_(&stage),
      state_{.promotion = promotion, .watch = watch, .left = Milliseconds(0), .note = {}},
      lock_(std::move(lock)),
      watcher_(watchedChecks(project.pipeline, stage, kLookAgain), watch.looked),
      recorded_(watch.looked) {}

Milliseconds StageMonitor::left() const {
    const Milliseconds whole = stage_->settings.duration("monitor");
    return std::max(whole - elapsed(state_.watch.began, parts_->clock.moment()), Milliseconds(0));
}

Monitored StageMonitor::state() const {
    Monitored state = state_;
    state.left = state.watch.ended ? Milliseconds(0) : left();
    return state;
}

Milliseconds StageMonitor::untilNext() const { return std::min(watcher_.untilNext(parts_->clock.moment()), left()); }

// What took its place has a time of its own. This one's is over for good: should what came after it be taken back
// because everything fails, it must not be next.
bool StageMonitor::isReplaced() {
    const Promotion& promotion = state_.promotion;
    const bool isHeld =
        parts_->store.records().stageState(promotion.project, promotion.stage).promotion == promotion.id;
    if (!isHeld) record(true);
    return !isHeld;
}

void StageMonitor::record(bool ended) {
    if (!ended && recorded_ == state_.watch.looked) return;
    state_.watch.ended = ended;
    recorded_ = state_.watch.looked;
    parts_->store.write([&](Writer& writer) { recordWatch(writer, state_.watch, writer.actor(parts_->actor)); });
    if (ended) lock_.removeFile();
}

// Something is at work there, or was left half-way: what the checks would see is nobody's.
bool StageMonitor::isDisturbed() const {
    if (parts_->store.records().stageState(project_->id, stage_->name).stuck) return true;
    const auto all = parts_->store.records().atWork(project_->id, stage_->name);
    return std::any_of(all.begin(), all.end(), [&](const Promotion& other) { return isUnderWay(other.state); });
}

std::vector<CheckReport> StageMonitor::run(const std::vector<std::string>& names, const EngineProgress& progress,
                                           const std::stop_token& cancel) {
    Stage some = *stage_;
    some.checks = names;
    const auto shown = parts_->driver(*stage_, cancel)->shown().value_or(project_->root);
    const Evidence evidence = evidenceFor(parts_->store.records(), state_.promotion, project_->rules);
    return parts_->after(some, shown, evidence, progress.checks, cancel);
}

std::optional<StageReport> StageMonitor::look(const EngineProgress& progress, const std::stop_token& cancel) {
    const Moment began = parts_->clock.moment();
    const auto names = watcher_.due(began);
    if (left() == Milliseconds(0)) {
        closeGap(names, began);
        record(true);
        return std::nullopt;
    }
    if (names.empty() || isDisturbed() || isReplaced()) return std::nullopt;
    const auto reports = run(names, progress, cancel);
    if (cancel.stop_requested()) return std::nullopt;
    const Moment ended = parts_->clock.moment();
    const bool passed = verdictOf(reports) == Cause::kPassed;
    const Watcher::Time time = passed ? watcher_.ran(names, began, ended) : watcher_.missed(names, ended);
    state_.watch.counted += time.counted;
    state_.watch.gap += time.gap;
    state_.watch.looked = ended;
    state_.note = passed ? "" : failuresOf(reports);
    if (isNo(verdictOf(reports))) return judge(reports, progress);
    if (time.gap > Milliseconds(0) || elapsed(recorded_, ended) >= kBetweenRecords) record(false);
    return std::nullopt;
}

// It ended while nobody looked: what was missed is no more than what there was.
void StageMonitor::closeGap(const std::vector<std::string>& overdue, const Moment& now) {
    if (overdue.empty()) return;
    const Milliseconds whole = stage_->settings.duration("monitor");
    state_.watch.gap = std::min(state_.watch.gap + watcher_.missed(overdue, now).gap, whole - state_.watch.counted);
    state_.watch.looked = now;
}

// I23: what was well here for a while did not get worse by itself. It is held, as after any failure, and never vetoed.
std::string StageMonitor::whatFailed(const std::vector<CheckReport>& reports) const {
    const Milliseconds well = stage_->settings.duration("soak") + state_.watch.counted;
    std::string text = failuresOf(reports);
    if (well > Milliseconds(0))
        text += fmt::format("; it was well here for {} before, so look at its surroundings first", wholeSeconds(well));
    return text;
}

std::string StageMonitor::whyNotTaken() const {
    try {
        requireStepsTakeable(*parts_, state_.promotion, {});
        requireRestTakeable(*parts_, *parts_->driver(*stage_, {}), state_.promotion, {});
        return "";
    } catch (const Error& e) {
        if (e.code() != ErrorCode::kNotAllowed) throw;
        return e.what();
    }
}

// Said once, and held, so that status shows it: asking on and on would not change what cannot be undone.
std::optional<StageReport> StageMonitor::leaveToAPerson(const std::string& reason, const std::string& why) {
    state_.note = fmt::format("{}; {}", reason, why);
    state_.isLeftToAPerson = true;
    state_.watch.ended = true;
    parts_->store.write([&](Writer& writer) {
        const ActorId actor = writer.actor(parts_->actor);
        WordWriter(writer, actor, parts_->uid)
            .hold({.project = project_->id,
                   .stage = stage_->name,
                   .change = state_.promotion.change,
                   .promotion = state_.promotion.id,
                   .reason = fmt::format("{} failed: {}", promotionHandle(state_.promotion.id), state_.note)});
        recordWatch(writer, state_.watch, actor);
    });
    lock_.removeFile();
    return std::nullopt;
}

std::optional<StageReport> StageMonitor::judge(const std::vector<CheckReport>& reports,
                                               const EngineProgress& progress) {
    const std::string reason = whatFailed(reports);
    state_.note = reason;
    parts_->store.write([&](Writer& writer) {
        const ActorId actor = writer.actor(parts_->actor);
        for (const CheckReport& report : reports)
            writer.recordCheck(resultOf(state_.promotion.id, report, CheckPhase::kAfter), actor);
    });
    if (isTakenBackByHand(*stage_)) return leaveToAPerson(reason, "the policy leaves taking it back to a person");
    if (const std::string why = whyNotTaken(); !why.empty()) return leaveToAPerson(reason, why);
    const Drive::Failure failure{verdictOf(reports), reason};
    try {
        // First this, then the end of the monitor: whoever dies in between has begun to go back.
        StageReport back = takeOut(*project_, *parts_, *stage_, state_.promotion, failure, progress);
        record(true);
        return back;
    } catch (const Error& e) {
        // Something newer came in by an instant, or is about to: what it is, the next look says.
        if (e.code() != ErrorCode::kNotAllowed && e.code() != ErrorCode::kBusy) throw;
        state_.note = fmt::format("{}; {}", failuresOf(reports), e.what());
        record(false);
        return std::nullopt;
    }
}

}  // namespace gradus
