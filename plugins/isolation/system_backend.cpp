#include "plugins/isolation/system_backend.h"

#include <sys/stat.h>

#include "plugins/isolation/namespaces.h"
#include "plugins/isolation/system_copy.h"
#include "store/model/canonical.h"
#include "store/privilege.h"

namespace gradus {

// Whether fuse-overlayfs is there, and which, decides for an ordinary user.
ProbeKey SystemBackend::probeKey() const {
    ProbeKey key = backend_.probeKey();
    std::string fuse;
    try {
        fuse = findFuseOverlay().native();
    } catch (const Error& error) {
        fuse = error.what();
    }
    struct stat info {};
    if (::stat(fuse.c_str(), &info) != 0) info = {};
    key.program = Canonical("gradus.system-program.1")
                      .text(key.program.hex())
                      .text(fuse)
                      .number(info.st_size)
                      .number(info.st_mtim.tv_sec)
                      .hash();
    return key;
}

std::unique_ptr<Sandbox> SystemBackend::open(const Workspace& workspace, const Limits& limits, Network network,
                                             const Identity& identity) {
    return backend_.open(workspace, limits, network, identity);
}

}  // namespace gradus
