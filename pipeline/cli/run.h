#pragma once

#include <string>
#include <vector>

#include "pipeline/cli/host.h"
#include "pipeline/cli/verb_table.h"

namespace gradus {

/// One call of the command line, from words to exit code. `words` are without the program's name. Every exception of
/// a verb ends here.
int runCommandLine(const VerbTable& verbs, const std::vector<std::string>& words, Host& host);

}  // namespace gradus
