#pragma once

#include <cstdint>

namespace gradus {

/// Bytes allocated below a directory, each file counted once; stops soon after it has seen more than `most`.
std::uint64_t diskUse(int directory, std::uint64_t most);

}  // namespace gradus
