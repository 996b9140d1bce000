#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace gradus {

/// An address of either kind, without a port.
using NetworkAddress = std::variant<in_addr, in6_addr>;

/// Nothing for a text that is no address.
std::optional<NetworkAddress> parseAddress(const std::string& text);
std::string formatAddress(const NetworkAddress& address);

/// That of a socket address of either kind.
std::optional<NetworkAddress> addressIn(const sockaddr& address);

/// Whether both lead to one machine: the same address, or one inside of the other (mapped, NAT64).
bool isSameMachine(const NetworkAddress& one, const NetworkAddress& other);

/// What keeps an address from being one of the open internet: "loopback", "private", "link-local" and so on; empty for
/// one that may be reached when a name leads there. An IPv4 address inside of an IPv6 one (mapped, 6to4, NAT64, Teredo
/// and the like) is judged as itself. Pure: decides from the address alone.
std::string_view reservedFor(const NetworkAddress& address);

/// Whether an address can stand for one machine at all: what a rule may pin.
bool isOneMachine(const NetworkAddress& address);

}  // namespace gradus
