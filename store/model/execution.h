#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/model/clock.h"
#include "store/model/digest.h"
#include "store/model/guarantee.h"
#include "store/model/limits.h"
#include "store/model/names.h"
#include "store/model/verdict.h"

namespace gradus {

enum class ExecutionState {
    kRunning,
    kFinished,
    kLost,  ///< whoever ran it died before it could say how it ended
};

inline constexpr std::array kExecutionStates{
    Name<ExecutionState>{ExecutionState::kRunning, "running"},
    Name<ExecutionState>{ExecutionState::kFinished, "finished"},
    Name<ExecutionState>{ExecutionState::kLost, "lost"},
};

/// One command in one sandbox, the same everywhere: `try --json`, the store, the page.
struct Execution {
    std::int64_t id = 0;
    std::int64_t sandbox = 0;
    ExecutionState state = ExecutionState::kRunning;
    std::string backend;
    /// What was proven on this machine and held for this run; a limit's guarantee only where the limit was set.
    std::vector<Guarantee> guarantees;
    /// Of the floor, what was given up for this run.
    std::vector<Guarantee> without;
    /// Nothing unless it finished.
    std::optional<Verdict> verdict;
    std::optional<int> exitCode;
    std::optional<int> signal;
    /// Objects: head, a marker line and tail where something was dropped. Nothing where nothing was written.
    std::optional<Digest> out;
    std::optional<Digest> err;
    std::uint64_t outBytes = 0;  ///< that were written, kept or not
    std::uint64_t errBytes = 0;
    bool truncated = false;
    Time startedAt{};
    std::uint64_t wallMillis = 0;
    std::uint64_t cpuMillis = 0;
    std::optional<std::uint64_t> peakMemoryBytes;
    std::vector<LimitReport> limits;
    std::optional<Digest> services;      ///< an object: what became of its services, with their logs
    std::vector<std::string> arguments;  ///< empty once redacted

    bool success() const { return verdict == Verdict::kOk; }
    bool operator==(const Execution&) const = default;
};

/// "no-network read-only-host": how guarantees stand in events and columns.
std::string formatGuarantees(const std::vector<Guarantee>& guarantees);
/// Throws Error(kDamaged) for anything formatGuarantees does not give.
std::vector<Guarantee> parseGuarantees(std::string_view text);

/// "memory 1073741824 cgroup-v1 52000 0; tasks 64 rlimit - 1": name, value, enforced by, peak, tripped.
std::string formatLimits(const std::vector<LimitReport>& limits);
std::vector<LimitReport> parseLimits(std::string_view text);

}  // namespace gradus
