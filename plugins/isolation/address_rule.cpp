#include "plugins/isolation/address_rule.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace gradus {

namespace {

struct Range4 {
    std::uint32_t first;
    unsigned bits;
    std::string_view what;
};

constexpr std::uint32_t quad(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    return a << 24 | b << 16 | c << 8 | d;
}

// The registry of special addresses, and multicast. The narrower of two comes first.
constexpr std::array kRanges4{
    Range4{quad(0, 0, 0, 0), 32, "unspecified"},       Range4{quad(0, 0, 0, 0), 8, "this-network"},
    Range4{quad(10, 0, 0, 0), 8, "private"},           Range4{quad(100, 100, 100, 200), 32, "metadata"},
    Range4{quad(100, 64, 0, 0), 10, "shared"},         Range4{quad(127, 0, 0, 0), 8, "loopback"},
    Range4{quad(169, 254, 169, 254), 32, "metadata"},  Range4{quad(169, 254, 0, 0), 16, "link-local"},
    Range4{quad(172, 16, 0, 0), 12, "private"},        Range4{quad(192, 0, 0, 0), 24, "reserved"},
    Range4{quad(192, 0, 2, 0), 24, "documentation"},   Range4{quad(192, 31, 196, 0), 24, "reserved"},
    Range4{quad(192, 52, 193, 0), 24, "reserved"},     Range4{quad(192, 88, 99, 0), 24, "reserved"},
    Range4{quad(192, 168, 0, 0), 16, "private"},       Range4{quad(192, 175, 48, 0), 24, "reserved"},
    Range4{quad(198, 18, 0, 0), 15, "benchmarking"},   Range4{quad(198, 51, 100, 0), 24, "documentation"},
    Range4{quad(203, 0, 113, 0), 24, "documentation"}, Range4{quad(224, 0, 0, 0), 4, "multicast"},
    Range4{quad(255, 255, 255, 255), 32, "broadcast"}, Range4{quad(240, 0, 0, 0), 4, "reserved"},
};

std::string_view reserved4(std::uint32_t address) {
    for (const Range4& range : kRanges4)
        if ((address ^ range.first) >> (32 - range.bits) == 0) return range.what;
    return {};
}

using Bytes = std::array<std::uint8_t, 16>;

struct Range6 {
    Bytes first;
    unsigned bits;
    std::string_view what;
};

// What is not listed and not in 2000::/3, the part that is given out, is reserved.
constexpr std::array kRanges6{
    Range6{{}, 128, "unspecified"},
    Range6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, "loopback"},
    Range6{{0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}, 128, "metadata"},
    Range6{{0xfc}, 7, "private"},
    Range6{{0xfe, 0x80}, 10, "link-local"},
    Range6{{0xfe, 0xc0}, 10, "site-local"},
    Range6{{0xff}, 8, "multicast"},
    Range6{{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},
    Range6{{0x3f, 0xff}, 20, "documentation"},
    Range6{{0x20, 0x01, 0x00, 0x02}, 48, "benchmarking"},
    Range6{{0x20, 0x01}, 23, "reserved"},
    Range6{{0x26, 0x20, 0x00, 0x4f, 0x80}, 48, "reserved"},
    Range6{{0x5f}, 16, "reserved"},
};

bool isWithin(const Bytes& address, const Bytes& first, unsigned bits) {
    for (unsigned bit = 0; bit < bits; bit += 8) {
        const unsigned rest = std::min(8U, bits - bit);
        const auto mask = static_cast<std::uint8_t>(0xff << (8 - rest));
        if (((address[bit / 8] ^ first[bit / 8]) & mask) != 0) return false;
    }
    return true;
}

/// Where an IPv6 address of that kind has an IPv4 one inside.
struct Embedding {
    Bytes first;
    unsigned bits;
    std::size_t at;
    std::uint8_t flipped;  ///< 0xff where its bits are inverted
};

constexpr std::array kEmbeddings{
    Embedding{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 12, 0},  // mapped
    Embedding{{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0}, 96, 12, 0},  // translated
    Embedding{{}, 96, 12, 0},                                          // compatible
    Embedding{{0x00, 0x64, 0xff, 0x9b}, 96, 12, 0},                    // NAT64
    Embedding{{0x20, 0x02}, 16, 2, 0},                                 // 6to4
    Embedding{{0x20, 0x01, 0, 0}, 32, 12, 0xff},                       // Teredo: the client
};

// NAT64 and mapped ones are that machine; 6to4, Teredo and the old forms are tunnels nobody should need.
bool leadsStraight(const Embedding& embedding) { return embedding.first[10] == 0xff || embedding.first[1] == 0x64; }

std::uint32_t inner4(const Bytes& address, const Embedding& embedding) {
    std::uint32_t inner = 0;
    for (std::size_t i = 0; i < 4; ++i)
        inner = inner << 8 | static_cast<std::uint32_t>(address[embedding.at + i] ^ embedding.flipped);
    return inner;
}

// A tunnel's or translator's address leads to the one inside.
std::string_view reserved6(const Bytes& address) {
    constexpr Bytes kLocalTranslation{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01};
    constexpr Bytes kGivenOut{0x20};
    for (const Range6& range : kRanges6)
        if (range.bits == 128 && isWithin(address, range.first, range.bits)) return range.what;
    if (isWithin(address, kLocalTranslation, 48)) return "translation";
    for (const Embedding& embedding : kEmbeddings) {
        if (!isWithin(address, embedding.first, embedding.bits)) continue;
        if (const std::string_view what = reserved4(inner4(address, embedding)); !what.empty()) return what;
        return leadsStraight(embedding) ? std::string_view() : "tunnel";
    }
    for (const Range6& range : kRanges6)
        if (isWithin(address, range.first, range.bits)) return range.what;
    return isWithin(address, kGivenOut, 3) ? std::string_view() : "reserved";
}

Bytes bytesOf(const in6_addr& address) {
    Bytes bytes{};
    std::memcpy(bytes.data(), address.s6_addr, bytes.size());
    return bytes;
}

// What is inside of an IPv6 address that is another name for it.
Bytes unwrapped(const NetworkAddress& address) {
    Bytes bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (const auto* four = std::get_if<in_addr>(&address)) {
        std::memcpy(bytes.data() + 12, four, sizeof *four);
        return bytes;
    }
    const Bytes six = bytesOf(std::get<in6_addr>(address));
    for (const Embedding& embedding : kEmbeddings) {
        if (!isWithin(six, embedding.first, embedding.bits) || !leadsStraight(embedding)) continue;
        std::memcpy(bytes.data() + 12, six.data() + embedding.at, 4);
        return bytes;
    }
    return six;
}

}  // namespace

std::optional<NetworkAddress> addressIn(const sockaddr& address) {
    if (address.sa_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, &address, sizeof four);
        return four.sin_addr;
    }
    if (address.sa_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &address, sizeof six);
        return six.sin6_addr;
    }
    return std::nullopt;
}

bool isSameMachine(const NetworkAddress& one, const NetworkAddress& other) {
    return unwrapped(one) == unwrapped(other);
}

std::optional<NetworkAddress> parseAddress(const std::string& text) {
    in_addr four{};
    if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return four;
    in6_addr six{};
    if (::inet_pton(AF_INET6, text.c_str(), &six) == 1) return six;
    return std::nullopt;
}

std::string formatAddress(const NetworkAddress& address) {
    char text[INET6_ADDRSTRLEN] = "";
    if (const auto* four = std::get_if<in_addr>(&address))
        ::inet_ntop(AF_INET, four, text, sizeof text);
    else
        ::inet_ntop(AF_INET6, &std::get<in6_addr>(address), text, sizeof text);
    return text;
}

std::string_view reservedFor(const NetworkAddress& address) {
    if (const auto* four = std::get_if<in_addr>(&address)) return reserved4(ntohl(four->s_addr));
    return reserved6(bytesOf(std::get<in6_addr>(address)));
}

bool isOneMachine(const NetworkAddress& address) {
    const std::string_view what = reservedFor(address);
    return what != "unspecified" && what != "this-network" && what != "multicast" && what != "broadcast";
}

}  // namespace gradus
