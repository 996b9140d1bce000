#pragma once

#include <string_view>

#include "store/model/error.h"

namespace gradus {

/// What the shell sees. A verb that runs a command passes the command's own code through instead, see passedThrough().
enum class Exit : int {
    kOk = 0,
    kFailed = 1,          ///< the answer is no, and nothing real was touched
    kUsage = 2,           ///< the caller's words or the caller's file are wrong
    kDeclined = 3,        ///< a person said no
    kNotAllowed = 4,      ///< a rule said no
    kRestored = 5,        ///< a target was touched, and is as it was before
    kInfrastructure = 6,  ///< the machine, the store or gradus itself is at fault
    kBusy = 7,            ///< someone else holds it
    kWaiting = 8,         ///< a gate is closed; it goes on later
    kTimedOut = 124,      ///< a command ran out of time, as timeout(1) says it
    kSetupFailed = 125,   ///< the place to run a command could not be made
    kNotExecutable = 126,
    kNoSuchCommand = 127,
    kInterrupted = 130,
    kReaderGone = 141,  ///< whoever read our output left before the end
    kTerminated = 143,
};

/// The code of a command that was run for the caller.
constexpr Exit passedThrough(int code) { return static_cast<Exit>(code); }

/// How a kind of fault looks from outside.
struct ErrorFace {
    ErrorCode code;
    Exit exit;
    std::string_view word;  ///< `error.code` in --json
    bool retryable;         ///< the same call may work later, with nothing changed by the caller
};

const ErrorFace& faceOf(ErrorCode code);

}  // namespace gradus
