#pragma once

#include <cstdint>
#include <string>

namespace gradus {

/// What people call a system call of x86-64; "call 999" for one that has no name here.
std::string callName(std::uint32_t number);

}  // namespace gradus
