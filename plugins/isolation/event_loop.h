#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "store/file.h"

namespace gradus {

/// Waits for many descriptors at once and calls whoever watches one that is ready. One thread.
class EventLoop {
  public:
    /// What happened, as EPOLLIN and the like.
    using Handler = std::function<void(std::uint32_t events)>;

    /// Throws Error where the kernel has none to give.
    EventLoop();

    /// From now on, until unwatch(). Descriptors are borrowed; unwatch one before it is closed.
    void watch(int fd, std::uint32_t events, Handler handler);
    void change(int fd, std::uint32_t events);
    void unwatch(int fd);
    bool isWatched(int fd) const { return serials_.contains(fd); }

    /// One round: what is ready now, or is so within that time (-1: whenever). Handlers may watch and unwatch anything:
    /// an event of a descriptor that was unwatched meanwhile is nobody's, even if another has its number by then.
    void wait(int millis);

  private:
    struct Watched {
        std::uint32_t events = 0;
        Handler handler;
    };

    void control(int operation, int fd, std::uint32_t events, std::uint64_t serial);

    FileDescriptor epoll_;
    std::uint64_t last_ = 0;
    std::map<int, std::uint64_t> serials_;      ///< by descriptor
    std::map<std::uint64_t, Watched> watched_;  ///< by serial number
};

}  // namespace gradus
