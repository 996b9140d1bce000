#include "pipeline/engine/drive.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "pipeline/engine/check_question.h"
#include "pipeline/engine/checked_evidence.h"
#include "pipeline/engine/command_mark.h"
#include "pipeline/engine/ground.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostCheckpoint = std::uint64_t{256} << 20;

// A child that a killed driver was just starting has its lock until the exec.
constexpr int kMostLooks = 200;
constexpr Milliseconds kBetweenLooks{10};

bool isAlive(const std::optional<pid_t>& process) { return process && (::kill(*process, 0) == 0 || errno == EPERM); }

}  // namespace

Checkpoint readCheckpoint(const Objects& objects, const Promotion& promotion) {
    if (!promotion.checkpoint) throw Error(ErrorCode::kDamaged, "promotion p{} has no checkpoint", promotion.id);
    return Checkpoint::decode(objects.readAll(*promotion.checkpoint, kMostCheckpoint));
}

CheckResult resultOf(std::int64_t promotion, const CheckReport& report, CheckPhase phase) {
    return {.promotion = promotion,
            .check = report.check,
            .verdict = report.answer.verdict,
            .evidence = report.fingerprint(),
            .exitCode = report.answer.exitCode,
            .wallMs = report.answer.wallMs,
            .log = report.log,
            .phase = phase,
            .execution = report.answer.execution,
            .reason = report.answer.reason,
            .asked = report.asked,
            .definition = report.definition,
            .reused = report.reused ? std::optional(report.reused->result.promotion) : std::nullopt,
            .outputs = report.outputs(),
            // Only who built it says what it was built of, and under which guarantees.
            .builtOf = report.builtBy ? std::nullopt : report.builtOf};
}

fs::path drivingLock(const StateDirectory& state, std::int64_t promotion) {
    const fs::path directory = state.root / "driving";
    makeDirectories(directory);
    return directory / promotionHandle(promotion);
}

Drive::Drive(const EngineProject& project, EngineParts& parts, const Stage& stage, const EngineProgress& progress,
             std::stop_token cancel)
    : project_(project),
      parts_(parts),
      stage_(stage),
      progress_(progress),
      cancel_(std::move(cancel)),
      target_(parts.driver(stage, cancel_)) {}

bool Drive::seize(std::int64_t promotion) {
    const fs::path file = drivingLock(parts_.state, promotion);
    for (int i = 0; i < kMostLooks && !driving_; ++i) {
        if (auto lock = SandboxLock::attempt(file)) {
            driving_.emplace(std::move(*lock));
        } else {
            if (isAlive(SandboxLock::holder(file))) return false;
            std::this_thread::sleep_for(kBetweenLooks);
        }
    }
    return driving_.has_value();
}

void Drive::take(std::int64_t promotion) {
    if (!driving_ && !seize(promotion))
        throw Error(ErrorCode::kBusy, "promotion p{} is being driven by another process", promotion)
            .hint(fmt::format("wait for it, or end it with `gradus cancel p{}`", promotion));
}

void Drive::open(const Footing& footing, const std::optional<std::int64_t>& undoes, const std::vector<Step>& steps,
                 const std::optional<Hold>& hold) {
    try {
        // Going back is possible on a full disk, too.
        parts_.store.write([&](Writer& writer) { openIn(writer, footing, undoes, steps, hold); },
                           undoes ? Store::Urgency::kVital : Store::Urgency::kRoutine);
    } catch (...) {
        report_.promotion = {};
        driving_.reset();
        throw;
    }
    if (replacedLock_) tellReplaced();
    arrive(steps);
}

void Drive::openIn(Writer& writer, const Footing& footing, const std::optional<std::int64_t>& undoes,
                   const std::vector<Step>& steps, const std::optional<Hold>& hold) {
    if (entering_) refuseIfTwice(writer, footing.change);
    if (entering_) refuseIfFull(writer);
    const ActorId actor = writer.actor(parts_.actor);
    report_.promotion.id = writer.openPromotion(
        {project_.id, footing.change.id, footing.change.revision, stage_.name, project_.rules, undoes,
         parts_.clock.moment(), goal_, replaced_ ? std::optional(replaced_->place) : std::nullopt},
        actor);
    report_.promotion.place = replaced_ ? replaced_->place : report_.promotion.id;
    report_.promotion.state = State::kQueued;
    report_.promotion.goal = goal_;
    // Taken before the row can be seen: from its first instant on it has a driver. A write that is tried again may get
    // another number.
    driving_.reset();
    take(report_.promotion.id);
    if (replaced_) supersede(writer, actor, footing);
    walk(writer, actor, steps);
    if (hold) WordWriter(writer, actor, parts_.uid).hold(*hold);
}

void Drive::walk(Writer& writer, ActorId actor, const std::vector<Step>& steps) const {
    State from = report_.promotion.state;
    const auto promoter = promoter_ ? std::optional(writer.actor(*promoter_)) : std::nullopt;
    for (const Step& step : steps) {
        if (entering_ && step.to == State::kChecking) keepTurn(writer);
        // In the transaction that moves it: a rejection comes before it, and is heeded, or after it, and sees it.
        if ((step.to == State::kApplying || step.to == State::kPromoted) && rejection(writer)) throw Rejected();
        writer.movePromotion({.promotion = report_.promotion.id,
                              .from = from,
                              .to = step.to,
                              .cause = step.cause,
                              .reason = step.reason,
                              .intent = step.intent,
                              .tree = step.tree,
                              .back = step.back,
                              .attention = step.attention,
                              .kept = static_cast<std::int64_t>(step.kept),
                              .base = step.base,
                              .evidence = step.evidence,
                              .promoter = promoter,
                              .rules = step.rules},
                             actor);
        from = step.to;
    }
    if (!steps.empty() && isAimedElsewhere()) writer.aimPromotion(report_.promotion.id, *goal_, actor);
}

void Drive::arrive(const std::vector<Step>& steps) {
    const Records& records = parts_.store.records();
    report_.promotion = *records.promotion(report_.promotion.id);
    if (report_.promotion.steps || report_.promotion.undoes)
        report_.steps = records.steps().of(report_.promotion.undoes.value_or(report_.promotion.id));
    if (steps.empty()) return;
    report_.reason = steps.back().reason;
    if (isFinal(report_.promotion.state) && driving_) driving_->removeFile();
    progress_.moved(report_.promotion, report_.reason);
}

void Drive::commit(const std::vector<Step>& steps, const Beside& beside) {
    // Whatever leads back, the no that is the reason for it included.
    const bool isNo = beside.phase == CheckPhase::kAfter && verdictOf(beside.checks) != Cause::kPassed;
    const bool isVital =
        isNo || report_.promotion.undoes || std::any_of(steps.begin(), steps.end(), [](const Step& step) {
            return step.to == State::kRollingBack || step.to == State::kRolledBack || step.to == State::kStuck;
        });
    parts_.store.write(
        [&](Writer& writer) {
            const ActorId actor = writer.actor(parts_.actor);
            WordWriter words(writer, actor, parts_.uid);
            for (const CheckReport& report : beside.checks)
                writer.recordCheck(resultOf(report_.promotion.id, report, beside.phase), actor);
            for (const Approval& approval : beside.used) words.use(approval, report_.promotion.id);
            walk(writer, actor, steps);
            for (const Hold& hold : beside.holds) words.hold(hold);
            if (beside.watch) recordWatch(writer, *beside.watch, actor);
        },
        isVital ? Store::Urgency::kVital : Store::Urgency::kRoutine);
    arrive(steps);
}

bool Drive::isAimedElsewhere() const { return goal_ && report_.promotion.goal != goal_; }

// How far it goes is up to the one in whose name it moves: in another's, it stays until it moves in this one's.
void Drive::aim() {
    const auto promoter = parts_.store.records().movedBy(report_.promotion.id);
    if (!isAimedElsewhere() || promoter != promoter_.value_or(parts_.actor)) return;
    parts_.store.write(
        [&](Writer& writer) { writer.aimPromotion(report_.promotion.id, *goal_, writer.actor(parts_.actor)); });
    report_.promotion.goal = goal_;
}

bool Drive::resume(std::int64_t change) {
    for (const Promotion& promotion : parts_.store.records().unfinishedOf(change)) {
        if (promotion.stage != stage_.name || promotion.state != State::kWaiting) continue;
        take(promotion.id);
        report_.promotion = *parts_.store.records().promotion(promotion.id);
        if (report_.promotion.state == State::kWaiting) {
            aim();
            return true;
        }
        driving_.reset();
        report_.promotion = {};
    }
    return false;
}

StageReport Drive::enter(std::int64_t change) {
    begun_ = parts_.store.records().newestEvent();
    const bool waitedBefore = resume(change);
    try {
        return climbUp(change);
    } catch (const Error& e) {
        // Somebody else is at it: that passes. Anything else is what became of this attempt; what waited before it goes
        // on waiting.
        if (isOpen() && !waitedBefore && report_.promotion.state == State::kWaiting && e.code() != ErrorCode::kBusy)
            end({{.to = State::kRejected, .cause = Cause::kErrored, .reason = e.what()}});
        throw;
    }
}

std::optional<StageReport> Drive::goOnWaiting(std::int64_t change) {
    begun_ = parts_.store.records().newestEvent();
    if (!resume(change)) return std::nullopt;
    return climbUp(change);
}

Checkpoint Drive::checkpointOf(const Promotion& promotion) const { return readCheckpoint(parts_.objects, promotion); }

void requireWayBack(const StageDriver& target, const Objects& objects, const Promotion& promotion) {
    // Of the newest twenty that stand everything is kept; `gradus gc` may have taken the rest.
    const bool isKept = promotion.checkpoint && objects.contains(*promotion.checkpoint);
    const std::vector<std::string> lost = isKept ? target.lost(readCheckpoint(objects, promotion))
                                                 : std::vector<std::string>{"its checkpoint is not kept any more"};
    if (lost.empty()) return;
    throw Error(ErrorCode::kNotAllowed, "{} cannot be taken back, and nothing was touched: {}{}",
                promotionHandle(promotion.id), lost.front(),
                lost.size() > 1 ? fmt::format(", and {} more", lost.size() - 1) : "")
        .hint(
            "what was there before it is not whole any more: promote what the stage should hold, or put that right "
            "first");
}

void requireUnobstructed(const StageDriver& target, const Objects& objects, const Promotion& promotion) {
    if (!promotion.checkpoint) return;
    const auto obstruction = target.obstruction(readCheckpoint(objects, promotion));
    if (!obstruction) return;
    throw Error(obstruction->code, "{} cannot be taken back now, and nothing was touched: {}",
                promotionHandle(promotion.id), obstruction->reason)
        .hint(obstruction->cure);
}

Evidence evidenceFor(const Records& records, const Promotion& promotion, const Digest& rules) {
    Evidence evidence;
    evidence.tree = promotion.tree.value_or(Digest{});
    if (const auto change = records.change(promotion.change, promotion.revision)) {
        evidence.change = change->changeSet;
        evidence.base = change->base;
    }
    evidence.rules = rules;
    return evidence;
}

}  // namespace gradus
