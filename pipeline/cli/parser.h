#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/cli/arguments.h"
#include "pipeline/cli/verb_table.h"

namespace gradus {

/// The verb that was meant, and the words that are left for it.
struct VerbCall {
    const Verb* verb;
    std::vector<std::string> words;
};

/// Finds the verb. Where help is asked for, or nothing but a group is named, the answer is the verb `help` with the
/// right words; `--version` is the verb `version`. Throws Error (usage) with a suggestion for an unknown verb.
VerbCall resolveVerb(const VerbTable& verbs, const std::vector<std::string>& words);

/// A variable of the caller's environment, by name.
using VariableLookup = std::function<std::optional<std::string>(const std::string&)>;

/// Checks the words of a call against the verb's row. Throws Error (usage) that names the verb.
Arguments parseArguments(const VerbCall& call, const VariableLookup& variable = {});

/// Whether `word` stands before `--`: how the few options that matter before parsing are found.
bool hasOption(const std::vector<std::string>& words, std::string_view word);

}  // namespace gradus
