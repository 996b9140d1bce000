#include <fmt/format.h>

#include <algorithm>

#include "policies/gate/gates.h"
#include "policies/gate/window_time.h"

namespace gradus {

namespace {

// Windows that close and open each other for ever without a change in sight; past this many moments we stop looking.
constexpr int kMostMoments = 10'000;

struct Binding {
    const Window* window;
    bool isDeny;
    std::optional<WindowTime> time;  // nothing: its zone is not known here
};

bool contains(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool bindsHere(const Window& window, const GateInput& input) {
    const auto actors = window.settings.list("actors");
    return contains(window.settings.list("stages"), input.stage.name) &&
           (actors.empty() || contains(actors, nameOf(kActorKinds, input.facts.promoter.kind)));
}

Binding bindingOf(const Window& window, const Zones& zones) {
    const Value* deny = window.settings.find("deny");
    const Value& when = deny != nullptr ? *deny : *window.settings.find("allow");
    Binding binding{&window, deny != nullptr, std::nullopt};
    const std::string& name = when.fields.at("timezone").text;
    const auto zone = zones.find(name);
    const Parsed<Cron> cron = parseCron(when.fields.at("cron").text);
    if (!cron || (zone == zones.end() && name != "UTC")) return binding;
    binding.time.emplace(*cron.value, Milliseconds(when.fields.at("for").number),
                         zone == zones.end() ? TimeZone() : zone->second);
    return binding;
}

std::vector<Binding> bindingsOf(const GateInput& input) {
    std::vector<Binding> bindings;
    for (const Window& window : input.pipeline.windows)
        if (bindsHere(window, input)) bindings.push_back(bindingOf(window, input.zones));
    return bindings;
}

Time changeAfter(const Binding& binding, Time time) {
    return binding.time ? binding.time->nextChange(time).value_or(Time::max()) : Time::max();
}

/// The window that keeps the stage closed at that time, or nullptr: a deny that is on, or, where there are allows and
/// none is on, the first of them.
const Binding* closingAt(const std::vector<Binding>& bindings, Time time) {
    const Binding* idle = nullptr;
    bool isAllowed = false;
    for (const Binding& binding : bindings) {
        const bool isOn = binding.time && binding.time->isOn(time);
        if (binding.isDeny && (isOn || !binding.time)) return &binding;
        if (binding.isDeny) continue;
        isAllowed = isAllowed || isOn;
        if (idle == nullptr) idle = &binding;
    }
    return isAllowed ? nullptr : idle;
}

/// The next moment at which open becomes closed or the other way round. Between the moments at which single windows
/// change nothing does; each window is asked again only when its own moment has come.
std::optional<Time> nextFlip(const std::vector<Binding>& bindings, Time now) {
    const bool isClosed = closingAt(bindings, now) != nullptr;
    std::vector<Time> changes;
    for (const Binding& binding : bindings) changes.push_back(changeAfter(binding, now));
    for (int i = 0; i < kMostMoments; ++i) {
        const Time moment = *std::min_element(changes.begin(), changes.end());
        if (moment == Time::max()) return std::nullopt;
        if ((closingAt(bindings, moment) != nullptr) != isClosed) return moment;
        for (std::size_t j = 0; j < changes.size(); ++j)
            if (changes[j] == moment) changes[j] = changeAfter(bindings[j], moment);
    }
    return std::nullopt;
}

std::string reasonText(const Binding& closing) {
    if (!closing.time) return "its time zone is not known on this machine";
    return closing.window->settings.has("reason") ? closing.window->settings.text("reason")
           : closing.isDeny                       ? "nobody may enter at this time"
                                                  : "outside of the times to enter";
}

}  // namespace

/// No `deny` is on, and where there are `allow` one of them is. Binds whoever promotes.
GateAnswer windowGate(const GateInput& input) {
    const std::vector<Binding> bindings = bindingsOf(input);
    if (bindings.empty()) return notApplicable(Gate::kWindow, "no window is about this stage and this promoter");
    const Binding* closing = closingAt(bindings, input.now);
    GateAnswer answer = closing == nullptr
                            ? open(Gate::kWindow, "within the times to enter", bindings[0].window->origin.text())
                            : closed(Gate::kWindow, reasonText(*closing), closing->window->origin.text());
    answer.next = nextFlip(bindings, input.now);
    if (closing == nullptr) return answer;
    answer.since = closing->time ? closing->time->since(input.now) : std::nullopt;
    answer.unblock = {answer.next ? "time" : "a change of the rules"};
    return answer;
}

}  // namespace gradus
