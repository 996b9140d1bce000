#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "plugins/host/child_process.h"
#include "store/file.h"

namespace gradus {

/// A running gradus-jail and our end of its socket.
struct Jail {
    ChildProcess process;
    FileDescriptor control;
    std::uint64_t hostView = 0;  ///< which state of the host's mounts it has seen
    bool holds = false;          ///< a sandbox's lock, until it ends: it is for that one sandbox
    bool forgets = false;        ///< it was told to forget its last sandbox, and says so, or ends, once it did
    bool waited = false;         ///< it was there before its plan, and may have ended by itself meanwhile
    FileDescriptor init{};       ///< pid 1 of the last command, which ends after all others inside
};

/// Jails between two sandboxes: each keeps its namespaces, its view of the host and its control groups. Used oldest
/// first, so that one forgets its last sandbox while another works. Once nobody has asked for a while, those that ended
/// or have an old view of the host are replaced, up to as many as ever waited at once. May be used from several threads
/// at once.
class JailPool {
  public:
    struct Settings {
        std::size_t most = 0;                             ///< that wait at once
        std::vector<std::filesystem::path> watched = {};  ///< places that a jail covers once, when it is started
        std::function<Jail()> make = {};                  ///< starts one ahead of its sandbox; none: never refilled
        std::function<void()> whenQuiet = {};  ///< called once it is full, before it rests until somebody asks again
        Milliseconds quiet{50};                ///< without anybody asking, before it is refilled
    };
    explicit JailPool(Settings settings);
    /// Ends those that wait and waits until they are gone.
    ~JailPool();
    JailPool(const JailPool&) = delete;
    JailPool& operator=(const JailPool&) = delete;

    /// One that has seen the host as it is now. Nothing if there is none; others are let go.
    std::optional<Jail> take();
    /// Keeps it for later. False (and the jail stays the caller's) if there are enough.
    bool put(Jail& jail);
    /// The state of the host's mounts, and of what lies beside the watched places, now; another number after any
    /// change.
    std::uint64_t hostView();
    /// A sandbox was begun, with a jail from here or not; it ends with put(), or with left() if its jail ended.
    void begun();
    void left();
    /// Somebody was served by other means: it is not quiet.
    void wasAsked();
    /// How many wait.
    std::size_t waiting();
    /// Makes none from now on. Whoever it was given `make` by is about to go.
    void stopRefilling();

  private:
    using Steady = std::chrono::steady_clock;

    std::uint64_t lookAtHost();
    /// Of those that wait: the ones that ended, or saw the host as it was.
    std::vector<Jail> takeStale();
    /// None of them is still about to find out whether it can be used again.
    bool haveForgotten() const;
    void wasUsed();
    void refill(const std::stop_token& stop);
    bool isLacking(const std::stop_token& stop);

    const Settings settings_;
    const std::vector<std::filesystem::path> around_;  ///< directories in which the watched places lie
    std::mutex mutex_;
    std::deque<Jail> idle_;
    FileDescriptor mounts_;  ///< /proc/self/mountinfo: polls as ready after a change
    std::string table_;
    std::uint64_t changes_ = 0;
    std::vector<std::int64_t> lastChanged_;
    std::size_t begun_ = 0;   ///< sandboxes that are open: their jails may come back
    std::size_t wanted_ = 0;  ///< as many as ever waited at once
    Steady::time_point lastUse_{};
    bool isParked_ = true;
    std::condition_variable_any used_;
    std::jthread refilling_;
};

/// Tells a jail to end, and sees to it: what ran inside is gone, too, unless the kernel itself holds it.
void endJail(Jail& jail);

}  // namespace gradus
