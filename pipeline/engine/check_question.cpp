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

}  // namespace

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
