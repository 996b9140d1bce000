#pragma once

#include <string>
#include <string_view>

#include "pipeline/cli/result.h"
#include "pipeline/cli/style.h"
#include "pipeline/cli/verb_table.h"

namespace gradus {

/// What gradus is, examples, and every verb under its heading.
std::string overviewHelp(const VerbTable& verbs, const Paint& paint);

/// The verbs of a group such as "audit".
std::string groupHelp(const VerbTable& verbs, std::string_view group, const Paint& paint);

/// Examples first, then the usage line, arguments and options.
std::string verbHelp(const Verb& verb, const Paint& paint);

/// The row of a verb for programs: what `gradus help VERB --json` answers.
Json describeVerb(const Verb& verb);

/// One line per verb for programs.
Json listVerbs(const std::vector<const Verb*>& verbs);

/// "gradus try [OPTION]... -- COMMAND..."
std::string usageLine(const Verb& verb);

/// The title of a group of verbs in the help.
std::string_view titleOf(Group group);

}  // namespace gradus
