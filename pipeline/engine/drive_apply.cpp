#include <fmt/ranges.h>

#include <algorithm>

#include "pipeline/engine/command_mark.h"
#include "pipeline/engine/drive.h"
#include "pipeline/engine/ground.h"
#include "pipeline/engine/verified.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

std::size_t filesAmong(const ChangeSet& outputs) {
    return static_cast<std::size_t>(std::ranges::count_if(outputs.changes(), [](const PathChange& change) {
        return change.after && change.after->type != EntryType::kDirectory;
    }));
}

/// Paths of the change that the tree had already, as far as others of it are written.
std::vector<std::string> thereBefore(const Footing& footing) {
    std::vector<std::string> paths;
    for (const PathChange& change : footing.merge.whole.changes()) {
        const bool isWritten = std::ranges::find(footing.changes.changes(), change.path, &PathChange::path) !=
                               footing.changes.changes().end();
        const bool isFile = (change.after ? change.after : change.before)->type != EntryType::kDirectory;
        if (!isWritten && isFile) paths.push_back(change.path);
    }
    return footing.changes.empty() ? std::vector<std::string>() : paths;
}

}  // namespace

Drive::Next Drive::lockTarget(const Footing& footing) {
    if (!takesTarget()) return Next::kOn;
    try {
        lock_ = TargetLock::take(target_->identity(), claim(), parts_.files,
                                 {.patience = parts_.targetPatience, .takeOver = false, .look = noneHalfWay()});
    } catch (const Error& e) {
        if (e.code() == ErrorCode::kBusy) return park(footing, {e.what()});
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
    park(footing, {moved});
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
    lock_ = TargetLock::take(
        target_->identity(), claim(), parts_.files,
        {.patience = parts_.targetPatience, .takeOver = false, .isWayBack = true, .look = noneHalfWay()});
    const auto process =
        CommandMark::stillRunning(commandMark(parts_.state, project_.stateRoot(), stage_.name), parts_.targetPatience);
    if (!process) return;
    throw Error(ErrorCode::kBusy, "a command in {} still runs although the process that drove it is gone{}",
                stage_.name, *process > 0 ? fmt::format(": process {}", *process) : "")
        .hint("wait for it to end, or end it; then `gradus recover`");
}

void Drive::requireFreeTarget() const {
    if (!takesTarget()) return;
    const TargetIdentity target = target_->identity();
    TargetLock::requireOurs(target, claim());
    if (const auto found = TargetLock::claimOf(target.marker))
        requireNoneHalfWay(project_, parts_, stage_.name, *found);
}

std::function<void(const TargetClaim&)> Drive::noneHalfWay() const {
    return [this](const TargetClaim& found) { requireNoneHalfWay(project_, parts_, stage_.name, found); };
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

std::optional<Promotion> Drive::broughtIn(std::int64_t change) const {
    if (asksAll_) return std::nullopt;
    const auto there = standingIn(project_, parts_.store.records(), change, stage_.name);
    return there && there->id != report_.promotion.id && there->id > known_ ? there : std::nullopt;
}

// While it was checked the world went on.
std::optional<Drive::Step> Drive::overtaken(const Footing& footing) const {
    if (auto no = rejection(parts_.store.records()))
        return Step{.to = State::kRejected, .cause = Cause::kCancelled, .reason = std::move(*no)};
    if (const auto there = broughtIn(footing.change.id))
        return Step{.to = State::kSuperseded, .reason = promotionHandle(there->id) + " brought it in"};
    return std::nullopt;
}

std::optional<std::string> Drive::rejection(const Records& records) const {
    // What is taken out is not wanted in anyway.
    if (report_.promotion.undoes) return std::nullopt;
    for (const Hold& hold : records.words().holds(project_.id))
        if (hold.onlyMachines && !hold.promotion && hold.change == report_.promotion.change &&
            hold.stage == stage_.name && hold.seq > begun_)
            return fmt::format("{} said no{}", records.actor(hold.by).value_or(Actor{}).name,
                               hold.reason && !hold.reason->empty() ? ": " + *hold.reason : "");
    return std::nullopt;
}

std::optional<StepTrouble> Drive::stopped() const {
    if (auto no = rejection(parts_.store.records())) return StepTrouble{Cause::kCancelled, std::move(*no)};
    if (cancel_.stop_requested()) return StepTrouble{Cause::kCancelled, "stopped"};
    return std::nullopt;
}

Drive::Next Drive::apply(const Footing& footing) {
    try {
        return enterTarget(footing);
    } catch (const Rejected&) {
        if (takesTarget()) tidyIfPossible();
        return endStopped();
    }
}

Drive::Next Drive::enterTarget(const Footing& footing) {
    if (areOutdated(project_, parts_.store.records()))
        return park(footing, {"the rules in force are others than when it began; promote it again"});
    if (const auto end = overtaken(footing)) return this->end({{.to = State::kWaiting}, *end});
    report_.gates = decideNow(footing);
    if (report_.gates->step == NextStep::kSupersede)
        return end(
            {{.to = State::kWaiting}, {.to = State::kSuperseded, .reason = report_.gates->at(Gate::kQueue).reason}});
    if (report_.gates->step != NextStep::kApply) return park(footing, closedGates(*report_.gates));
    if (cancel_.stop_requested()) return endStopped();
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
    warnOfHazards(footing);
    tidyTarget();
    lookBeforeSwitch();
    const Checkpoint checkpoint = target_->checkpoint(change);
    const PromotionIntent intent{
        target_->identity().canonical,
        parts_.objects.put(checkpoint.encode()),
        footing.tree(),
        footing.held ? std::optional(footing.held->digest) : std::nullopt,
        stage_.steps.empty() ? std::nullopt : std::optional(parts_.objects.put(encodeSteps(stage_.steps))),
        static_cast<std::int64_t>(footing.changes.changes().size())};
    // The way back is on record before anything is touched: a crash in between must leave enough to undo.
    end({{.to = State::kApplying, .cause = Cause::kPassed, .intent = intent}}, used);
    report_.outputs = filesAmong(outputs_);
    if (const auto paths = thereBefore(footing); stage_.settings.flag("commit") && !paths.empty())
        report_.notes.push_back(
            fmt::format("not in its commit: {}, which the work tree had before it came; those are "
                        "yours to commit (git add, git commit)",
                        fmt::join(paths, ", ")));
    act(checkpoint);
    return Next::kEnd;
}

void Drive::tidyTarget() {
    std::vector<Checkpoint> needed;
    const TargetIdentity target = target_->identity();
    for (const Promotion& promotion : parts_.store.records().takeable(project_.id, stage_.name))
        // What went into another target, by whatever driver, is nothing that this one could know.
        if (promotion.target && target.isNamedBy(*promotion.target)) needed.push_back(checkpointOf(promotion));
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
    const bool mayStop = steps.irreversible() == nullptr;
    if (!mayStop) target_ = parts_.driver(stage_, {});
    if (const auto stop = mayStop ? stopped() : std::nullopt) return rollBack(checkpoint, stop->cause, stop->reason);
    ApplyOutcome outcome;
    try {
        outcome = target_->apply(checkpoint);
    } catch (const Error& e) {
        return rollBack(checkpoint, Cause::kErrored, e.what());
    }
    // A command that was stopped says nothing about the change.
    const auto stop = mayStop && !outcome.applied ? stopped() : std::nullopt;
    report_.notes.insert(report_.notes.end(), outcome.notes.begin(), outcome.notes.end());
    report_.conflicts = outcome.conflicts;
    if (outcome.applied) return finishApplying(checkpoint);
    if (stop) return rollBack(checkpoint, stop->cause, stop->reason);
    if (!outcome.failure.empty()) return rollBack(checkpoint, Cause::kFailed, outcome.failure);
    rollBack(checkpoint, Cause::kErrored, conflictText(outcome.conflicts));
}

}  // namespace gradus
