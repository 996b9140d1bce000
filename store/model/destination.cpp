#include "store/model/destination.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::size_t kLongestName = 253;
constexpr std::size_t kLongestLabel = 63;

bool isLetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool isLabel(std::string_view label) {
    return !label.empty() && label.size() <= kLongestLabel && label.front() != '-' && label.back() != '-' &&
           std::all_of(label.begin(), label.end(), [](char c) { return isLetterOrDigit(c) || c == '-' || c == '_'; });
}

bool isAddress(std::string_view text) {
    char ignored[sizeof(in6_addr)];
    const std::string whole(text);
    return ::inet_pton(AF_INET, whole.c_str(), ignored) == 1 || ::inet_pton(AF_INET6, whole.c_str(), ignored) == 1;
}

// "127.1", "0x7f000001" and "2130706433" are addresses in disguise: the last part of a name is never a number.
bool isName(std::string_view host) {
    if (host.empty() || host.size() > kLongestName) return false;
    for (std::string_view rest = host;;) {
        const std::size_t dot = rest.find('.');
        const std::string_view label = rest.substr(0, dot);
        if (!isLabel(label)) return false;
        if (dot == std::string_view::npos) return label.front() < '0' || label.front() > '9';
        rest.remove_prefix(dot + 1);
    }
}

std::optional<std::uint16_t> portIn(std::string_view text) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
    return port;
}

struct Parts {
    std::string_view host;
    std::optional<std::string_view> port;
    std::optional<std::string_view> address;
};

Parts split(std::string_view text) {
    Parts parts;
    if (const std::size_t equals = text.find('='); equals != std::string_view::npos) {
        parts.address = text.substr(equals + 1);
        text = text.substr(0, equals);
    }
    // An address in brackets has colons of its own.
    const std::size_t colon = text.find(']') == std::string_view::npos ? text.find(':') : text.rfind("]:");
    if (colon != std::string_view::npos) {
        const std::size_t at = text[colon] == ']' ? colon + 1 : colon;
        parts.port = text.substr(at + 1);
        text = text.substr(0, at);
    }
    parts.host = text;
    return parts;
}

std::string hostProblem(std::string_view host) {
    std::string_view bare = host;
    if (bare.starts_with('[') && bare.ends_with(']')) bare = bare.substr(1, bare.size() - 2);
    if (isAddress(bare)) return "is an address where a name belongs";
    if (host == "localhost") return "is the sandbox's own loopback, which needs no rule";
    return isName(host) ? "" : "does not name a host";
}

std::string lowerCase(std::string_view text) {
    std::string lower(text);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return lower;
}

}  // namespace

std::string destinationProblem(std::string_view text) {
    const Parts parts = split(text);
    if (std::string problem = hostProblem(parts.host); !problem.empty()) return problem;
    if (parts.port && !portIn(*parts.port)) return "has no port from 1 to 65535";
    if (parts.address && !isAddress(*parts.address)) return "pins something that is no address";
    return {};
}

Destination parseDestination(std::string_view text) {
    if (const std::string problem = destinationProblem(text); !problem.empty())
        throw Error(ErrorCode::kUsage, "'{}' {}", text, problem)
            .hint("write HOST:PORT, such as pypi.org:443, or HOST:PORT=ADDRESS to pin it: db.test:5432=127.0.0.1");
    const Parts parts = split(text);
    Destination destination{lowerCase(parts.host), std::nullopt, std::nullopt};
    if (parts.port) destination.port = portIn(*parts.port);
    if (parts.address) destination.address = std::string(*parts.address);
    return destination;
}

std::string formatDestination(const Destination& destination) {
    std::string text = destination.host;
    if (destination.port) text += fmt::format(":{}", *destination.port);
    if (destination.address) text += "=" + *destination.address;
    return text;
}

}  // namespace gradus
