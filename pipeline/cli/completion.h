#pragma once

#include <string>
#include <string_view>

#include "pipeline/cli/verb_table.h"

namespace gradus {

/// Completion scripts, each made from the table of verbs alone: verbs, options, and the choices of those that have
/// any. Nothing of ours runs while the user presses tab.
std::string bashCompletion(const VerbTable& verbs);
std::string zshCompletion(const VerbTable& verbs);
std::string fishCompletion(const VerbTable& verbs);

}  // namespace gradus
