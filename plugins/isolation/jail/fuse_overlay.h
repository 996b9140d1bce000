#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/overlay.h"

namespace gradus {

/// fuse-overlayfs, for an ordinary user's copy of the system: the kernel's own overlay cannot copy up what belongs to
/// root, whom no user namespace of an ordinary user can name. The program lives where the host's tree is in view, never
/// in the tree it shows, and ends with its owner and with the jail, however that ends.
class FuseOverlay {
  public:
    FuseOverlay() = default;
    FuseOverlay(FuseOverlay&& other) noexcept
        : process_(std::exchange(other.process_, -1)), words_(std::move(other.words_)) {}
    FuseOverlay& operator=(FuseOverlay&& other) noexcept {
        std::swap(process_, other.process_);
        std::swap(words_, other.words_);
        return *this;
    }
    ~FuseOverlay() { end(); }

    /// Shows the layers at `place`, a directory of this mount namespace, and returns once they are there.
    Attempt start(const std::string& program, const OverlayLayers& layers, const std::string& place);
    void end();

  private:
    Attempt waitFor(const std::string& place);
    std::string said() const;

    pid_t process_ = -1;
    Descriptor words_;  ///< what it says on stderr; kept open so that it may go on talking
};

}  // namespace gradus
