#include "store/model/canonical.h"

#include <algorithm>
#include <array>

namespace gradus {

namespace {

// Little-endian, fixed width: the same bytes on every machine, whatever its own byte order.
template <std::size_t kWidth>
std::array<char, kWidth> littleEndian(std::uint64_t value) {
    std::array<char, kWidth> out{};
    for (std::size_t i = 0; i < kWidth; ++i) out[i] = static_cast<char>(value >> (8 * i) & 0xff);
    return out;
}

}  // namespace

Canonical::Canonical(std::string_view domain) { restart(domain); }

void Canonical::restart(std::string_view domain) {
    bytes_.clear();
    field('D', domain);
}

// Tag and length in one piece: a walk over the log encodes a dozen fields for every event.
Canonical& Canonical::field(char tag, std::string_view value) {
    const auto length = littleEndian<4>(value.size());
    const char front[] = {tag, length[0], length[1], length[2], length[3]};
    bytes_.append(front, sizeof front).append(value);
    return *this;
}

Canonical& Canonical::text(std::string_view value) { return field('t', value); }

Canonical& Canonical::number(std::int64_t value) { return wide('n', static_cast<std::uint64_t>(value)); }

Canonical& Canonical::wide(char tag, std::uint64_t value) {
    const auto raw = littleEndian<8>(value);
    char piece[9] = {tag};
    std::copy(raw.begin(), raw.end(), piece + 1);
    bytes_.append(piece, sizeof piece);
    return *this;
}

Canonical& Canonical::digest(const Digest& value) {
    bytes_ += 'd';
    bytes_.append(value.view());
    return *this;
}

Canonical& Canonical::absent() {
    bytes_ += '-';
    return *this;
}

Canonical& Canonical::list(std::size_t count) { return wide('l', count); }

}  // namespace gradus
