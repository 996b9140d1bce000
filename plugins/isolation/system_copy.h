#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/api/isolation.h"

/// What a copy of the whole system is made of (docs/sandbox-view.md). Inside, root reads whatever it can see: what is
/// hidden here is the boundary.
namespace gradus {

struct SystemCopy {
    std::vector<Overlay> overlays;  ///< the first is that of "/"; file systems of their own have their own
    std::vector<ReadOnlyBind> binds;
    std::vector<std::filesystem::path> hidden;
    std::vector<PrivateFile> seeds;
};
/// What others than its owner may not look into, where machines keep such things. Throws Error where there is more of
/// it than `most`, each of which costs a mount.
std::vector<std::filesystem::path> closedPlaces(std::size_t most = 1000);

/// For the one who asks: as root the kernel's overlays, else one that a FUSE program shows. `project` is left to its
/// own overlay, with what lies below it.
SystemCopy planSystemCopy(const std::filesystem::path& project);
/// All of it, in a workspace that says nothing else: what proofs are made in.
void addTo(Workspace& workspace, const SystemCopy& copy);

/// fuse-overlayfs, where an ordinary user needs it. Throws Error with the cure if it cannot be used. Empty for root.
std::filesystem::path findFuseOverlay();

/// A range of ids.
struct IdRange {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};
/// What /etc/subuid or /etc/subgid gives to a user: "name:first:count", by name or number.
std::vector<IdRange> subordinateIds(std::string_view file, std::string_view user, uid_t uid);

}  // namespace gradus
