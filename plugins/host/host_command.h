#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/api/isolation.h"
#include "store/model/clock.h"

namespace gradus {

/// A command on the host itself, not confined: `activate`, and checks that look at what runs. Only from trusted rules.
struct HostCommand {
    std::vector<std::string> arguments;    ///< the program is looked for in the environment's PATH
    std::vector<std::string> environment;  ///< NAME=value, the whole of it
    std::filesystem::path directory;
    Milliseconds timeout{0};  ///< 0: none
    CaptureBudget keepOut;
    CaptureBudget keepErr;
    std::function<void(Stream, std::string_view)> live;
    std::stop_token cancel;
};

struct HostOutcome {
    std::optional<int> exitCode;
    std::optional<int> signal;
    bool timedOut = false;
    bool cancelled = false;
    std::string failure;  ///< why it could not be started; then nothing else is set
    CapturedStream out;
    CapturedStream err;
    std::uint64_t wallMillis = 0;

    bool succeeded() const { return exitCode == 0; }
    /// "exit code 3", "killed by signal 9", "timed out after 10s", or why it did not start.
    std::string text() const;
};

/// Runs it in a process group and session of its own, which is ended as a whole when the time is up. A grandchild that
/// goes on as a service (and closed its output) is left alone; one that only holds the output open does not keep the
/// answer from coming. Never throws for what the command does.
HostOutcome runOnHost(const HostCommand& command);

}  // namespace gradus
