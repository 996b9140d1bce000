#include "policies/gate/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "policies/gate/gates.h"
#include "policies/language/duration.h"

namespace gradus {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kStepTexts{
    Name<NextStep>{NextStep::kApply, "every gate is open"},
    Name<NextStep>{NextStep::kCheck, "the checks of the stage run next"},
    Name<NextStep>{NextStep::kMerge, "it is merged with what the stage holds next"},
    Name<NextStep>{NextStep::kWait, "it waits"},
    Name<NextStep>{NextStep::kSupersede, "it ends: a later revision took its place"},
    Name<NextStep>{NextStep::kStale, "it ends: it no longer fits what the stage holds"},
};

/// At most two units: what is a month away is not told to the second.
std::string roughly(Milliseconds duration) {
    using namespace std::chrono;
    if (duration >= days(1)) return formatDuration(floor<hours>(duration));
    if (duration >= hours(1)) return formatDuration(floor<minutes>(duration));
    return formatDuration(floor<seconds>(duration));
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
    return text;
}

std::string gateLine(const GateAnswer& answer) {
    const std::string_view state = answer.state == GateState::kNotApplicable ? "-" : nameOf(kGateStates, answer.state);
    std::string line = fmt::format("  {:<15}  {:<6}  {}", nameOf(kGates, answer.gate), state, answer.reason);
    if (!answer.rule.empty()) line += fmt::format("  [{}]", answer.rule);
    return line;
}

/// What follows the line of a closed gate.
std::string waitingLine(const GateAnswer& answer, Time now) {
    std::vector<std::string> parts;
    if (answer.since) parts.push_back("since " + minuteText(*answer.since));
    if (answer.next)
        parts.push_back(fmt::format("opens {} (in {})", minuteText(*answer.next), roughly(*answer.next - now)));
    if (!answer.unblock.empty()) parts.push_back("opened by " + joined(answer.unblock, " or "));
    if (answer.needsPerson) parts.emplace_back(answer.ask ? "people are asked now" : "asked for when the rest is open");
    return std::string(27, ' ') + joined(parts, "; ");
}

Json timeJson(const std::optional<Time>& time) { return time ? Json(formatTime(*time)) : Json(); }

Json gateJson(const GateAnswer& answer) {
    return {{"gate", nameOf(kGates, answer.gate)},
            {"state", nameOf(kGateStates, answer.state)},
            {"reason", answer.reason},
            {"rule", answer.rule.empty() ? Json() : Json(answer.rule)},
            {"since", timeJson(answer.since)},
            {"next", timeJson(answer.next)},
            {"unblock", answer.unblock},
            {"ask", answer.ask},
            {"overridden_by", answer.overriddenBy.empty() ? Json() : Json(answer.overriddenBy)}};
}

}  // namespace

std::vector<std::string> explainLines(const Decision& decision, Time now, bool all) {
    const auto closedCount = std::count_if(decision.gates.begin(), decision.gates.end(),
                                           [](const GateAnswer& answer) { return answer.state == GateState::kClosed; });
    std::vector<std::string> lines{std::string(nameOf(kStepTexts, decision.step))};
    if (closedCount > 0) lines[0] += fmt::format(": {} of {} gates closed", closedCount, decision.gates.size());
    for (const GateAnswer& answer : decision.gates) {
        const bool isClosed = answer.state == GateState::kClosed;
        if (isClosed || all || !answer.overriddenBy.empty()) lines.push_back(gateLine(answer));
        if (isClosed) lines.push_back(waitingLine(answer, now));
    }
    for (const ApprovalAnswer& approval : decision.approvals)
        if (!approval.counts)
            lines.push_back(fmt::format("  approval {} of {}, given {}, does not count: it {}", approval.id,
                                        actorText(approval.by), minuteText(approval.at), approval.why));
    return lines;
}

std::string explainJson(const Decision& decision) {
    Json gates = Json::array();
    for (const GateAnswer& answer : decision.gates) gates.push_back(gateJson(answer));
    Json approvals = Json::array();
    for (const ApprovalAnswer& approval : decision.approvals)
        approvals.push_back({{"id", approval.id},
                             {"by", actorText(approval.by)},
                             {"given", formatTime(approval.at)},
                             {"counts", approval.counts},
                             {"why", approval.why.empty() ? Json() : Json(approval.why)},
                             {"expired", timeJson(approval.expired)}});
    const Json whole{{"step", nameOf(kNextSteps, decision.step)},
                     {"asks", decision.asks()},
                     {"next", timeJson(decision.next)},
                     {"gates", gates},
                     {"approvals", approvals}};
    // Reasons hold what people typed and what paths are called: not always UTF-8.
    return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gradus
