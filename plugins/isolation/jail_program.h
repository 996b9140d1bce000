#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "plugins/api/isolation.h"
#include "plugins/isolation/jail_pool.h"

namespace gradus {

/// A gradus-jail of our own at the other end of a socket; `held` stays open in it until it ends (-1: nothing).
/// Throws SetupError or Error if it cannot be started.
Jail startJail(const std::filesystem::path& program, int held = -1);

/// What proofs about the program depend on: boot, kernel, user, and which file it is, down to its last change.
ProbeKey jailProbeKey(const std::filesystem::path& program);
/// The first letters of its digest.
std::string jailVersion(const std::filesystem::path& program);

/// This process's umask, without touching it.
mode_t ownUmask();

}  // namespace gradus
