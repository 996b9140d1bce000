#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// Whose attributes the mount obeyed: those that only the machine's root can write, or, in a user namespace, those of
/// the user ("userxattr").
enum class MarkSpace { kTrusted, kUser };

/// What overlayfs, or somebody pretending to be it, has written on a file or directory of a layer.
struct OverlayMarks {
    bool opaque = false;  ///< a directory that hides everything below it
    std::string origin;   ///< the handle of what it was copied from, as overlayfs keeps it; empty when not kept
    /// A mark that our mounts neither write nor follow: what it is on cannot be believed.
    std::optional<std::string> unbelievable;
    /// Attributes that look like marks and had no effect in the mount.
    std::vector<std::string> forged;
};

OverlayMarks readMarks(int fd, MarkSpace space);

/// Whether `origin` is the handle of the open directory: it was copied up from this very one.
bool isOrigin(std::string_view origin, int directory);

}  // namespace gradus
