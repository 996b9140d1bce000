#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/language/parsed.h"

namespace gradus {

/// Splits a command written as one text into its words. Quotes ('…' and "…") group; nothing is expanded, because no
/// shell ever reads it. What only a shell would understand (a pipe, a redirection, $(…), ${…}) is refused rather than
/// passed on as a plain word.
Parsed<std::vector<std::string>> splitCommand(std::string_view text);

}  // namespace gradus
