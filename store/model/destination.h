#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// What a network by name may reach: a host by its name, one port, and the address that stands for the name where the
/// rule itself says it.
struct Destination {
    std::string host;
    std::optional<std::uint16_t> port;   ///< absent: kUsualPorts
    std::optional<std::string> address;  ///< pinned: never looked up, and may be private

    bool operator==(const Destination&) const = default;
};

/// What a host without a port means: http and https.
inline constexpr std::uint16_t kUsualPorts[] = {80, 443};

/// "HOST[:PORT][=ADDRESS]". Throws Error(kUsage) saying what is wrong with it.
Destination parseDestination(std::string_view text);
/// What is wrong with it, as a predicate ("has no port from 1 to 65535"); empty: nothing.
std::string destinationProblem(std::string_view text);
/// The form that parseDestination reads.
std::string formatDestination(const Destination& destination);

}  // namespace gradus
