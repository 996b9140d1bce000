#include "plugins/host/machine.h"

#include <fmt/format.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

namespace gradus {

namespace fs = std::filesystem;

namespace {

using Word = MachineFact::Word;

std::optional<std::string> readAll(const fs::path& file) {
    std::ifstream stream(file);
    if (!stream) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(stream), {});
}

/// A setting of the kernel as it stands in /proc/sys, without its newline.
class Settings {
  public:
    explicit Settings(fs::path root) : root_(std::move(root)) {}

    std::optional<std::string> operator()(std::string_view name) const {
        std::string path(name);
        for (char& letter : path)
            if (letter == '.') letter = '/';
        auto text = readAll(root_ / "proc/sys" / path);
        while (text && text->ends_with('\n')) text->pop_back();
        return text;
    }

  private:
    fs::path root_;
};

struct Restriction {
    std::string_view setting;
    std::string_view bad;
    std::string_view better;
    std::string_view who;
};

// The commonest reason why a first sandbox fails, by distribution.
constexpr Restriction kRestrictions[] = {
    {"user.max_user_namespaces", "0", "15000", "hardened images"},
    {"kernel.unprivileged_userns_clone", "0", "1", "Debian and Arch"},
    {"kernel.apparmor_restrict_unprivileged_userns", "1", "0", "Ubuntu 23.10 and later"},
};

// Root needs none of the settings but the number of namespaces.
MachineFact userNamespaces(uid_t uid, const Settings& settings) {
    for (const Restriction& row : kRestrictions) {
        const bool concerned = uid != 0 || row.setting == kRestrictions[0].setting;
        if (!concerned || settings(row.setting) != row.bad) continue;
        return {"user namespaces", Word::kStops,
                fmt::format("forbidden to ordinary users by {} = {} ({})", row.setting, row.bad, row.who),
                fmt::format("sudo sysctl -w {0}={1} && echo {0}={1} | sudo tee /etc/sysctl.d/60-gradus.conf",
                            row.setting, row.better)};
    }
    return {"user namespaces", Word::kGood, uid == 0 ? "allowed; root needs no permission" : "allowed", {}};
}

MachineFact overlays(const fs::path& root) {
    const auto known = readAll(root / "proc/filesystems");
    if (known && known->find("\toverlay\n") != std::string::npos)
        return {"overlayfs", Word::kGood, "in the kernel", {}};
    return {"overlayfs", Word::kStops, "the kernel has not loaded it", "sudo modprobe overlay"};
}

std::string controllersOf(const fs::path& root) {
    std::string names = readAll(root / "sys/fs/cgroup/cgroup.controllers").value_or("");
    while (names.ends_with('\n')) names.pop_back();
    return names;
}

MachineFact controlGroups(uid_t uid, const fs::path& root) {
    constexpr std::string_view kCure =
        "start gradus in a group of its own: systemd-run --user --scope -p Delegate=yes gradus …";
    std::error_code ignored;
    const bool unified = fs::exists(root / "sys/fs/cgroup/cgroup.controllers", ignored);
    const bool old = fs::exists(root / "sys/fs/cgroup/memory", ignored);
    if (!unified && !old)
        return {"control groups", Word::kLimits, "none are mounted: memory and tasks are only watched",
                "sudo mount -t cgroup2 none /sys/fs/cgroup"};
    std::string seen = unified ? fmt::format("version 2 ({})", controllersOf(root)) : "version 1";
    if (uid == 0) return {"control groups", Word::kGood, seen, {}};
    seen += ", which ordinary users may use only where a part was delegated to them";
    return {"control groups", Word::kLimits, seen, unified ? std::string(kCure) : "run as root for hard limits"};
}

MachineFact filters(const Settings& settings) {
    const auto actions = settings("kernel.seccomp.actions_avail");
    if (actions && actions->find("errno") != std::string::npos) return {"seccomp", Word::kGood, "in the kernel", {}};
    return {"seccomp", Word::kStops, "the kernel was built without system call filters",
            "use a kernel with CONFIG_SECCOMP_FILTER"};
}

MachineFact landlock() {
    const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return {"Landlock", Word::kLimits, "not available: the mounts alone keep the host read-only",
                "add landlock to lsm= on the kernel's command line"};
    return {"Landlock", Word::kGood, fmt::format("version {}", version), {}};
}

MachineFact container(const fs::path& root) {
    std::error_code ignored;
    for (const char* mark : {".dockerenv", "run/.containerenv"})
        if (fs::exists(root / mark, ignored))
            return {"container", Word::kLimits, "this is one: its own rules come first",
                    "if sandboxes fail, start it with --security-opt seccomp=unconfined "
                    "--security-opt systempaths=unconfined"};
    return {"container", Word::kGood, "this is none", {}};
}

}  // namespace

std::vector<MachineFact> machineFacts(uid_t uid, const fs::path& root) {
    const Settings settings(root);
    return {userNamespaces(uid, settings),
            overlays(root),
            controlGroups(uid, root),
            filters(settings),
            landlock(),
            container(root)};
}

}  // namespace gradus
