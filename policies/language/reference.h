#pragma once

#include <string>

#include "policies/language/vocabulary.h"

namespace gradus {

/// The reference page: every section, driver and check kind with its keys, as Markdown. docs/reference/ holds a copy
/// that a test compares.
std::string referenceMarkdown(const Vocabulary& vocabulary);

}  // namespace gradus
