// What to tell of a promotion that ended, and what makes sense after it.
#include <fmt/format.h>

#include <algorithm>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/envelope.h"
#include "pipeline/cli/printable.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

using State = PromotionState;

/// What a person can do about a stage that is stuck.
std::string wayOut(const StageReport& report) {
    const std::string id = promotionHandle(report.promotion.id);
    const auto open = std::find_if(report.steps.begin(), report.steps.end(),
                                   [](const StepRecord& step) { return isOpen(step.state); });
    if (open != report.steps.end())
        return fmt::format(
            "stage {0} is closed. Look whether what {1} did is there, then say so: `gradus rollback {2} --done {1}{3}, "
            "`gradus rollback {2} --not-done {1}` undoes only the rest",
            report.promotion.stage, open->name, id,
            report.irreversible.contains(open->name) ? " --insist REASON` leaves it there and undoes the rest"
                                                     : "` undoes it with the rest");
    if (!report.irreversible.empty())
        return fmt::format(
            "stage {0} is closed, and what step {1} did cannot be undone: `gradus rollback {2} --insist REASON` takes "
            "the rest back; or `gradus adopt {0}` takes what is there, put right by hand or not, for what it holds: "
            "then bring a change that mends it",
            report.promotion.stage, *report.irreversible.begin(), id);
    return fmt::format(
        "stage {0} is closed. Once the cause is gone, `gradus rollback {1}` tries again; or put its target right by "
        "hand, then `gradus adopt {0}`",
        report.promotion.stage, id);
}

/// It has begun to touch its target, and has come to no end.
bool isUnderWay(const Promotion& promotion) {
    return promotion.id != 0 && promotion.checkpoint && !isFinal(promotion.state);
}

/// What is known of a target that a fault left in the middle, and the way on.
Problem problemUnderWay(const StageReport& report) {
    const Promotion& promotion = report.promotion;
    const bool isSwitched = promotion.state == State::kVerifying || promotion.state == State::kSoaking;
    Problem problem = problemOf(*report.fault);
    problem.message = fmt::format("{} stands at {} in {}, whose target {} switched: {}", promotionHandle(promotion.id),
                                  nameOf(kPromotionStates, promotion.state), promotion.stage,
                                  isSwitched ? "was" : "may have been", problem.message);
    // What a fault of the machine says was not changed is the record alone.
    if (report.fault->code() == ErrorCode::kInfrastructure || problem.hint.empty())
        problem.hint =
            "put that right (on a full disk `gradus gc` and `gradus sandbox rm` make room), then `gradus recover` "
            "brings it to its end: on, or back";
    return problem;
}

// A rebase puts it onto the project, and the stage holds something else there: it would be stale for ever.
std::string wayOfOtherTree(const StageReport& report) {
    return fmt::format(
        "{0} holds something else there than the project, so a rebase does not help. Bring {1} into the project and "
        "commit it, then make the change on top of that; or take out of {0} what should not be there: gradus rollback "
        "{0}",
        report.promotion.stage, report.apart.front().native());
}

std::string bringMissing(const StageReport& report) {
    return fmt::format("gradus promote {} --to {}", changeHandle(report.missing.front()), report.promotion.stage);
}

// What a failed check left is there to be looked at.
std::vector<std::string> withReopen(const StageReport& report, std::vector<std::string> next) {
    for (const CheckReport& check : report.before)
        if (check.answer.isKept && check.answer.execution)
            next.insert(next.begin(), "gradus reopen " + executionHandle(*check.answer.execution));
    return next;
}

bool isAny(const StageReport& report, std::initializer_list<ConflictKind> kinds) {
    return std::any_of(report.conflicts.begin(), report.conflicts.end(), [&](const Conflict& conflict) {
        return std::find(kinds.begin(), kinds.end(), conflict.kind) != kinds.end();
    });
}

/// A path at which nothing is known that a merge could start from: no second attempt changes that.
const MergeConflict* withoutOrigin(const StageReport& report) {
    const auto found = std::ranges::find_if(report.mergeConflicts, [](const MergeConflict& conflict) {
        return conflict.kind == MergeConflictKind::kUnknownBefore || conflict.kind == MergeConflictKind::kNoAncestor;
    });
    return found == report.mergeConflicts.end() ? nullptr : &*found;
}

/// It fits; but what it was checked on was not there any more when it could have gone in.
bool isOnlyLate(const StageReport& report) {
    return report.promotion.state == PromotionState::kStale && report.conflicts.empty() &&
           report.mergeConflicts.empty() && report.missing.empty() && report.apart.empty();
}

/// A merge helps where the stage holds another tree, and nowhere else.
std::vector<std::string> nextAfterStale(const StageReport& report, bool isWorkTree) {
    const std::string id = promotionHandle(report.promotion.id);
    const std::string change = changeHandle(report.promotion.change);
    if (isOnlyLate(report)) return {"gradus retry " + id, "gradus why " + id};
    if (!report.missing.empty()) return {bringMissing(report), "gradus retry " + id};
    if (isAny(report, {ConflictKind::kNotCommitted, ConflictKind::kFiltered}))
        return {"git status", "gradus retry " + id};
    if (isAny(report, {ConflictKind::kForeign, ConflictKind::kShared, ConflictKind::kProtected}))
        return {"gradus show " + change, "gradus why " + id};
    if (withoutOrigin(report) != nullptr) return {"gradus diff " + change, "gradus show " + change};
    if (!report.apart.empty()) return {"gradus audit timeline " + report.promotion.stage, "gradus diff " + change};
    if (isAny(report, {ConflictKind::kOtherTree}))
        return {"gradus adopt " + report.promotion.stage, "gradus retry " + id};
    // Onto the work tree it was to be put just now.
    if (isWorkTree || !report.conflicts.empty()) return {"gradus diff " + change, "gradus retry " + id};
    return {"gradus rebase " + change, "gradus diff " + change};
}

/// What opens the first closed gate that only a word opens; nothing: it opens by itself, or by another promotion.
std::optional<std::string> wordThatOpens(const StageReport& report) {
    const std::string change = changeHandle(report.promotion.change);
    for (const GateAnswer& gate : report.gates ? report.gates->gates : std::vector<GateAnswer>{}) {
        if (!isWaitedFor(gate)) continue;
        if (gate.gate == Gate::kHalt) return gate.everywhere ? "gradus resume --everywhere" : "gradus resume";
        if (gate.gate == Gate::kQuarantine) return "gradus adopt " + report.promotion.stage;
        if (gate.gate == Gate::kVeto) return "gradus unveto " + change;
        if (gate.gate == Gate::kPin) return "gradus unpin " + report.promotion.stage;
    }
    return std::nullopt;
}

}  // namespace

Exit exitOf(const StageReport& report) {
    if (report.fault) return faceOf(report.fault->code()).exit;
    if (report.elsewhere) return faceOf(ErrorCode::kBusy).exit;
    switch (report.promotion.state) {
        case State::kPromoted:
            return Exit::kOk;
        case State::kRejected:
            if (report.promotion.cause == Cause::kCancelled) return Exit::kDeclined;
            return report.promotion.cause == Cause::kErrored ? Exit::kInfrastructure : Exit::kFailed;
        case State::kRolledBack:
            return Exit::kRestored;
        case State::kStuck:
            return Exit::kInfrastructure;
        case State::kCancelled:
            return Exit::kDeclined;
        case State::kStale:
        case State::kSuperseded:
        case State::kExpired:
            return Exit::kFailed;
        default:
            return Exit::kWaiting;
    }
}

std::optional<Problem> problemOf(const StageReport& report) {
    const Promotion& promotion = report.promotion;
    if (report.succeeded()) return std::nullopt;
    if (report.fault && isUnderWay(promotion)) return problemUnderWay(report);
    if (report.fault) {
        Problem problem = problemOf(*report.fault);
        problem.message =
            fmt::format("{} did not enter {}: {}", changeHandle(promotion.change), promotion.stage, problem.message);
        // It says nothing about the change: another attempt may go well.
        problem.retryable = problem.retryable || report.fault->code() == ErrorCode::kInfrastructure;
        if (problem.hint.empty()) problem.hint = "put that right, then try again; stages above that have it keep it";
        return problem;
    }
    if (report.elsewhere)
        return problemOf(Error(ErrorCode::kBusy, "{} is {} in {}, and another process drives it",
                               promotionHandle(promotion.id), nameOf(kPromotionStates, promotion.state),
                               promotion.stage)
                             .hint("wait for it; `gradus status` shows how far it is"));
    Problem problem;
    problem.code = std::string(nameOf(kPromotionStates, promotion.state));
    problem.message = fmt::format("{} {} {}: {}{}", changeHandle(promotion.change),
                                  promotion.undoes ? "was not taken back out of" : "did not enter", promotion.stage,
                                  problem.code, report.reason.empty() ? "" : " (" + report.reason + ")");
    problem.retryable = promotion.cause == Cause::kErrored || promotion.state == State::kWaiting;
    if (promotion.state == State::kStuck) problem.hint = wayOut(report);
    if (promotion.state == State::kRejected && isAny(report, {ConflictKind::kNoSpace}))
        problem.hint = fmt::format("free space there, then `gradus retry {}`", promotionHandle(promotion.id));
    if (isOnlyLate(report))
        problem.hint = fmt::format("nothing is wrong with it: `gradus retry {}` while less is going on in {}",
                                   promotionHandle(promotion.id), promotion.stage);
    if (!report.apart.empty()) problem.hint = wayOfOtherTree(report);
    if (const MergeConflict* conflict = withoutOrigin(report))
        problem.hint =
            fmt::format("neither a rebase nor another attempt helps: make the change anew on what {} holds in {} now",
                        promotion.stage, printable(conflict->path));
    if (isAny(report, {ConflictKind::kOtherTree}))
        problem.hint = fmt::format(
            "bring back what {0} held; or take what is there for what it holds: `gradus adopt {0}`", promotion.stage);
    if (!report.missing.empty())
        problem.hint = fmt::format("promote {} first: {}", changeHandle(report.missing.front()), bringMissing(report));
    return problem;
}

std::vector<std::string> nextAfter(const StageReport& report, bool isWorkTree, const std::string& goal) {
    const Promotion& promotion = report.promotion;
    const std::string id = promotionHandle(promotion.id);
    const std::string change = changeHandle(promotion.change);
    const std::string goOn = fmt::format("gradus promote {} --to {}", change, goal.empty() ? promotion.stage : goal);
    if (promotion.id == 0) return {"gradus status", goOn};
    if (report.fault && isUnderWay(promotion)) return {"gradus recover", "gradus why " + id};
    switch (promotion.state) {
        case State::kPromoted:
            return {"gradus status"};
        case State::kRejected:
            if (promotion.cause == Cause::kErrored) return {"gradus retry " + id, "gradus why " + id};
            return withReopen(report, {"gradus logs " + id, "gradus show " + change});
        case State::kStale:
            return nextAfterStale(report, isWorkTree);
        case State::kWaiting:
            if (const auto word = wordThatOpens(report)) return {"gradus why " + id, *word, goOn};
            if (report.gates && report.gates->asks())
                return {"gradus why " + id, "gradus approve " + change + " --to " + promotion.stage, goOn};
            return {"gradus why " + id, goOn};
        case State::kVerifying:
        case State::kSoaking:
            if (report.elsewhere) return {"gradus why " + id, "gradus cancel " + id};
            return {"gradus rollback " + promotion.stage, "gradus why " + id};
        default:
            return {"gradus why " + id, "gradus logs " + id};
    }
}

}  // namespace gradus
