#include "stages/sandbox/clone_mounts.h"

#include <sys/vfs.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>

#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

struct Kind {
    std::uint32_t magic;
    std::string_view name;
};
// Names that differ by case are one file there, or their lookups are not the kernel's own: overlayfs refuses them.
constexpr std::array kUnfitLowers{
    Kind{0x4d44, "FAT"},       Kind{0x2011BAB0, "exFAT"}, Kind{0x5346544e, "NTFS"}, Kind{0x7366746e, "NTFS"},
    Kind{0x4244, "HFS"},       Kind{0x482b, "HFS+"},      Kind{0x517B, "SMB"},      Kind{0xFF534D42, "CIFS"},
    Kind{0xFE534D42, "SMB"},   Kind{0x0187, "autofs"},    Kind{0x5346414F, "AFS"},  Kind{0x9fa0, "procfs"},
    Kind{0x62656572, "sysfs"}, Kind{0x1cd1, "devpts"},    Kind{0x27e0eb, "cgroup"}, Kind{0x63677270, "cgroup2"},
};
// No attributes of overlayfs can be kept there, or no device 0:0 that marks a deletion.
constexpr std::array kUnfitUppers{
    Kind{0x794c7630, "overlayfs"}, Kind{0x6969, "NFS"},       Kind{0x65735546, "FUSE"}, Kind{0x01021997, "9p"},
    Kind{0x858458f6, "ramfs"},     Kind{0xf15f, "eCryptfs"},  Kind{0x00C36400, "Ceph"}, Kind{0x73717368, "squashfs"},
    Kind{0x9660, "ISO 9660"},      Kind{0xE0F5E1E2, "EROFS"},
};

template <std::size_t count>
std::optional<std::string> among(const std::array<Kind, count>& kinds, const fs::path& directory) {
    struct statfs info {};
    if (::statfs(directory.c_str(), &info) != 0) return std::nullopt;
    for (const Kind& kind : kinds)
        if (static_cast<std::uint32_t>(info.f_type) == kind.magic) return std::string(kind.name);
    return std::nullopt;
}

}  // namespace

std::optional<std::string> unfitAsLower(const fs::path& directory) { return among(kUnfitLowers, directory); }

std::optional<std::string> unfitAsUpper(const fs::path& directory) {
    if (auto name = among(kUnfitLowers, directory)) return name;
    return among(kUnfitUppers, directory);
}

bool takesUserAttributes(const fs::path& directory) {
    char value[8];
    return ::getxattr(directory.c_str(), "user.overlay.opaque", value, sizeof value) >= 0 || errno != EOPNOTSUPP;
}

bool memoryHoldsLayers() { return isMachineRoot() || takesUserAttributes("/dev/shm"); }

}  // namespace gradus
