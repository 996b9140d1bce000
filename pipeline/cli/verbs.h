#pragma once

#include <functional>
#include <vector>

#include "pipeline/cli/host.h"
#include "pipeline/cli/verb.h"
#include "pipeline/service/service.h"

namespace gradus {

/// Makes the service for one run. Called only by verbs that need it, so that help costs no store and no plugin.
using OpenService = std::function<Service(Host&)>;

/// A handler that speaks to the service.
Handler withService(const OpenService& open, Result (*handler)(Service&, Context&));

/// Every verb of the program. A family of verbs lives in a file of its own, which exports its rows; here they meet.
std::vector<Verb> allVerbs(const OpenService& open = {});

/// audit verify, query, redact, reanchor
std::vector<Verb> auditVerbs(const OpenService& open);
/// audit timeline
std::vector<Verb> timelineVerbs(const OpenService& open);
/// audit as-of
std::vector<Verb> pastVerbs(const OpenService& open);
/// audit export
std::vector<Verb> exportVerbs(const OpenService& open);
/// drill
std::vector<Verb> drillVerbs(const OpenService& open);
/// policy simulate
std::vector<Verb> simulateVerbs(const OpenService& open);
/// policy lint, show, schema; trust
std::vector<Verb> rulesVerbs(const OpenService& open);
/// store check, stats, backup, rebuild; gc
std::vector<Verb> storeVerbs(const OpenService& open);
/// try
std::vector<Verb> tryVerbs(const OpenService& open);
/// race, race ls, race show
std::vector<Verb> raceVerbs(const OpenService& open);
/// sandbox new, exec, list, show, snapshot, restore, fork, diff, rm
std::vector<Verb> sandboxVerbs(const OpenService& open);
/// sandbox shell, put, get, path, stats; reopen
std::vector<Verb> roomVerbs(const OpenService& open);
/// submit, ls, show, diff, export, rebase
std::vector<Verb> changeVerbs(const OpenService& open);
/// check
std::vector<Verb> checkVerbs(const OpenService& open);
/// init
std::vector<Verb> initVerbs(const OpenService& open);
/// doctor
std::vector<Verb> doctorVerbs(const OpenService& open);
/// status
std::vector<Verb> statusVerbs(const OpenService& open);
/// promote, plan, apply, sandbox apply, retry
std::vector<Verb> promoteVerbs(const OpenService& open);
/// undo, rollback
std::vector<Verb> backVerbs(const OpenService& open);
/// recover, cancel, adopt
std::vector<Verb> tendVerbs(const OpenService& open);
/// monitor
std::vector<Verb> monitorVerbs(const OpenService& open);
/// approve, reject, hold, unhold, pin, unpin, veto, unveto, halt, resume, whoami
std::vector<Verb> wordVerbs(const OpenService& open);
/// why, logs
std::vector<Verb> whyVerbs(const OpenService& open);
/// blame
std::vector<Verb> blameVerbs(const OpenService& open);
/// demo
std::vector<Verb> demoVerbs(const OpenService& open);
/// help, version, completion
std::vector<Verb> gradusVerbs();

}  // namespace gradus
