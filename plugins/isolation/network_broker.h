#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/isolation/address_rule.h"
#include "plugins/isolation/jail/protocol.h"
#include "store/file.h"
#include "store/model/destination.h"
#include "store/model/side_effects.h"

namespace gradus {

/// What a name stands for, asked outside; nothing if nobody knows it. May take long; called on threads of its own.
using Resolver = std::function<std::vector<NetworkAddress>(const std::string& host)>;

/// As the host's own programs resolve it.
std::vector<NetworkAddress> resolveAsTheHostDoes(const std::string& host);

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

/// What a broker let through and refused.
struct BrokerLog {
    std::vector<AllowedConnection> allowed;
    std::vector<RefusedConnection> refused;
};

/// Connects by name on behalf of one sandbox. A jail's listening sockets, made in the sandbox's own network, come to
/// it; what is accepted there is passed on to where the name leads, byte by byte: no socket of the host's network is
/// ever inside. A name is resolved anew for every connection, outside, and the address judged by reservedFor() unless
/// the rule pins one; the connection is to exactly the address that was judged.
///
/// Works on a thread of its own, which the destructor ends; connections that are open then are reset.
class NetworkBroker {
  public:
    NetworkBroker(std::vector<NetworkRoute> routes, Resolver resolver);
    ~NetworkBroker();
    NetworkBroker(const NetworkBroker&) = delete;
    NetworkBroker& operator=(const NetworkBroker&) = delete;

    /// The jail's end of the socket; afterwards it is the jail's alone.
    FileDescriptor takeJailEnd();
    /// What there was since it was last asked.
    BrokerLog takeLog();

  private:
    class Loop;
    std::unique_ptr<Loop> loop_;
    FileDescriptor jailEnd_;
};

}  // namespace gradus
