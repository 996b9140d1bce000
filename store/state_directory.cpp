#include "store/state_directory.h"

#include <linux/magic.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "store/file.h"
#include "store/model/digest.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

struct Untrusted {
    std::uint64_t magic;
    std::string_view name;
};
// Write-ahead logging needs shared memory and locks that hold between processes, and fsync that means it.
constexpr std::array kUntrusted{
    Untrusted{NFS_SUPER_MAGIC, "NFS"},   Untrusted{0x517B, "SMB"},
    Untrusted{0xFF534D42, "CIFS"},       Untrusted{0xFE534D42, "SMB2"},
    Untrusted{MSDOS_SUPER_MAGIC, "FAT"}, Untrusted{0x2011BAB0, "exFAT"},
    Untrusted{V9FS_MAGIC, "9p"},         Untrusted{AFS_SUPER_MAGIC, "AFS"},
    Untrusted{0x00C36400, "Ceph"},
};

constexpr std::string_view kElsewhere = "set GRADUS_HOME to a directory on a local file system";

fs::path absolute(const std::string& name, const std::string& value) {
    if (value.front() != '/')
        throw Error(ErrorCode::kUsage, "{} is '{}', which is not an absolute path", name, value)
            .hint("give it as a full path, starting with /");
    fs::path path = fs::path(value).lexically_normal();
    return path.has_filename() ? path : path.parent_path();
}

void refuseUntrusted(const fs::path& root) {
    struct statfs info {};
    if (::statfs(root.c_str(), &info) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot look at {}: {}", root.native(), errnoText(errno));
    if (const auto name = untrustedFileSystem(static_cast<std::uint64_t>(info.f_type)))
        throw Error(ErrorCode::kInfrastructure, "{} is on {}, where locks and syncs cannot be trusted", root.native(),
                    *name)
            .hint(std::string(kElsewhere));
}

// Root could write there, and its files would then be in the owner's way.
void refuseAnothers(const fs::path& root, uid_t owner) {
    if (::geteuid() != 0 || owner == 0) return;
    const passwd* const entry = ::getpwuid(owner);
    const std::string name = entry != nullptr ? entry->pw_name : "#" + std::to_string(owner);
    throw Error(ErrorCode::kNotAllowed, "{} belongs to {}, and you are root: what root writes there {} could not use",
                root.native(), name, name)
        .hint("call it as its owner (sudo -u " + name + " gradus …), or set GRADUS_HOME to a directory of root's own");
}

}  // namespace

std::optional<std::string_view> untrustedFileSystem(std::uint64_t magic) {
    for (const Untrusted& row : kUntrusted)
        if (row.magic == magic) return row.name;
    return std::nullopt;
}

fs::path StateDirectory::treeCache(const fs::path& project) const {
    return root / "trees" / sha256(project.native()).hex().substr(0, 16);
}

StateDirectory locateState(const Environment& environment) {
    const auto value = [&](const std::string& name) {
        auto found = environment(name);
        return found && !found->empty() ? found : std::nullopt;
    };
    if (const auto home = value("GRADUS_HOME")) return {absolute("GRADUS_HOME", *home)};
    if (const auto state = value("XDG_STATE_HOME")) return {absolute("XDG_STATE_HOME", *state) / "gradus"};
    if (const auto home = value("HOME")) return {absolute("HOME", *home) / ".local/state/gradus"};
    throw Error(ErrorCode::kUsage,
                "there is nowhere to keep state: none of GRADUS_HOME, XDG_STATE_HOME and HOME is set")
        .hint("set GRADUS_HOME to a directory of your own, for example GRADUS_HOME=/var/lib/gradus");
}

void prepareState(const StateDirectory& state) {
    makeDirectoriesDurably(state.root);
    struct stat info {};
    if (::stat(state.root.c_str(), &info) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot look at {}: {}", state.root.native(), errnoText(errno));
    if (!S_ISDIR(info.st_mode))
        throw Error(ErrorCode::kInfrastructure, "{} is not a directory", state.root.native())
            .hint("move it away, or set GRADUS_HOME to another path");
    refuseAnothers(state.root, info.st_uid);
    refuseUntrusted(state.root);
    if (::access(state.root.c_str(), W_OK | X_OK) != 0)
        throw Error(ErrorCode::kInfrastructure, "{} cannot be written: {}", state.root.native(), errnoText(errno))
            .hint("check its owner and mode, or " + std::string(kElsewhere));
}

}  // namespace gradus
