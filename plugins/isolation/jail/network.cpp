#include "plugins/isolation/jail/network.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <set>

#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

constexpr int kLoopback = 1;  // the first interface of every namespace

/// A request to give the loopback one more address.
struct AddressRequest {
    nlmsghdr header{};
    ifaddrmsg message{};
    rtattr attribute{};
    in_addr address{};
};

Attempt addAddress(int netlink, std::uint32_t address) {
    AddressRequest request;
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = RTM_NEWADDR;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    request.message.ifa_family = AF_INET;
    request.message.ifa_prefixlen = 32;
    request.message.ifa_scope = RT_SCOPE_HOST;
    request.message.ifa_index = kLoopback;
    request.attribute.rta_type = IFA_LOCAL;
    request.attribute.rta_len = RTA_LENGTH(sizeof(in_addr));
    request.address.s_addr = htonl(address);
    if (::send(netlink, &request, sizeof request, 0) != sizeof request) return failure("network", "address");
    char answer[512];
    const ssize_t got = ::recv(netlink, answer, sizeof answer, 0);
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(nlmsgerr))) return failure("network", "address", EPROTO);
    nlmsgerr verdict{};
    std::memcpy(&verdict, answer + sizeof(nlmsghdr), sizeof verdict);
    if (verdict.error != 0 && verdict.error != -EEXIST) return failure("network", "address", -verdict.error);
    return std::nullopt;
}

Attempt listenAt(const JailRoute& route, Descriptor& listener) {
    constexpr int kBacklog = 256;
    listener = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(route.port));
    address.sin_addr.s_addr = htonl(route.address);
    if (!listener || ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener.get(), kBacklog) != 0)
        return failure("network", "listen at port " + std::to_string(route.port));
    return std::nullopt;
}

}  // namespace

Attempt openRoutes(const std::vector<JailRoute>& routes, std::vector<Descriptor>& listeners) {
    const Descriptor netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!netlink) return failure("network", "netlink");
    std::set<std::uint32_t> added;
    for (const JailRoute& route : routes) {
        if (added.insert(route.address).second)
            if (auto failed = addAddress(netlink.get(), route.address)) return failed;
        if (auto failed = listenAt(route, listeners.emplace_back())) return failed;
    }
    return std::nullopt;
}

Attempt raiseLoopback() {
    const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) return failure("network", "socket");
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return failure("network", "loopback");
    return std::nullopt;
}

}  // namespace gradus
