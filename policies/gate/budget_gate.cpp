#include <fmt/format.h>

#include <algorithm>

#include "policies/gate/consent.h"
#include "policies/language/duration.h"

namespace gradus {

namespace {

struct Limit {
    const char* name;
    const std::vector<Time>& times;
};

/// When fewer than `most` of the times lie within the last `per`; nothing if it is so already.
std::optional<Time> freeAgain(std::vector<Time> times, std::int64_t most, Milliseconds per, Time now) {
    std::sort(times.rbegin(), times.rend());
    if (times.size() < static_cast<std::size_t>(most)) return std::nullopt;
    const Time free = times[static_cast<std::size_t>(most) - 1] + per;
    return now < free ? std::optional(free) : std::nullopt;
}

/// Open by somebody's word or closed; what is used up comes back by itself at `free`.
GateAnswer usedUp(const GateInput& input, const std::string& reason, const std::string& rule, Time free) {
    GateAnswer answer = personGate(input, Gate::kBudget, reason, rule);
    if (answer.state == GateState::kClosed) {
        answer.next = free;
        answer.unblock.emplace_back("time");
    } else if (answer.next && free <= *answer.next) {
        answer.next.reset();  // By then nobody's word is needed.
    }
    return answer;
}

}  // namespace

/// Machines have not yet done here what they may do within the time, or a person answers for one more.
GateAnswer budgetGate(const GateInput& input) {
    const Value* budget = input.stage.policy.settings.find("budget");
    if (budget == nullptr) return notApplicable(Gate::kBudget, "the policy sets no budget");
    const Milliseconds per(budget->fields.at("per").number);
    std::string reason;
    std::optional<Time> free;
    for (const Limit& limit :
         {Limit{"promotions", input.facts.spent.promotions}, Limit{"rollbacks", input.facts.spent.rollbacks}}) {
        const auto most = budget->fields.find(limit.name);
        if (most == budget->fields.end()) continue;
        const auto again = freeAgain(limit.times, most->second.number, per, input.now);
        if (!again) continue;
        reason += fmt::format("{}{} {} in {} are used up", reason.empty() ? "" : "; ", most->second.number, limit.name,
                              formatDuration(per));
        free = std::max(free.value_or(*again), *again);
    }
    if (!free) return open(Gate::kBudget, "the budget is not used up", budget->origin.text());
    return usedUp(input, reason, budget->origin.text(), *free);
}

}  // namespace gradus
