#pragma once

#include <cstdint>
#include <cstdlib>

namespace gradus {

/// That many milliseconds, and many more where time says nothing (GRADUS_TEST_EMULATED).
inline std::uint64_t patiently(std::uint64_t millis) {
    return std::getenv("GRADUS_TEST_EMULATED") != nullptr ? millis * 20 : millis;
}

}  // namespace gradus
