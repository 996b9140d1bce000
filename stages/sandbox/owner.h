#pragma once

#include <optional>

#include "store/model/sandbox.h"

namespace gradus {

/// Nothing if there is no such process, or /proc does not say.
std::optional<ProcessIdentity> processOf(std::int64_t pid);

/// Who we are. Throws Error where /proc does not say.
ProcessIdentity thisProcess();

/// True only if that process cannot be running any more: another boot, no such pid, a pid given out again, or nothing
/// left of it but its exit status. In doubt, also about a pid of another namespace, it is taken to live.
bool isProvenDead(const ProcessIdentity& process);

}  // namespace gradus
