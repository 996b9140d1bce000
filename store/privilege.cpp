#include "store/privilege.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "store/file.h"

namespace gradus {

bool isMachineRoot() {
    if (::geteuid() != 0) return false;
    static const bool kWhole = [] {
        const FileDescriptor map(::open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC));
        char text[128] = {};
        // Where nothing tells, the machine is taken to be ours: what follows will be refused if it is not.
        if (!map || ::read(map.get(), text, sizeof text - 1) <= 0) return true;
        unsigned long long inside = 0;
        unsigned long long outside = 0;
        unsigned long long count = 0;
        return std::sscanf(text, "%llu %llu %llu", &inside, &outside, &count) != 3 || count == 4294967295ULL;
    }();
    return kWhole;
}

}  // namespace gradus
