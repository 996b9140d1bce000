#pragma once

#include <sys/types.h>

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
    Milliseconds timeout{0};   ///< 0: none
    Milliseconds grace{2000};  ///< between SIGTERM and SIGKILL, when the time is up or it is cancelled
    CaptureBudget keepOut;
    CaptureBudget keepErr;
    std::function<void(Stream, std::string_view)> live;
    std::stop_token cancel;
    bool isLook = false;                      ///< it changes nothing, and may run beside others
    int held = -1;                            ///< ours; the command has it as its number 3, and so has all it starts
    std::function<void(pid_t)> started = {};  ///< as soon as it runs
};

struct HostOutcome {
    std::optional<int> exitCode;
    std::optional<int> signal;
    bool timedOut = false;
    bool cancelled = false;
    Milliseconds timeout{0};  ///< that it had
    std::string failure;      ///< why it could not be started; then nothing else is set
    CapturedStream out;
    CapturedStream err;
    std::uint64_t wallMillis = 0;

    /// It ran at all, whatever came of it.
    bool began() const { return exitCode || signal; }
    /// It ended by itself. Many a program says 0 when it is told to end, and has done half.
    bool isOwnEnd() const { return began() && !timedOut && !cancelled; }
    bool succeeded() const { return isOwnEnd() && exitCode == 0; }
    /// "exit code 3", "killed by signal 9", "timed out after 10s", or why it did not start.
    std::string text() const;
};

/// Runs it in a process group and session of its own, without a terminal and with nothing to read. When the time is up
/// or the token says so, the whole group is ended: SIGTERM, the grace, SIGKILL. Once the command itself has ended, what
/// it started is left alone: a service that it put into the background goes on, and one that holds the output open
/// keeps the answer from coming for a fifth of a second at most. Never throws for what the command does. The calling
/// thread is the one that `live` is called on.
HostOutcome runOnHost(const HostCommand& command);

/// The file that `program` means: itself if it has a slash, else the first executable of that name on PATH in
/// `environment`. Nothing if there is none.
std::optional<std::filesystem::path> findProgram(const std::string& program,
                                                 const std::vector<std::string>& environment);

}  // namespace gradus
