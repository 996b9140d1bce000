#pragma once

#include <string>
#include <vector>

#include "plugins/api/check.h"
#include "plugins/host/host_command.h"
#include "stages/sandbox/sandboxes.h"

namespace gradus {

// What a run means as an answer (docs/checks.md): whether it said no, or could not judge.

CheckAnswer answerOf(const ExecutionReport& report, bool cancelled);
CheckAnswer answerOf(const HostOutcome& outcome);
/// How a command in a sandbox ended: "killed by signal 9", "timed out: over its wall-time of 2s".
std::string endingOf(const Execution& execution);
/// It could not judge: the fault, and the way out where one is known.
CheckAnswer erroredBy(const std::exception& fault);

/// What a check is, for its evidence: kind, settings, and what its stage and policy demand of it; of variables that are
/// passed in, the values.
/// Of a check that builds: the command and what it is given, whatever stage asks for it.
Digest buildDigest(const Check& check, const std::vector<std::string>& environment);
Digest checkDigest(const Stage& stage, const Check& check, const std::vector<std::string>& environment);

/// The same without the values: it changes with the rules alone.
Digest checkDefinition(const Stage& stage, const Check& check);

/// The environment of what runs on the host itself.
Digest hostEnvironmentDigest();

}  // namespace gradus
