#pragma once

#include <optional>
#include <vector>

#include "policies/language/diagnostic.h"
#include "policies/language/pipeline.h"
#include "policies/language/rule_files.h"
#include "policies/language/vocabulary.h"

namespace gradus {

/// A pipeline if there was no error; every diagnostic of every file, sorted. Warnings come with a pipeline.
struct LoadResult {
    std::optional<Pipeline> pipeline;
    std::vector<Diagnostic> diagnostics;
};

/// Understands a project's rules. Never throws for what the files hold and reads no disk but the time zones, so pinned
/// bytes give what they gave when they were pinned, under the ceiling of today.
LoadResult load(const RuleFiles& files, const Vocabulary& vocabulary, const Ceiling& ceiling);

/// What a caller asks of one sandbox, over what the project's [sandbox] says.
struct SandboxWish {
    std::optional<std::string> policy;
    Settings asked;  ///< keys of [sandbox]; `limits` field by field
};

/// The [sandbox] that holds for one sandbox, defaults filled in. What the project's file asks for gives way to the
/// policy and the ceiling; what the caller asks for does not: looser than they allow is Error(kNotAllowed), naming who
/// forbids it. `files` may be absent. Throws Error(kUsage) for an unknown policy and for files with errors.
Settings sandboxRules(const RuleFiles* files, const SandboxWish& wish, const Vocabulary& vocabulary,
                      const Ceiling& ceiling);

}  // namespace gradus
