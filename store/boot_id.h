#pragma once

#include <string>

namespace gradus {

/// What tells this boot of the machine from all others; empty where the kernel does not say.
std::string bootId();

}  // namespace gradus
