#pragma once

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <stdexcept>

#include "store/model/error.h"

namespace gradus::test {

/// Once per process: a mount namespace of its own, whose mounts nobody else sees and which ends with the process.
inline void enterOwnMounts() {
    static const bool kEntered = [] {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
            throw std::runtime_error("cannot have a mount namespace: " + errnoText(errno));
        return true;
    }();
    static_cast<void>(kEntered);
}

}  // namespace gradus::test
