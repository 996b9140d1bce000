#include "pipeline/service/login.h"

#include <pwd.h>
#include <unistd.h>

namespace gradus {

std::string loginName() {
    const passwd* entry = ::getpwuid(::geteuid());
    return entry != nullptr ? entry->pw_name : std::to_string(::geteuid());
}

}  // namespace gradus
