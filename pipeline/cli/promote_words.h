#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/cli/context.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/cli/verb.h"
#include "pipeline/engine/engine.h"

namespace gradus {

// What the verbs that bring changes up, take them back and tend to them share.

inline const Option kDryRun{.name = "dry-run", .doc = "say what would happen, and do nothing"};

/// Of a promotion that waited longer than its stage lets one wait: nobody has ended it yet.
inline constexpr std::string_view kWaitIsOver =
    "its time to wait is over: `gradus recover`, or whoever promotes next, ends it";

/// All of them where there is no stage `to`.
std::vector<std::string> stagesUpTo(const Engine& engine, const std::string& to);
std::string lastStage(const Engine& engine);
/// The stage that is the project's own work tree. Throws Error(kNotAllowed) where there is none.
std::string workTreeStage(const Engine& engine);

/// "person:ada".
std::string kindAndName(const Actor& actor);
/// In whose name a promotion moved last, as text.
std::string promoterText(const Engine& engine, std::int64_t promotion);

/// What a person can do about a stage that this one got stuck in: whole commands, as far as only a person knows more.
std::string wayOutOf(const Engine& engine, std::int64_t stuck);
/// nextAfter() of climb_view.h, where the engine is there to be asked: what takes something back is proposed as it is
/// accepted.
std::vector<std::string> nextAfter(const Engine& engine, const StageReport& report, bool isWorkTree = false,
                                   const std::string& goal = "");

/// The result, with the exit code of whoever was stopped by a signal.
Result interruptedOr(Result result, const Interrupt& interrupt);

}  // namespace gradus
