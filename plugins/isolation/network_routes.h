#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugins/isolation/jail/protocol.h"
#include "store/model/destination.h"

namespace gradus {

/// One place inside that leads outside, in the order of JailSetup::routes.
struct NetworkRoute {
    JailRoute inside;
    std::string host;
    std::optional<std::string> pinned;
};

/// A route for every destination and port; each name has an address of its own inside. Throws Error(kUsage) for more
/// than a jail takes.
std::vector<NetworkRoute> routesFor(const std::vector<Destination>& destinations);

/// What /etc/hosts says inside: the loopback and the names.
std::string hostsFor(const std::vector<NetworkRoute>& routes);

}  // namespace gradus
