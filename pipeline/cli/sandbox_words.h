#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pipeline/cli/context.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/service/service.h"

namespace gradus {

/// "s7 (fix)"
std::string sandboxLabel(const SandboxRecord& record);

/// SANDBOX, which GRADUS_SANDBOX stands in for.
Positional sandboxPlace();
/// The one that it names.
SandboxRecord namedSandbox(Service& service, const Context& context);

std::optional<Milliseconds> durationOption(const Context& context, std::string_view verb, std::string_view option);

/// `--wait`, for verbs that need a sandbox for themselves.
Option waitOption();
/// How `waitOption` is asked for, by example.
inline constexpr std::string_view kWaiting = "--wait 1m";
Patience patienceOf(const Context& context, const Interrupt& interrupt, std::string_view verb);

/// `-q`: nothing but handles.
Option quietOption();

}  // namespace gradus
