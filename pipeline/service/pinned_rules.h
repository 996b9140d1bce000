#pragma once

#include <string>
#include <string_view>

#include "policies/language/rule_files.h"

namespace gradus {

/// The object that keeps trusted rule files: their paths and bytes, in canonical form.
std::string encodeRuleFiles(const RuleFiles& files);
/// Throws Error(kDamaged) for anything that encodeRuleFiles did not write.
RuleFiles decodeRuleFiles(std::string_view bytes);

}  // namespace gradus
