#include "pipeline/cli/period.h"

#include "pipeline/cli/time_argument.h"

namespace gradus {

Period periodFrom(const Context& context, std::string_view verb) {
    const Time now = context.host.clock().now();
    const auto moment = [&](std::string_view option) -> std::optional<Time> {
        const auto given = context.arguments.value(option);
        return given ? std::optional(parseTimeArgument(*given, now)) : std::nullopt;
    };
    const Period period{moment("since"), moment("until")};
    if (period.since && period.until && *period.since >= *period.until)
        throw usageError(verb, "--since is not before --until, so nothing can match");
    return period;
}

}  // namespace gradus
