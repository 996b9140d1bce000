#pragma once

#include <cstdint>
#include <vector>

#include "store/file.h"

namespace gradus {

/// Two connected sockets of which each gets what the other says, until both have said all: a half-closed connection
/// stays one, a reset is passed on as a reset. Never blocks.
class Relay {
  public:
    /// Both are made non-blocking and send without delay.
    Relay(FileDescriptor inside, FileDescriptor outside);
    ~Relay();
    Relay(Relay&&) noexcept = default;
    Relay& operator=(Relay&&) = delete;

    int inside() const { return inside_.get(); }
    int outside() const { return outside_.get(); }
    /// What to wait for (EPOLLIN, EPOLLOUT) at each; nothing at all once one has ended both ways.
    struct Interest {
        std::uint32_t inside = 0;
        std::uint32_t outside = 0;
        bool operator==(const Interest&) const = default;
    };
    Interest interest() const;
    /// Moves what can be moved. False: it is over.
    bool pass();
    /// One end is gone: the other hears of it as of a reset.
    void reset();

  private:
    struct Direction {
        std::vector<char> bytes{};
        std::size_t sent = 0;
        bool ended = false;  ///< nothing more comes
        bool told = false;   ///< and the other end knows

        bool holds() const { return sent < bytes.size(); }
    };
    static bool move(int from, int to, Direction& direction);

    FileDescriptor inside_;
    FileDescriptor outside_;
    Direction outward_;
    Direction inward_;
    bool broken_ = false;
};

}  // namespace gradus
