#include "plugins/isolation/broker_log.h"

#include <utility>

namespace gradus {

namespace {

std::uint16_t portOf(const NetworkRoute& route) { return static_cast<std::uint16_t>(route.inside.port); }

}  // namespace

void BrokerRecord::allowed(const NetworkRoute& route, const std::string& address, bool connected) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto found = allowed_.find({route.host, portOf(route), address});
    if (found == allowed_.end()) {
        const std::string shown = allowed_.size() < kMostAddresses ? address : kOthers;
        const AllowedConnection first{route.host, portOf(route), shown, 0, 0};
        found = allowed_.try_emplace({route.host, portOf(route), shown}, first).first;
    }
    ++(connected ? found->second.connections : found->second.failed);
}

void BrokerRecord::refused(const NetworkRoute& route, const std::string& reason, const std::string& address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto found = refused_.find({route.host, portOf(route), reason, address});
    if (found == refused_.end()) {
        const std::string shown = address.empty() || refused_.size() < kMostAddresses ? address : kOthers;
        const RefusedConnection first{"tcp", route.host, portOf(route), reason, shown, 0, true};
        found = refused_.try_emplace({route.host, portOf(route), reason, shown}, first).first;
    }
    ++found->second.attempts;
}

void BrokerRecord::begun(const NetworkRoute& route) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++unfinished_[{route.host, portOf(route)}];
}

void BrokerRecord::ended(const NetworkRoute& route) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = unfinished_.find({route.host, portOf(route)});
    if (found != unfinished_.end() && --found->second == 0) unfinished_.erase(found);
}

BrokerLog BrokerRecord::take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    BrokerLog log;
    for (auto& [key, one] : std::exchange(allowed_, {})) log.allowed.push_back(std::move(one));
    for (auto& [key, one] : std::exchange(refused_, {})) log.refused.push_back(std::move(one));
    // Nobody waits for these any more, but they were asked for.
    for (const auto& [place, count] : std::exchange(unfinished_, {}))
        log.refused.push_back({"tcp", place.first, place.second, "unfinished", "", count, true});
    return log;
}

}  // namespace gradus
