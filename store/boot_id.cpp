#include "store/boot_id.h"

#include <fstream>

namespace gradus {

std::string bootId() {
    std::string id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
    return id;
}

}  // namespace gradus
