#pragma once

#include <memory>
#include <vector>

#include "plugins/isolation/broker_log.h"
#include "plugins/isolation/name_questions.h"
#include "plugins/isolation/network_routes.h"
#include "store/file.h"

namespace gradus {

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
