#include "stages/sandbox/clone_mounts.h"

#include <sys/vfs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>

#include "stages/sandbox/clone_view.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

bool isOctal(std::string_view text) {
    return text.size() == 3 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
}

// Blanks, tabs, line ends and backslashes are written as \040 and the like.
std::string unescape(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string_view digits = text[i] == '\\' ? text.substr(i + 1, 3) : std::string_view();
        if (isOctal(digits)) {
            plain += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'));
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

// "36 35 98:0 /root /mount/point options optional… - type source options"
std::optional<HostMount> parseLine(std::string_view line) {
    std::vector<std::string_view> fields;
    for (std::size_t start = 0; start < line.size();) {
        const std::size_t end = std::min(line.find(' ', start), line.size());
        fields.push_back(line.substr(start, end - start));
        start = end + 1;
    }
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 5 || fields.end() - dash < 2) return std::nullopt;
    return HostMount{unescape(fields[4]), std::string(*(dash + 1))};
}

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

std::vector<HostMount> parseMounts(std::string_view mountInfo) {
    std::map<std::string, std::string> topmost;
    for (std::size_t start = 0; start < mountInfo.size();) {
        const std::size_t end = std::min(mountInfo.find('\n', start), mountInfo.size());
        if (auto mount = parseLine(mountInfo.substr(start, end - start))) topmost[mount->path.native()] = mount->type;
        start = end + 1;
    }
    std::vector<HostMount> mounts;
    for (auto& [path, type] : topmost) mounts.push_back({path, std::move(type)});
    return mounts;
}

std::vector<HostMount> hostMounts() {
    std::ifstream file("/proc/self/mountinfo");
    std::stringstream text;
    text << file.rdbuf();
    return parseMounts(text.str());
}

std::vector<HostMount> mountsBelow(const std::vector<HostMount>& mounts, const fs::path& directory) {
    std::vector<HostMount> below;
    for (const HostMount& mount : mounts)
        if (mount.path != directory && isWithin(mount.path, directory)) below.push_back(mount);
    return below;
}

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
