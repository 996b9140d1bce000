#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "plugins/host/child_process.h"
#include "store/file.h"

namespace gradus {

/// A running gradus-jail and our end of its socket.
struct Jail {
    ChildProcess process;
    FileDescriptor control;
    std::uint64_t hostView = 0;  ///< which state of the host's mounts it has seen
    bool holds = false;          ///< a sandbox's lock, until it ends: it is for that one sandbox
    bool waited = false;         ///< it was there before its plan, and may have ended by itself meanwhile
};

/// Jails between two sandboxes: each keeps its namespaces, its view of the host and its control groups. Used oldest
/// first, so that one forgets its last sandbox while another works. May be used from several threads at once.
class JailPool {
  public:
    explicit JailPool(std::size_t most);
    /// Ends those that wait and waits until they are gone.
    ~JailPool();
    JailPool(const JailPool&) = delete;
    JailPool& operator=(const JailPool&) = delete;

    /// One that has seen the host as it is now. Nothing if there is none; others are let go.
    std::optional<Jail> take();
    /// Keeps it for later. False (and the jail stays the caller's) if there are enough.
    bool put(Jail& jail);
    /// The state of the host's mounts now; another number after any change.
    std::uint64_t hostView();

  private:
    std::uint64_t lookAtHost();

    const std::size_t most_;
    std::mutex mutex_;
    std::deque<Jail> idle_;
    FileDescriptor mounts_;  ///< /proc/self/mountinfo: polls as ready after a change
    std::string table_;
    std::uint64_t changes_ = 0;
    std::int64_t rootChanged_ = 0;
};

/// Tells a jail to end, and sees to it.
void endJail(Jail& jail);

}  // namespace gradus
