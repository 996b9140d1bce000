#include "policies/gate/gates.h"

#include <fmt/format.h>

namespace gradus {

namespace {

GateAnswer answered(Gate gate, GateState state, std::string reason, std::string rule) {
    GateAnswer answer;
    answer.gate = gate;
    answer.state = state;
    answer.reason = std::move(reason);
    answer.rule = std::move(rule);
    return answer;
}

}  // namespace

GateAnswer open(Gate gate, std::string reason, std::string rule) {
    return answered(gate, GateState::kOpen, std::move(reason), std::move(rule));
}

GateAnswer closed(Gate gate, std::string reason, std::string rule) {
    return answered(gate, GateState::kClosed, std::move(reason), std::move(rule));
}

GateAnswer notApplicable(Gate gate, std::string reason) {
    return answered(gate, GateState::kNotApplicable, std::move(reason), {});
}

std::string ruleOf(const GateInput& input, std::string_view key) {
    const Value* value = input.stage.policy.settings.find(key);
    return value == nullptr ? std::string() : value->origin.text();
}

std::string actorText(const Actor& actor) {
    if (actor.kind == ActorKind::kPerson) return actor.name;
    return fmt::format("{} {}", nameOf(kActorKinds, actor.kind), actor.name);
}

std::string listText(const std::vector<std::string>& names, std::size_t most) {
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
    return text;
}

std::string minuteText(Time time) {
    std::string text = formatTime(time).substr(0, 16);
    text[10] = ' ';
    return text + " UTC";
}

std::string inBrackets(const std::string& reason) { return reason.empty() ? std::string() : " (" + reason + ")"; }

}  // namespace gradus
