#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace gradus {

/// How a command in a sandbox ended. Each word has one meaning: an exit status is never guessed from.
enum class Verdict {
    kOk,           ///< exit status 0
    kFailed,       ///< another exit status
    kTimeout,      ///< stopped at the wall-time limit
    kOom,          ///< the kernel killed for the sandbox's memory limit (its counters say so)
    kKilled,       ///< died by a signal, or the caller cancelled it
    kLimit,        ///< another limit ended it or made it fail; the limit reports say which
    kSetupFailed,  ///< the command never ran
};

inline constexpr std::array<std::string_view, 7> kVerdictNames = {"ok",     "failed", "timeout",     "oom",
                                                                  "killed", "limit",  "setup-failed"};

constexpr std::string_view verdictName(Verdict verdict) { return kVerdictNames[static_cast<std::size_t>(verdict)]; }

}  // namespace gradus
