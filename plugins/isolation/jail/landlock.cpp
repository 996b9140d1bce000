#include "plugins/isolation/jail/landlock.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

/// The newest form of the kernel's structure; older kernels are given as much of it as they know.
struct Ruleset {
    std::uint64_t files;
    std::uint64_t ports;
    std::uint64_t scopes;
};

constexpr std::uint64_t kReadAndExecute =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kAllSinceSecond = (LANDLOCK_ACCESS_FS_REFER << 1) - 1;
constexpr std::uint64_t kTruncate = 1ULL << 14;       // version 3
constexpr std::uint64_t kDeviceControl = 1ULL << 15;  // version 5
constexpr std::uint64_t kScopes = 3;                  // version 6: abstract unix sockets and signals

std::uint64_t fileAccess(std::uint32_t abi) {
    return kAllSinceSecond | (abi >= 3 ? kTruncate : 0) | (abi >= 5 ? kDeviceControl : 0);
}

std::size_t rulesetSize(std::uint32_t abi) {
    if (abi >= 6) return sizeof(Ruleset);
    return abi >= 4 ? 2 * sizeof(std::uint64_t) : sizeof(std::uint64_t);
}

Attempt allowBeneath(int ruleset, const std::string& path, std::uint64_t access) {
    const Descriptor place = openPath(AT_FDCWD, path, O_PATH);
    if (!place) return failure("landlock", path);
    landlock_path_beneath_attr rule{};
    rule.allowed_access = access;
    rule.parent_fd = place.get();
    if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0)
        return failure("landlock", path);
    return std::nullopt;
}

}  // namespace

std::uint32_t landlockAbi() {
    const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? static_cast<std::uint32_t>(abi) : 0;
}

Attempt restrictByLandlock(const std::vector<std::string>& writable) {
    const std::uint32_t abi = landlockAbi();
    if (abi < 2) return std::nullopt;
    const Ruleset rules{fileAccess(abi), 0, abi >= 6 ? kScopes : 0};
    const Descriptor ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, rulesetSize(abi), 0)));
    if (!ruleset) return failure("landlock", "create");
    if (auto failed = allowBeneath(ruleset.get(), "/", kReadAndExecute)) return failed;
    // What may be written in /proc is decided by its own read-only mounts.
    if (auto failed = allowBeneath(ruleset.get(), "/proc", kReadAndExecute | LANDLOCK_ACCESS_FS_WRITE_FILE))
        return failed;
    for (const std::string& path : writable)
        if (auto failed = allowBeneath(ruleset.get(), path, rules.files)) return failed;
    if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return failure("landlock", "restrict");
    return std::nullopt;
}

}  // namespace gradus
