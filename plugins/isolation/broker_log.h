#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "plugins/isolation/network_routes.h"
#include "store/model/side_effects.h"

namespace gradus {

/// What a broker let through and refused.
struct BrokerLog {
    std::vector<AllowedConnection> allowed;
    std::vector<RefusedConnection> refused;
};

/// Kept while a broker works. Who owns a name decides how many addresses it has: beyond a number of them, those of one
/// name and port are counted together, as `kOthers`. Any thread.
class BrokerRecord {
  public:
    static constexpr std::size_t kMostAddresses = 64;
    static constexpr const char* kOthers = "others";

    void allowed(const NetworkRoute& route, const std::string& address, bool connected);
    void refused(const NetworkRoute& route, const std::string& reason, const std::string& address);
    /// One that was under way when the log was taken is told there, as unfinished.
    void begun(const NetworkRoute& route);
    void ended(const NetworkRoute& route);
    /// What there was since it was last taken.
    BrokerLog take();

  private:
    using Place = std::pair<std::string, std::uint16_t>;  ///< host and port

    std::mutex mutex_;
    std::map<std::tuple<std::string, std::uint16_t, std::string>, AllowedConnection> allowed_;
    std::map<std::tuple<std::string, std::uint16_t, std::string, std::string>, RefusedConnection> refused_;
    std::map<Place, std::uint64_t> unfinished_;
};

}  // namespace gradus
