#include "stages/changes/overlay_marks.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

namespace gradus {

namespace {

constexpr std::string_view kTrusted = "trusted.overlay.";
constexpr std::string_view kUser = "user.overlay.";
/// Written by the mounts that gradus makes (index, metacopy and redirects are off), and without meaning here.
constexpr std::array<std::string_view, 5> kHarmless{"impure", "nlink", "upper", "uuid", "protattr"};
/// Would send a lookup elsewhere or hide something; our mounts refuse to follow the first two and never write the
/// third.
constexpr std::array<std::string_view, 3> kUnbelievable{"redirect", "metacopy", "whiteout"};
/// In front of the handle in an origin: version, magic, length, flags, type, identity of the file system.
constexpr std::size_t kOriginHeader = 21;
constexpr std::size_t kOriginType = 4;
constexpr unsigned char kOriginMagic = 0xfb;

template <typename Names>
bool isOneOf(const Names& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::string namesOn(int fd) {
    std::array<char, 1024> small;
    const ssize_t length = ::flistxattr(fd, small.data(), small.size());
    if (length >= 0) return {small.data(), static_cast<std::size_t>(length)};
    if (errno != ERANGE) return {};
    std::string names(XATTR_LIST_MAX, '\0');
    const ssize_t full = ::flistxattr(fd, names.data(), names.size());
    names.resize(full < 0 ? 0 : static_cast<std::size_t>(full));
    return names;
}

std::string valueOf(int fd, const std::string& name) {
    std::array<char, 256> value;
    const ssize_t length = ::fgetxattr(fd, name.c_str(), value.data(), value.size());
    return {value.data(), length < 0 ? 0 : static_cast<std::size_t>(length)};
}

void readOwn(int fd, const std::string& name, std::string_view word, OverlayMarks& marks) {
    if (word == "opaque") {
        marks.opaque = valueOf(fd, name) == "y";
    } else if (word == "origin") {
        marks.origin = valueOf(fd, name);
    } else if (isOneOf(kUnbelievable, word)) {
        marks.unbelievable = name;
    } else if (!isOneOf(kHarmless, word)) {
        marks.forged.push_back(name);
    }
}

}  // namespace

OverlayMarks readMarks(int fd, MarkSpace space) {
    OverlayMarks marks;
    const std::string names = namesOn(fd);
    const std::string_view own = space == MarkSpace::kTrusted ? kTrusted : kUser;
    for (std::size_t at = 0; at < names.size();) {
        const std::string name(names.c_str() + at);
        at += name.size() + 1;
        if (name.starts_with(own)) {
            readOwn(fd, name, std::string_view(name).substr(own.size()), marks);
        } else if (name.starts_with(kTrusted) || name.starts_with(kUser)) {
            marks.forged.push_back(name);
        }
    }
    return marks;
}

bool isOrigin(std::string_view origin, int directory) {
    if (origin.size() <= kOriginHeader || static_cast<unsigned char>(origin[1]) != kOriginMagic) return false;
    alignas(file_handle) std::array<std::byte, sizeof(file_handle) + MAX_HANDLE_SZ> space{};
    auto* const handle = reinterpret_cast<file_handle*>(space.data());
    handle->handle_bytes = MAX_HANDLE_SZ;
    int mount = 0;
    if (::name_to_handle_at(directory, "", handle, &mount, AT_EMPTY_PATH) != 0) return false;
    const std::string_view bytes(reinterpret_cast<const char*>(handle->f_handle), handle->handle_bytes);
    return static_cast<unsigned char>(origin[kOriginType]) == handle->handle_type &&
           origin.substr(kOriginHeader) == bytes;
}

}  // namespace gradus
