#pragma once

#include <cstddef>
#include <optional>

namespace gradus {

/// The right to one more connection through this process. Each takes two descriptors, of which a process has few and
/// everything else that it does needs some: all sandboxes together get what is beyond those.
class ConnectionSeat {
  public:
    /// Nothing where there is none left.
    static std::optional<ConnectionSeat> take();
    /// How many there are, by the limit of this process as it is now.
    static std::size_t all();

    ConnectionSeat(ConnectionSeat&& other) noexcept;
    ConnectionSeat& operator=(ConnectionSeat&& other) noexcept;
    ~ConnectionSeat();

  private:
    ConnectionSeat() = default;

    bool taken_ = true;
};

}  // namespace gradus
