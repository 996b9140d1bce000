#include "pipeline/cli/sandbox_words.h"

#include <fmt/format.h>

#include "policies/language/duration.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

std::string sandboxLabel(const SandboxRecord& record) {
    const std::string handle = sandboxHandle(record.id);
    return record.name ? fmt::format("{} ({})", handle, printable(*record.name)) : handle;
}

Positional sandboxPlace() {
    return {.name = "SANDBOX",
            .doc = "its handle (s7), its name, or @ for the latest; GRADUS_SANDBOX stands in for it",
            .variable = "GRADUS_SANDBOX"};
}

SandboxRecord namedSandbox(Service& service, const Context& context) {
    return service.sandbox(context.arguments.positional("SANDBOX").value());
}

std::optional<Milliseconds> durationOption(const Context& context, std::string_view verb, std::string_view option) {
    const auto text = context.arguments.value(option);
    if (!text) return std::nullopt;
    const auto parsed = parseDuration(*text);
    if (!parsed) throw usageError(verb, fmt::format("--{} '{}' {}", option, printable(*text), parsed.problem));
    return *parsed.value;
}

Option waitOption() {
    return {.name = "wait", .value = "DURATION", .doc = "while somebody else uses it", .fallback = "not at all"};
}

Patience patienceOf(const Context& context, const Interrupt& interrupt, std::string_view verb) {
    return {durationOption(context, verb, "wait").value_or(Milliseconds(0)), interrupt.token(), kWaiting};
}

Option quietOption() { return {.name = "quiet", .doc = "say nothing but handles", .letter = 'q'}; }

}  // namespace gradus
