#pragma once

#include <string>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/mount_calls.h"
#include "plugins/isolation/jail/protocol.h"

namespace gradus {

/// The open layers of one overlay.
struct OverlayLayers {
    std::vector<Descriptor> lowers;
    Descriptor upper;
    Descriptor work;
};

Attempt openLayers(const JailOverlay& overlay, OverlayLayers& layers);

/// Gives an overlay without directories of its own a place in the scratch space, looking like its topmost lower.
Attempt makeScratchLayers(int scratch, std::size_t index, OverlayLayers& layers);

/// A detached overlay mount.
Attempt mountOverlay(const JailOverlay& overlay, const OverlayLayers& layers, bool rootless, Descriptor& mounted);

/// The same, of lower layers alone: read-only.
Attempt mountLowers(const std::vector<Descriptor>& lowers, bool rootless, Descriptor& mounted);

/// A mount below an overlay's target would be silently absent inside; it needs an entry of its own in the plan.
Attempt refuseNestedMounts(const JailSetup& setup, const std::vector<MountPoint>& mounts);

}  // namespace gradus
