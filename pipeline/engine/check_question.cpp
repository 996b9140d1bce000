#include "pipeline/engine/check_question.h"

#include <sys/utsname.h>

#include <algorithm>

#include "store/model/canonical.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::string_view kProduction = "production";

// A service's data is the rules' own if something prepares it; a directory of the host is not.
bool bringsItsData(const ServiceRequest& service) { return service.data.empty() || !service.prepare.empty(); }

bool isDecidedByTheTree(const Check& check, const CommandRequest& request) {
    if (!std::all_of(request.services.begin(), request.services.end(), bringsItsData)) return false;
    return check.kind == "command" && check.settings.flag("reuse") && request.network == Network::kNone &&
           request.show.empty();
}

void addWords(Canonical& form, const std::vector<std::string>& words) {
    form.list(words.size());
    for (const std::string& word : words) form.text(word);
}

void addService(Canonical& form, const ServiceRequest& service) {
    form.text(service.name).text(service.data.native()).text(service.readyLog).number(service.port.value_or(0));
    for (const auto* words : {&service.run, &service.passed, &service.ready, &service.prepare, &service.inputs})
        addWords(form, *words);
}

}  // namespace

// Not what it may take, nor how well it is confined: that says nothing about what comes out.
Digest surroundingsOf(const CommandRequest& request) {
    Canonical form("gradus.surroundings.1");
    addWords(form, request.hide);
    form.list(request.show.size());
    for (const auto& path : request.show) form.text(path.native());
    addWords(form, request.passed);
    form.number(request.system ? 1 : 0).number(request.network.host ? 1 : 0);
    form.list(request.network.destinations.size());
    for (const Destination& destination : request.network.destinations) form.text(formatDestination(destination));
    form.list(request.services.size());
    for (const ServiceRequest& service : request.services) addService(form, service);
    return form.hash();
}

std::optional<Digest> questionOf(Sandboxes& sandboxes, const Check& check, const CommandRequest& request,
                                 const Evidence& evidence) {
    if (!isDecidedByTheTree(check, request)) return std::nullopt;
    utsname kernel{};
    ::uname(&kernel);
    try {
        return Canonical("gradus.question.1")
            .digest(evidence.tree)
            .digest(evidence.change)
            .digest(evidence.base)
            .digest(evidence.rules)
            .digest(evidence.check)
            .text(check.name)
            .text(kernel.release)
            .text(kernel.version)
            .digest(sandboxes.confinement(request))
            .hash();
    } catch (const Error&) {
        return std::nullopt;  // the run itself says why nothing can confine it
    }
}

std::optional<Milliseconds> reuseWithin(const Stage& stage) {
    const Milliseconds most = stage.policy.settings.duration("evidence-reuse");
    if (stage.name == kProduction || stage.policy.name == kProduction || most <= Milliseconds(0)) return std::nullopt;
    return most;
}

}  // namespace gradus
