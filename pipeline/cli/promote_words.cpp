#include "pipeline/cli/promote_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "pipeline/cli/climb_view.h"
#include "pipeline/engine/step_words.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

std::vector<std::string> stagesUpTo(const Engine& engine, const std::string& to) {
    std::vector<std::string> names;
    for (const Stage& stage : engine.project().pipeline.stages) {
        names.push_back(stage.name);
        if (stage.name == to) break;
    }
    return names;
}

std::string lastStage(const Engine& engine) { return engine.project().pipeline.stages.back().name; }

std::string workTreeStage(const Engine& engine) {
    for (const Stage& stage : engine.project().pipeline.stages)
        if (stage.driver == "worktree") return stage.name;
    throw Error(ErrorCode::kNotAllowed, "no stage of this pipeline is the work tree")
        .hint("name the stage: gradus promote --to STAGE");
}

std::string kindAndName(const Actor& actor) {
    return fmt::format("{}:{}", nameOf(kActorKinds, actor.kind), printable(actor.name));
}

std::string promoterText(const Engine& engine, std::int64_t promotion) {
    const auto actor = engine.promoterOf(promotion);
    return actor ? kindAndName(*actor) : "somebody";
}

std::string wayOutOf(const Engine& engine, std::int64_t stuck) {
    const Promotion promotion = *engine.find(stuck);
    try {
        engine.requireTakeable(promotion);
    } catch (const Error& e) {
        if (!e.hint().empty()) return e.hint();
    }
    const std::string id = promotionHandle(stuck);
    const std::string again = fmt::format("`gradus rollback {}` tries to take it back again", id);
    const std::string byHand =
        fmt::format("; or put its target right by hand, then `gradus adopt {}`", printable(promotion.stage));
    // What was to be taken out is nothing that somebody wants in.
    return (promotion.undoes ? again : fmt::format("{}, then `gradus retry {}` brings it in anew", again, id)) + byHand;
}

std::vector<std::string> nextAfter(const Engine& engine, const StageReport& report, bool isWorkTree,
                                   const std::string& goal) {
    std::vector<std::string> next = nextAfter(report, isWorkTree, goal);
    const auto back = std::ranges::find(next, "gradus rollback " + report.promotion.stage);
    if (back == next.end()) return next;
    if (const auto command = wayBackOf(engine, report.promotion).command)
        *back = *command;
    else
        next.erase(back);
    return next;
}

Result interruptedOr(Result result, const Interrupt& interrupt) {
    // That a target was touched and is as it was says more than that somebody stopped it.
    if (interrupt.signal() == 0 || result.exit == Exit::kOk || result.exit == Exit::kRestored) return result;
    result.exit = interrupt.signal() == SIGTERM ? Exit::kTerminated : Exit::kInterrupted;
    return result;
}

}  // namespace gradus
