#include "plugins/isolation/connection_seat.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace gradus {

namespace {

// What the engine needs besides: its store, objects, layers, jails, and whatever opens next.
constexpr std::size_t kReserved = 384;
constexpr std::size_t kPerConnection = 2;
constexpr std::size_t kMost = 4096;

// Of the process, as the descriptors are.
std::atomic<std::size_t>& takenSeats() {
    static std::atomic<std::size_t> count{0};
    return count;
}

}  // namespace

std::size_t ConnectionSeat::all() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    const auto descriptors = static_cast<std::size_t>(limit.rlim_cur);
    if (descriptors <= kReserved) return 0;
    return std::min((descriptors - kReserved) / kPerConnection, kMost);
}

std::optional<ConnectionSeat> ConnectionSeat::take() {
    if (takenSeats().fetch_add(1) < all()) return ConnectionSeat();
    takenSeats().fetch_sub(1);
    return std::nullopt;
}

ConnectionSeat::ConnectionSeat(ConnectionSeat&& other) noexcept : taken_(std::exchange(other.taken_, false)) {}

ConnectionSeat& ConnectionSeat::operator=(ConnectionSeat&& other) noexcept {
    std::swap(taken_, other.taken_);
    return *this;
}

ConnectionSeat::~ConnectionSeat() {
    if (taken_) takenSeats().fetch_sub(1);
}

}  // namespace gradus
