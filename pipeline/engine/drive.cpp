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

// A tree that moves faster than its checks run is not checked for ever.
constexpr int kMostRounds = 3;
constexpr std::uint64_t kMostCheckpoint = std::uint64_t{256} << 20;

// A child that a killed driver was just starting has its lock until the exec.
constexpr int kMostLooks = 200;
constexpr Milliseconds kBetweenLooks{10};

bool isAlive(const std::optional<pid_t>& process) { return process && (::kill(*process, 0) == 0 || errno == EPERM); }

template <typename Items, typename Text>
std::string listed(const Items& items, Text text) {
    std::string all;
    for (const auto& item : items) all += (all.empty() ? "" : "; ") + text(item);
    return all;
}

std::string conflictText(const std::vector<Conflict>& conflicts) {
    return listed(conflicts, [](const Conflict& conflict) { return describe(conflict); });
}

std::string conflictText(const std::vector<MergeConflict>& conflicts) {
    return listed(conflicts, [](const MergeConflict& conflict) { return conflict.path + ": " + conflict.detail; });
}

std::string missingText(const std::string& stage, const std::vector<std::int64_t>& missing) {
    if (missing.empty()) return "";
    return fmt::format("; {} lacks {}", stage,
                       listed(missing, [](std::int64_t change) { return changeHandle(change); }));
}

/// Paths that no release has for itself: what lies there is a link, and no merge makes sense of it.
std::vector<Conflict> sharedAmong(const StageDriver& target, const Objects& objects, const Change& change) {
    StageChange wanted;
    wanted.changes = readChanges(objects, change.changeSet);
    std::vector<Conflict> found = target.conflicts(wanted);
    std::erase_if(found, [](const Conflict& conflict) { return conflict.kind != ConflictKind::kShared; });
    return found;
}

Digest provenBy(const std::vector<CheckReport>& reports) {
    std::vector<Digest> evidence;
    evidence.reserve(reports.size());
    for (const CheckReport& report : reports) evidence.push_back(report.fingerprint());
    return evidenceOver(evidence);
}

/// When the oldest answer was given.
Time oldest(const std::vector<CheckReport>& reports, Time now) {
    for (const CheckReport& report : reports)
        // What was built does not age: it is the same bytes.
        if (report.reused && !report.builtOf) now = std::min(now, report.reused->at);
    return now;
}

std::size_t filesAmong(const ChangeSet& outputs) {
    return static_cast<std::size_t>(std::ranges::count_if(outputs.changes(), [](const PathChange& change) {
        return change.after && change.after->type != EntryType::kDirectory;
    }));
}

}  // namespace

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
            .builtOf = report.builtOf};
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
        parts_.store.write([&](Writer& writer) {
            if (entering_) refuseIfFull(writer);
            const ActorId actor = writer.actor(parts_.actor);
            report_.promotion.id = writer.openPromotion({project_.id, footing.change.id, footing.change.revision,
                                                         stage_.name, project_.rules, undoes, parts_.clock.moment()},
                                                        actor);
            report_.promotion.state = State::kQueued;
            // Taken before the row can be seen: from its first instant on it has a driver.
            take(report_.promotion.id);
            if (replaced_) supersede(writer, actor, footing);
            walk(writer, actor, steps);
            if (hold) WordWriter(writer, actor, parts_.uid).hold(*hold);
        });
    } catch (...) {
        report_.promotion = {};
        driving_.reset();
        throw;
    }
    if (replacedLock_) tellReplaced();
    arrive(steps);
}

void Drive::walk(Writer& writer, ActorId actor, const std::vector<Step>& steps) const {
    State from = report_.promotion.state;
    const auto promoter = promoter_ ? std::optional(writer.actor(*promoter_)) : std::nullopt;
    for (const Step& step : steps) {
        if (entering_ && step.to == State::kChecking) keepTurn(writer);
        writer.movePromotion({.promotion = report_.promotion.id,
                              .from = from,
                              .to = step.to,
                              .cause = step.cause,
                              .reason = step.reason,
                              .intent = step.intent,
                              .tree = step.tree,
                              .back = step.back,
                              .attention = step.attention,
                              .base = step.base,
                              .evidence = step.evidence,
                              .promoter = promoter},
                             actor);
        from = step.to;
    }
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
    const bool isVital = std::any_of(steps.begin(), steps.end(), [](const Step& step) {
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
            if (beside.hold) words.hold(*beside.hold);
            if (beside.watch) recordWatch(writer, *beside.watch, actor);
        },
        isVital ? Store::Urgency::kVital : Store::Urgency::kRoutine);
    arrive(steps);
}

bool Drive::resume(std::int64_t change) {
    for (const Promotion& promotion : parts_.store.records().unfinished(project_.id)) {
        if (promotion.change != change || promotion.stage != stage_.name || promotion.state != State::kWaiting)
            continue;
        take(promotion.id);
        report_.promotion = *parts_.store.records().promotion(promotion.id);
        if (report_.promotion.state == State::kWaiting) return true;
        driving_.reset();
        report_.promotion = {};
    }
    return false;
}

StageReport Drive::enter(std::int64_t change) {
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
    if (!resume(change)) return std::nullopt;
    return climbUp(change);
}

StageReport Drive::climbUp(std::int64_t change) {
    entering_ = true;
    if (isClosed(change)) return report_;
    for (rounds_ = 0; rounds_ < kMostRounds; ++rounds_) {
        checked_.reset();
        outputs_ = {};
        source_.reset();
        Footing footing = look(change);
        if (!footing.merge.conflicts.empty() && takesTarget())
            report_.conflicts = sharedAmong(*target_, parts_.objects, footing.change);
        if (!report_.conflicts.empty()) {
            report_.mergeConflicts.clear();
            endRefused(footing);
            return report_;
        }
        if (!footing.merge.conflicts.empty()) {
            report_.missing = missingFor(footing);
            endStale(footing, conflictText(footing.merge.conflicts) + missingText(stage_.name, report_.missing));
            return report_;
        }
        revise(footing);
        if (isOpen() && report_.promotion.revision != footing.change.revision) {
            replaced_ = report_.promotion;
            replacedLock_.emplace(std::move(*driving_));
            driving_.reset();
            report_.promotion = {};
        }
        // Known before anything is run: checks would only say that the tree is not as it was.
        if (takesTarget()) report_.conflicts = target_->conflicts(stageChange(footing));
        const Next next = report_.conflicts.empty() ? climb(footing) : endRefused(footing);
        if (next == Next::kEnd) return report_;
        lock_.reset();
    }
    commit({{.to = State::kStale, .reason = "what the stage holds moved every time it was checked"}});
    return report_;
}

Drive::Next Drive::climb(const Footing& footing) {
    try {
        Next next = check(footing);
        if (next == Next::kOn) next = lockTarget(footing);
        if (next == Next::kOn) next = apply(footing);
        return next;
    } catch (const Error& e) {
        // Nothing was touched yet: from applying on, faults are dealt with where they happen.
        if (report_.promotion.state != State::kChecking) throw;
        if (lock_) tidyIfPossible();
        report_.fault = e;
        return end({{.to = State::kRejected, .cause = Cause::kErrored, .reason = e.what()}});
    }
}

// A target that is neither before nor after is not looked at: what would be read there is nobody's.
bool Drive::isClosed(std::int64_t change) {
    if (!parts_.store.records().stageState(project_.id, stage_.name).stuck) return false;
    Footing footing;
    const auto row = parts_.store.records().change(change);
    if (!row) throw Error(ErrorCode::kNotFound, "there is no change c{}", change);
    footing.change = *row;
    footing.seed = Seed{};
    report_.gates = decideNow(footing);
    report_.reason = closedGates(*report_.gates);
    if (!isOpen()) open(footing, std::nullopt, {{.to = State::kWaiting, .reason = report_.reason}});
    return true;
}

Drive::Next Drive::endStale(const Footing& footing, const std::string& reason) {
    if (!isOpen()) open(footing, std::nullopt, {{.to = State::kWaiting}});
    commit({{.to = State::kStale, .cause = Cause::kFailed, .reason = reason}});
    return Next::kEnd;
}

// A change that does not fit is stale; a target that cannot take anything says nothing about the change.
Drive::Next Drive::endRefused(const Footing& footing) {
    if (!isOpen()) open(footing, std::nullopt, {{.to = State::kWaiting}});
    const bool isUnable = std::any_of(report_.conflicts.begin(), report_.conflicts.end(), [](const Conflict& conflict) {
        return conflict.kind == ConflictKind::kNoSpace || conflict.kind == ConflictKind::kNoPermission;
    });
    std::vector<Step> steps;
    if (report_.promotion.state != State::kWaiting) steps.push_back({.to = State::kWaiting});
    steps.push_back({.to = isUnable ? State::kRejected : State::kStale,
                     .cause = isUnable ? Cause::kErrored : Cause::kFailed,
                     .reason = conflictText(report_.conflicts)});
    return end(steps);
}

Drive::Next Drive::park(const Footing& footing, const std::string& reason) {
    return end({{.to = State::kWaiting,
                 .reason = reason,
                 .base = footing.base(),
                 .evidence = checked_ ? std::optional(checked_->evidence) : std::nullopt}});
}

// What must stand still while it is checked: the whole tree, or, where people go on working, what the change touches.
std::function<Digest()> Drive::standstill(const Footing& footing) {
    // A commit's tree never changes; a project that is copied as it is does.
    if (!footing.held && !isLive(footing)) return {};
    if (!footing.held) return [this, change = footing.change] { return seedOf(change).digest; };
    if (stage_.policy.settings.text("freshness") != "allow")
        return [this] { return heldNow().value_or(HeldTree{}).digest; };
    return [this, change = stageChange(footing), was = footing.base()] {
        return target_->conflicts(change).empty() ? was : Digest{};
    };
}

TreeUnderTest Drive::underTest(const Footing& footing) {
    TreeUnderTest tree;
    tree.project = project_.root;
    tree.directory = footing.directory();
    if (footing.seed) tree.leftOut = footing.seed->leftOut;
    if (footing.held) tree.leftOut = footing.held->outputs;
    tree.changes = footing.changes;
    tree.evidence.tree = footing.tree();
    tree.evidence.change = footing.changes.digest();
    tree.evidence.base = footing.base();
    tree.evidence.rules = project_.rules;
    tree.now = standstill(footing);
    tree.was = footing.base();
    if (const auto within = reuseWithin(stage_); within && !asksAll_)
        tree.proven = [this, since = parts_.clock.now() - *within](const Digest& asked) {
            return parts_.store.records().earlierProof(project_.id, asked, since);
        };
    addOutputs(tree, footing);
    return tree;
}

Drive::Next Drive::check(const Footing& footing) {
    enterChecking(footing);
    if (report_.promotion.state != State::kChecking) return Next::kEnd;
    report_.before = parts_.before(stage_, underTest(footing), progress_.checks, cancel_);
    unrecorded_ = report_.before;
    if (cancel_.stop_requested()) return rejectUnlessPassed(Cause::kCancelled);
    if (std::any_of(unrecorded_.begin(), unrecorded_.end(), [](const CheckReport& report) { return report.moved; })) {
        park(footing, "the tree moved while it was checked");
        return Next::kAgain;
    }
    if (stage_.carriesOutputs) outputs_ = outputsOf(report_.before);
    checked_ = CheckedFact{provenBy(report_.before), project_.rules, oldest(report_.before, parts_.clock.now())};
    return rejectUnlessPassed(verdictOf(report_.before));
}

Drive::Next Drive::rejectUnlessPassed(Cause verdict) {
    if (verdict == Cause::kPassed) return Next::kOn;
    if (verdict == Cause::kCancelled)
        return end({{.to = State::kWaiting}, {.to = State::kCancelled, .cause = verdict, .reason = "stopped"}});
    return end({{.to = State::kRejected, .cause = verdict, .reason = failuresOf(report_.before)}});
}

Drive::Next Drive::end(const std::vector<Step>& steps, const std::vector<Approval>& used) {
    commit(steps, {.checks = unrecorded_, .used = used});
    unrecorded_.clear();
    return Next::kEnd;
}

Drive::Next Drive::lockTarget(const Footing& footing) {
    if (!takesTarget()) return Next::kOn;
    try {
        lock_ = TargetLock::take(target_->identity(), claim(), parts_.files,
                                 {.patience = parts_.targetPatience, .takeOver = false});
    } catch (const Error& e) {
        if (e.code() == ErrorCode::kBusy) return park(footing, e.what());
        report_.fault = e;
        return end({{.to = State::kRejected, .cause = Cause::kErrored, .reason = e.what()}});
    }
    return lookAgain(footing);
}

// Others may have been here while it was checked: what was proven is proven of the tree that was there then. Where only
// what the change touches must be as it was, nothing else is read.
Drive::Next Drive::lookAgain(const Footing& footing) {
    const std::string freshness = stage_.policy.settings.text("freshness");
    const bool isAllowed = freshness == "allow" && footing.held && target_->shown().has_value() &&
                           target_->conflicts(stageChange(footing)).empty();
    if (isAllowed || isAsItWas(footing)) return Next::kOn;
    const std::string moved = "the stage moved after it was checked";
    if (freshness == "exact") return end({{.to = State::kWaiting}, {.to = State::kStale, .reason = moved}});
    park(footing, moved);
    return Next::kAgain;
}

bool Drive::isAsItWas(const Footing& footing) const {
    const auto now = heldNow();
    if (now.has_value() != footing.held.has_value()) return false;
    if (now) return now->digest == footing.held->digest;
    return !isLive(footing) || seedOf(footing.change).digest == footing.base();
}

TargetClaim claimOf(const EngineProject& project, const EngineParts& parts, const std::string& stage) {
    TargetClaim claim;
    claim.store = parts.store.storeId();
    claim.state = parts.state.root.native();
    claim.project = project.root.native();
    claim.stage = stage;
    return claim;
}

// It runs, probes and undoes nothing beside a command that is still at it.
void Drive::seizeTarget() {
    lock_ = TargetLock::take(target_->identity(), claim(), parts_.files,
                             {.patience = parts_.targetPatience, .takeOver = false});
    const auto process =
        CommandMark::stillRunning(commandMark(parts_.state, project_.root, stage_.name), parts_.targetPatience);
    if (!process) return;
    throw Error(ErrorCode::kBusy, "a command in {} still runs although the process that drove it is gone{}",
                stage_.name, *process > 0 ? fmt::format(": process {}", *process) : "")
        .hint("wait for it to end, or end it; then `gradus recover`");
}

TargetClaim Drive::claim() const {
    TargetClaim claim = claimOf(project_, parts_, stage_.name);
    claim.promotion = report_.promotion.id;
    return claim;
}

// What decides what git runs or fetches is written on a person's word: who promotes it, or who approved it.
bool Drive::isAnsweredFor(const Footing& footing) const {
    if (promoter_.value_or(parts_.actor).kind == ActorKind::kPerson) return true;
    const Decision decision = decideOn(factsOf(footing));
    return std::any_of(decision.approvals.begin(), decision.approvals.end(),
                       [](const ApprovalAnswer& approval) { return approval.counts; });
}

StageChange Drive::stageChange(const Footing& footing) const {
    StageChange change;
    change.promotion = report_.promotion.id;
    change.changes = footing.changes;
    if (footing.seed) {
        change.seed = footing.seed->directory;
        change.leftOut = footing.seed->leftOut;
    }
    change.outputs = outputs_;
    change.title = footing.change.title.value_or("");
    change.message = footing.change.message;
    change.author = footing.change.author;
    change.handle = fmt::format("{}.{}", changeHandle(footing.change.id), footing.change.revision);
    if (isAnsweredFor(footing))
        for (const PathChange& path : footing.changes.changes()) change.granted.push_back(path.path);
    change.trailers = {{"Gradus-Change", change.handle}, {"Gradus-Promotion", promotionHandle(change.promotion)}};
    return change;
}

Drive::Next Drive::apply(const Footing& footing) {
    report_.gates = decideNow(footing);
    if (report_.gates->step == NextStep::kSupersede)
        return end(
            {{.to = State::kWaiting}, {.to = State::kSuperseded, .reason = report_.gates->at(Gate::kQueue).reason}});
    if (report_.gates->step != NextStep::kApply) return park(footing, closedGates(*report_.gates));
    const std::vector<Approval> used = approvalsUsed(footing);
    if (!takesTarget())
        return end({{.to = State::kApplying, .cause = Cause::kPassed},
                    {.to = State::kVerifying},
                    {.to = State::kSoaking},
                    {.to = State::kPromoted, .cause = Cause::kPassed}},
                   used);
    const StageChange change = stageChange(footing);
    report_.conflicts = target_->conflicts(change);
    if (!report_.conflicts.empty()) return endRefused(footing);
    tidyTarget();
    const Checkpoint checkpoint = target_->checkpoint(change);
    const PromotionIntent intent{
        target_->identity().canonical, parts_.objects.put(checkpoint.encode()), footing.tree(),
        footing.held ? std::optional(footing.held->digest) : std::nullopt,
        stage_.steps.empty() ? std::nullopt : std::optional(parts_.objects.put(encodeSteps(stage_.steps)))};
    // The way back is on record before anything is touched: a crash in between must leave enough to undo.
    end({{.to = State::kApplying, .cause = Cause::kPassed, .intent = intent}}, used);
    report_.outputs = filesAmong(outputs_);
    act(checkpoint);
    return Next::kEnd;
}

void Drive::tidyTarget() {
    std::vector<Checkpoint> needed;
    const std::string target = target_->identity().canonical;
    for (const Promotion& promotion : parts_.store.records().takeable(project_.id, stage_.name))
        // What went into another target, by whatever driver, is nothing that this one could know.
        if (promotion.target == target) needed.push_back(checkpointOf(promotion));
    target_->tidy(needed);
}

void Drive::tidyIfPossible() {
    try {
        tidyTarget();
    } catch (const Error& e) {
        report_.notes.push_back(fmt::format("what it had prepared is cleared up by the next promotion: {}", e.what()));
    }
}

void Drive::act(const Checkpoint& checkpoint) {
    StepRunner steps = stepsFor(report_.promotion, checkpoint);
    if (const auto trouble = steps.run(StepWhen::kBeforeSwitch, cancel_)) return leaveApplying(checkpoint, *trouble);
    // Nor is the switch stopped half-way then.
    if (steps.irreversible() != nullptr) target_ = parts_.driver(stage_, {});
    ApplyOutcome outcome;
    try {
        outcome = target_->apply(checkpoint);
    } catch (const Error& e) {
        return rollBack(checkpoint, Cause::kErrored, e.what());
    }
    report_.notes.insert(report_.notes.end(), outcome.notes.begin(), outcome.notes.end());
    report_.conflicts = outcome.conflicts;
    if (outcome.applied) return finishApplying(checkpoint);
    if (!outcome.failure.empty()) return rollBack(checkpoint, Cause::kFailed, outcome.failure);
    rollBack(checkpoint, Cause::kErrored, conflictText(outcome.conflicts));
}

Checkpoint Drive::checkpointOf(const Promotion& promotion) const {
    if (!promotion.checkpoint) throw Error(ErrorCode::kDamaged, "promotion p{} has no checkpoint", promotion.id);
    return Checkpoint::decode(parts_.objects.readAll(*promotion.checkpoint, kMostCheckpoint));
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
