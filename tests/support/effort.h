#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdlib>

namespace gradus::test {

/// Whether the long forms of the tests are wanted.
inline bool isLong() { return std::getenv("GRADUS_LONG") != nullptr; }

/// From one call to the next that a process is killed at. Root is killed at every one. An ordinary user makes the same
/// calls, and is killed at every third, unless the long form is wanted.
inline std::size_t nextCall() { return isLong() || ::geteuid() == 0 ? 1 : 3; }

}  // namespace gradus::test
