#include <algorithm>
#include <set>

#include "pipeline/service/execution_story.h"
#include "pipeline/service/service.h"
#include "stages/sandbox/owner.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

/// As far back as a promotion's last step is looked for: checks run at most for hours.
constexpr std::int64_t kMostMoves = 1000;

/// The promotions whose last step before then was to their checks.
std::vector<std::int64_t> checkingAt(Sql& sql, std::int64_t project, Time then) {
    const AuditQuery query{
        .until = then + Milliseconds(1), .kind = EventKind::kPromotionMoved, .project = project, .limit = kMostMoves};
    const auto moves = queryEvents(sql, query);
    std::set<std::int64_t> seen;
    std::vector<std::int64_t> checking;
    for (auto move = moves.rbegin(); move != moves.rend(); ++move)
        if (seen.insert(*move->promotion).second &&
            move->fields.text("to") == nameOf(kPromotionStates, PromotionState::kChecking))
            checking.push_back(*move->promotion);
    std::sort(checking.begin(), checking.end());
    return checking;
}

/// Until somebody tidies up, the record says that it runs although whoever waited for it is gone.
bool isLost(const SandboxRecords& records, const Execution& execution) {
    if (execution.state != ExecutionState::kRunning) return false;
    const auto running = records.running();
    return std::any_of(running.begin(), running.end(),
                       [&](const RunningExecution& one) { return one.id == execution.id && isProvenDead(one.owner); });
}

}  // namespace

ExecutionStory Service::executionStory(std::int64_t id) {
    Store& store = existing();
    const Records& records = store.records();
    const auto execution = records.sandboxes().execution(id);
    if (!execution)
        throw Error(ErrorCode::kNotFound, "there is no execution {}", executionHandle(id))
            .hint("`gradus audit query --event execution.started` lists them");
    ExecutionStory story{.execution = *execution};
    if (isLost(records.sandboxes(), *execution)) story.execution.state = ExecutionState::kLost;
    if (const auto sandbox = records.sandboxes().sandbox(execution->sandbox)) story.project = sandbox->project;
    if (const auto promotion = records.promotionOfExecution(id)) {
        for (const CheckResult& check : records.checkResults(*promotion))
            if (check.execution == id) story.check = check;
    } else if (story.project) {
        story.during = checkingAt(store.sql(), *story.project, execution->startedAt);
    }
    return story;
}

}  // namespace gradus
