#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// Whoever hands out control groups to an ordinary user; a test puts its own in its place.
class UserManager {
  public:
    virtual ~UserManager() = default;
    /// Asks that `pid` be put into a group of its own, named `scope`, whose subtree is the user's to arrange. Accepted
    /// is not yet done: the process is there when /proc says so.
    virtual Attempt startScope(const std::string& scope, pid_t pid) = 0;
};

/// The user's systemd, over the D-Bus socket at `socket`: the session's bus, or the manager's private one. It speaks
/// just enough of that protocol to make one call, so that this program stays small, static and without a library.
class SystemdUserManager final : public UserManager {
  public:
    explicit SystemdUserManager(std::string socket) : socket_(std::move(socket)) {}
    Attempt startScope(const std::string& scope, pid_t pid) override;

  private:
    std::string socket_;
};

}  // namespace gradus
