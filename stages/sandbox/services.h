#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/model/clock.h"

namespace gradus {

/// A program that runs inside a sandbox beside a command: started before it, in the same namespaces and under the same
/// limits, and stopped after it (docs/services.md).
struct ServiceRequest {
    std::string name;
    std::vector<std::string> run;
    std::vector<std::string> passed;  ///< NAME or NAME=value that it gets besides the usual ones
    /// When it can be used: as soon as all of these hold that are given; none: as soon as it runs.
    std::vector<std::string> ready;     ///< a command that succeeds
    std::optional<std::uint16_t> port;  ///< somebody listens there, on the sandbox's loopback
    std::string readyLog;               ///< its log holds this text
    Milliseconds startTimeout{30'000};
    Milliseconds stopTimeout{5'000};  ///< between SIGTERM and SIGKILL
    /// A directory that is its own: in the project, or an absolute one. Every sandbox has a copy of its own.
    std::filesystem::path data;
    /// Fills `data` where it is empty, once: the result is kept and shown to every sandbox. Without it, `data` is what
    /// lies there on the host, at rest.
    std::vector<std::string> prepare;
    std::vector<std::string> inputs;  ///< of the project: all that `prepare` sees of it
};

/// What became of one service.
struct ServiceReport {
    std::string name;
    bool ready = false;
    std::uint64_t readyMillis = 0;  ///< from its start
    bool endedEarly = false;        ///< before the command had ended
    std::optional<int> status;      ///< exit code, or 128 and the signal; nothing if it never ran
    bool forced = false;            ///< it did not end when asked to
    std::string log;                ///< beginning and end of what it printed
    std::uint64_t logBytes = 0;     ///< that were written, kept or not
    std::string problem;            ///< why the command was not run
};

}  // namespace gradus
