#pragma once

#include <optional>

#include "plugins/api/isolation.h"
#include "plugins/isolation/jail/protocol.h"

namespace gradus {

/// Everything known about one run once it is over.
struct RunReport {
    std::optional<JailStarted> started;
    std::optional<Failure> failed;
    std::optional<JailEnded> ended;
    bool cancelled = false;
    bool outputTripped = false;
    CapturedStream out;
    CapturedStream err;
};

/// One report, one outcome: pure.
Outcome judge(RunReport report, const Limits& limits, const JailReady& ready);

}  // namespace gradus
