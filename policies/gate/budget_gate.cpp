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

// A test that is red by chance is worth another look or two; one that stays red is not worth every second.
constexpr std::size_t kFreeTries = 3;
constexpr Milliseconds kFirstPause{30'000};
constexpr Milliseconds kLongestPause{3'600'000};
constexpr std::size_t kMostDoublings = 7;

/// When a machine may ask the same checks about the same revision again; nothing: now. `failures`: newest first.
std::optional<Time> worthAnother(const std::vector<Time>& failures, Time now) {
    if (failures.size() < kFreeTries) return std::nullopt;
    const auto doublings = static_cast<int>(std::min(failures.size() - kFreeTries, kMostDoublings));
    const Time free = failures.front() + std::min(kFirstPause * (1 << doublings), kLongestPause);
    return now < free ? std::optional(free) : std::nullopt;
}

std::string triesText(std::size_t failures) {
    return fmt::format("its checks failed {} times here, so machines pause before they run them again", failures);
}

/// What the policy's own budget says; nothing: it is not used up.
struct Spending {
    std::string reason;
    std::optional<Time> free;
};
Spending spendingOf(const GateInput& input, const Value& budget) {
    const Milliseconds per(budget.fields.at("per").number);
    Spending spending;
    for (const Limit& limit :
         {Limit{"promotions", input.facts.spent.promotions}, Limit{"rollbacks", input.facts.spent.rollbacks}}) {
        const auto most = budget.fields.find(limit.name);
        if (most == budget.fields.end()) continue;
        const auto again = freeAgain(limit.times, most->second.number, per, input.now);
        if (!again) continue;
        spending.reason += fmt::format("{}{} {} in {} are used up", spending.reason.empty() ? "" : "; ",
                                       most->second.number, limit.name, formatDuration(per));
        spending.free = std::max(spending.free.value_or(*again), *again);
    }
    return spending;
}

}  // namespace

/// Machines have not yet done here what they may do within the time, or a person answers for one more.
GateAnswer budgetGate(const GateInput& input) {
    const Value* budget = input.stage.policy.settings.find("budget");
    const std::vector<Time>& failures = input.facts.spent.failures;
    const auto pause = worthAnother(failures, input.now);
    const Spending spending = budget == nullptr ? Spending{} : spendingOf(input, *budget);
    const std::string rule = budget == nullptr ? "" : budget->origin.text();
    // Nobody is asked for a consent to that: the checks are what it is about, and they have not passed.
    if (pause && input.facts.promoter.kind != ActorKind::kPerson) {
        GateAnswer answer = closed(Gate::kBudget, triesText(failures.size()), rule);
        answer.since = failures.front();
        answer.next = pause;
        answer.unblock = {"a person who promotes it", "time"};
        return answer;
    }
    if (spending.free) return usedUp(input, spending.reason, rule, *spending.free);
    if (budget == nullptr) return notApplicable(Gate::kBudget, "the policy sets no budget");
    return open(Gate::kBudget, "the budget is not used up", rule);
}

}  // namespace gradus
