#include <fmt/ranges.h>

#include <algorithm>

#include "pipeline/engine/built.h"
#include "pipeline/engine/check_question.h"
#include "pipeline/engine/checked_evidence.h"
#include "pipeline/engine/drive.h"
#include "pipeline/engine/ground.h"
#include "stages/changes/output_patterns.h"
#include "stages/changes/source_tree.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

// A tree that moves faster than its checks run is not checked for ever.
constexpr int kMostRounds = 3;

template <typename Items, typename Text>
std::string listed(const Items& items, Text text) {
    std::string all;
    for (const auto& item : items) all += (all.empty() ? "" : "; ") + text(item);
    return all;
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

}  // namespace

std::string conflictText(const std::vector<Conflict>& conflicts) {
    return listed(conflicts, [](const Conflict& conflict) { return describe(conflict); });
}

StageReport Drive::climbUp(std::int64_t change) {
    entering_ = true;
    for (const Promotion& earlier : parts_.store.records().promotionsOf(change)) known_ = earlier.id;
    if (isClosed(change)) return report_;
    for (rounds_ = 0; rounds_ < kMostRounds; ++rounds_) {
        checked_.reset();
        outputs_ = {};
        source_.reset();
        Footing footing = look(change);
        if (const auto there = broughtIn(change); there && !isOpen()) {
            report_.promotion = *there;
            report_.already = true;
            return report_;
        }
        if (!footing.merge.conflicts.empty() && takesTarget())
            report_.conflicts = sharedAmong(*target_, parts_.objects, footing.change);
        if (footing.held)
            if (auto other = strayedFrom(project_, parts_.store.records(), stage_, *target_, *footing.held))
                report_.conflicts = {std::move(*other)};
        if (!report_.conflicts.empty()) {
            report_.mergeConflicts.clear();
            endRefused(footing);
            return report_;
        }
        if (!footing.merge.conflicts.empty()) {
            report_.missing = missingFor(footing);
            report_.apart = apartFrom(footing);
            endStale(footing, conflictText(footing.merge.conflicts) + missingText(stage_.name, report_.missing));
            return report_;
        }
        if (isOpen() && report_.promotion.evidence && report_.promotion.base != footing.base() &&
            stage_.policy.settings.text("freshness") == "exact") {
            endStale(footing, "the stage moved after it was checked");
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
        // Whether a person answers for it is for the gate of the rules to ask.
        std::erase_if(report_.conflicts, [](const Conflict& one) { return one.kind == ConflictKind::kProtected; });
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
    const Closed closed = closedGates(*report_.gates);
    report_.reason = closed.reason;
    if (!isOpen()) open(footing, std::nullopt, {waitingFor(closed, std::nullopt)});
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

Drive::Next Drive::park(const Footing& footing, const Closed& why) {
    if (const auto no = rejection(parts_.store.records()))
        return end({{.to = State::kRejected, .cause = Cause::kCancelled, .reason = *no}});
    Step waiting = waitingFor(why, footing.base());
    if (checked_) waiting.evidence = checked_->evidence;
    return end({waiting});
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

// Checks that saw a tree which moved have said nothing. Over a copy they do, however restless people are.
bool Drive::freeze(TreeUnderTest& tree, const Footing& footing) {
    Digest base;
    Digest source;
    const auto look = [&] {
        base = footing.held ? heldNow().value_or(HeldTree{}).digest : seedOf(footing.change).digest;
        source = tree.source();
        return base;
    };
    frozen_ = parts_.freeze(look);
    // Too large to be copied: it is looked at as it is, and whether it moves.
    if (!frozen_) return true;
    if (base != footing.base()) return false;
    tree.base = &frozen_->base();
    tree.now = {};
    tree.source = [source] { return source; };
    tree.leftOver = [this, &footing](const std::vector<std::string>& patterns) {
        return leftOvers(frozen_->base().directory, OutputPatterns(patterns), sourceOf(footing));
    };
    return true;
}

void Drive::tellIgnored() {
    std::vector<std::string> names;
    for (const CheckReport& report : report_.before) names = report.ignoredMoved;
    if (frozen_)
        if (auto moved = frozen_->moved()) names = {std::move(*moved)};
    if (names.empty()) return;
    for (std::string& name : names) name = fmt::format("'{}'", printable(name));
    report_.notes.push_back(
        fmt::format("git ignores {}, which changed while the checks of {} ran: they may have seen it, "
                    "and it is no part of what they proved",
                    fmt::join(names, ", "), stage_.name));
}

Drive::Next Drive::check(const Footing& footing) {
    enterChecking(footing);
    if (report_.promotion.state != State::kChecking) return Next::kEnd;
    TreeUnderTest tree = underTest(footing);
    if (freezes_ && isLive(footing) && parts_.freeze && !freeze(tree, footing)) {
        park(footing, {"the tree moved before it was checked"});
        return Next::kAgain;
    }
    report_.before = parts_.before(stage_, tree, progress_.checks, cancel_);
    unrecorded_ = report_.before;
    tellIgnored();
    frozen_.reset();
    if (cancel_.stop_requested()) return rejectUnlessPassed(Cause::kCancelled);
    if (std::any_of(unrecorded_.begin(), unrecorded_.end(), [](const CheckReport& report) { return report.moved; })) {
        freezes_ = true;
        park(footing, {"the tree moved while it was checked"});
        return Next::kAgain;
    }
    if (stage_.carriesOutputs) outputs_ = outputsOf(report_.before);
    checked_ = CheckedFact{provenBy(report_.before), project_.rules, oldest(report_.before, parts_.clock.now())};
    return rejectUnlessPassed(verdictOf(report_.before));
}

Drive::Next Drive::rejectUnlessPassed(Cause verdict) {
    if (verdict == Cause::kPassed) return Next::kOn;
    if (verdict == Cause::kCancelled) return endStopped();
    return end({{.to = State::kRejected, .cause = verdict, .reason = failuresOf(report_.before)}});
}

// Nothing real is touched yet.
Drive::Next Drive::endStopped() {
    if (const auto no = rejection(parts_.store.records()))
        return end({{.to = State::kRejected, .cause = Cause::kCancelled, .reason = *no}});
    // Whoever drives another's promotion stops driving it, and that is all.
    if (promoter_ && *promoter_ != parts_.actor)
        return end({{.to = State::kWaiting, .reason = fmt::format("{} stopped driving it", parts_.actor.name)}});
    return end({{.to = State::kWaiting}, {.to = State::kCancelled, .cause = Cause::kCancelled, .reason = "stopped"}});
}

Drive::Next Drive::end(const std::vector<Step>& steps, const std::vector<Approval>& used) {
    commit(steps, {.checks = unrecorded_, .used = used});
    unrecorded_.clear();
    return Next::kEnd;
}

}  // namespace gradus
