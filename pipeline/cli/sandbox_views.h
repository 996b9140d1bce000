#pragma once

#include <string>

#include "pipeline/cli/result.h"
#include "pipeline/cli/style.h"
#include "stages/sandbox/sandboxes.h"

namespace gradus {

/// `execution` as every verb shows it.
Json executionJson(const ExecutionReport& report);
/// The same from its record, without what it said.
Json recordJson(const Execution& run);
/// "wrote /tmp/a outside of the project; was refused 192.0.2.1:80"; empty where there is nothing to tell.
std::string sideEffectsText(const SideEffects& effects);
/// `changes`, `ignored`, `in_repository`, `base_moved` and `refused`, as members of `data`.
void addChanges(Json& data, const Harvest& harvest);
/// Nothing of it would be missed.
bool isUntouched(const Harvest& harvest);
Json sandboxJson(const SandboxRecord& record);

/// "3 changes: 1 added, 2 modified" and a line for each, at most `most`.
std::string changesText(const Harvest& harvest, const Paint& paint, std::size_t most);
/// One line that says how a command ended, if its exit code does not say it all.
std::string verdictText(const ExecutionReport& report);

/// What the shell sees of a command that ran inside, or did not.
Exit exitOf(const ExecutionReport& report);

/// "512 B", "4.0 MiB".
std::string humanSize(std::uintmax_t bytes);

}  // namespace gradus
