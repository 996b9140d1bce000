#include "plugins/isolation/network_routes.h"

#include <map>
#include <set>

#include "plugins/isolation/address_rule.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::uint32_t kFirstAddress = 0xc6120001;  // 198.18.0.1: a range that no real network has

}  // namespace

std::vector<NetworkRoute> routesFor(const std::vector<Destination>& destinations) {
    std::map<std::string, std::uint32_t> addresses;
    std::vector<NetworkRoute> routes;
    std::map<std::pair<std::string, std::uint16_t>, const Destination*> known;
    const auto add = [&](const Destination& destination, std::uint16_t port) {
        const auto next = static_cast<std::uint32_t>(kFirstAddress + addresses.size());
        const std::uint32_t address = addresses.emplace(destination.host, next).first->second;
        const auto [there, isNew] = known.emplace(std::pair(destination.host, port), &destination);
        if (isNew) return routes.push_back({{address, port}, destination.host, destination.address});
        if (there->second->address != destination.address)
            throw Error(ErrorCode::kUsage, "'{}' and '{}' lead {}:{} to two places", formatDestination(*there->second),
                        formatDestination(destination), destination.host, port)
                .hint("name it once, with the address that is meant or with none");
    };
    for (const Destination& destination : destinations) {
        if (const auto pin = destination.address ? parseAddress(*destination.address) : std::nullopt;
            pin && !isOneMachine(*pin))
            throw Error(ErrorCode::kUsage, "'{}' pins an address that is no machine's", formatDestination(destination))
                .hint("pin the address of one machine, or none");
        if (destination.port) add(destination, *destination.port);
        if (!destination.port)
            for (const std::uint16_t port : kUsualPorts) add(destination, port);
    }
    if (routes.size() > kMostRoutes)
        throw Error(ErrorCode::kUsage, "{} destinations are more than the {} that a network by name can have",
                    routes.size(), kMostRoutes)
            .hint("name the port with the host: one without means two");
    return routes;
}

std::string hostsFor(const std::vector<NetworkRoute>& routes) {
    std::string text = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
    std::set<std::string> known;
    for (const NetworkRoute& route : routes)
        if (known.insert(route.host).second) {
            in_addr address{};
            address.s_addr = htonl(route.inside.address);
            text += formatAddress(address) + " " + route.host + "\n";
        }
    return text;
}

}  // namespace gradus
