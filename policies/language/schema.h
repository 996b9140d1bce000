#pragma once

#include <string>

#include "policies/language/vocabulary.h"

namespace gradus {

/// A JSON Schema (draft 2020-12) of gradus.toml, for editors. It knows every key, type, range and value; what needs
/// more than one section to judge (names, cycles, tightening) only load() finds. `$defs/policy` is a policy file.
std::string schemaJson(const Vocabulary& vocabulary);

}  // namespace gradus
