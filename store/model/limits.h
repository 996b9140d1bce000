#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gradus {

enum class LimitName {
    kMemory,     ///< bytes, all processes together
    kTasks,      ///< processes and threads at once
    kDisk,       ///< bytes in the workspace's scratch space
    kWallTime,   ///< milliseconds from start to end, counting a suspended machine's time
    kCpuTime,    ///< milliseconds of CPU, all processes together
    kCpuShare,   ///< percent of one core: 150 is a core and a half
    kOutput,     ///< bytes on stdout and stderr together
    kOpenFiles,  ///< descriptors of one process
    kFileSize,   ///< bytes of one file
};

inline constexpr std::array<std::string_view, 9> kLimitNames = {
    "memory", "tasks", "disk", "wall-time", "cpu-time", "cpu-share", "output", "open-files", "file-size"};

constexpr std::string_view limitName(LimitName name) { return kLimitNames[static_cast<std::size_t>(name)]; }

struct Limit {
    std::uint64_t value = 0;
    /// Asked for by someone: it is enforced, or the sandbox is refused. A default is enforced where possible.
    bool required = true;

    bool operator==(const Limit&) const = default;
};

/// The limits of one sandbox; one that is absent is not set.
class Limits {
  public:
    std::optional<Limit>& operator[](LimitName name) { return limits_[static_cast<std::size_t>(name)]; }
    const std::optional<Limit>& operator[](LimitName name) const { return limits_[static_cast<std::size_t>(name)]; }
    bool operator==(const Limits&) const = default;

  private:
    std::array<std::optional<Limit>, kLimitNames.size()> limits_;
};

/// Who holds a limit. `kWatch` looks from time to time: it stops an excess, it does not prevent one.
enum class Enforcer { kNone, kCgroupV1, kCgroupV2, kRlimit, kWatch, kTmpfs, kTimer, kCapture, kBacking };

inline constexpr std::array<std::string_view, 9> kEnforcerNames = {"none",  "cgroup-v1", "cgroup-v2", "rlimit", "watch",
                                                                   "tmpfs", "timer",     "capture",   "backing"};

constexpr std::string_view enforcerName(Enforcer by) { return kEnforcerNames[static_cast<std::size_t>(by)]; }

/// What became of one limit in one run.
struct LimitReport {
    LimitName name = LimitName::kMemory;
    std::uint64_t value = 0;
    Enforcer enforcedBy = Enforcer::kNone;
    std::optional<std::uint64_t> peak;  ///< in the limit's unit, where it could be measured
    bool tripped = false;

    bool operator==(const LimitReport&) const = default;
};

}  // namespace gradus
