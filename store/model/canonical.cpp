#include "store/model/canonical.h"

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

Canonical& Canonical::field(char tag, std::string_view value) {
    bytes_ += tag;
    const auto length = littleEndian<4>(value.size());
    bytes_.append(length.data(), length.size());
    bytes_.append(value);
    return *this;
}

Canonical& Canonical::text(std::string_view value) { return field('t', value); }

Canonical& Canonical::number(std::int64_t value) {
    const auto raw = littleEndian<8>(static_cast<std::uint64_t>(value));
    bytes_ += 'n';
    bytes_.append(raw.data(), raw.size());
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

Canonical& Canonical::list(std::size_t count) {
    bytes_ += 'l';
    const auto raw = littleEndian<8>(count);
    bytes_.append(raw.data(), raw.size());
    return *this;
}

}  // namespace gradus
