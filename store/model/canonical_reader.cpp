#include "store/model/canonical_reader.h"

#include "store/model/error.h"

namespace gradus {

CanonicalReader::CanonicalReader(std::string_view bytes, std::string_view domain)
    : all_(bytes), rest_(bytes), domain_(domain) {
    expectTag('D');
    if (take(littleEndian(4)) != domain) fail("another kind of value");
}

void CanonicalReader::fail(std::string_view reason) const {
    throw Error(ErrorCode::kDamaged, "not a {}: {} at byte {}", domain_, reason, all_.size() - rest_.size());
}

std::string_view CanonicalReader::take(std::size_t count) {
    if (count > rest_.size()) fail("ends too early");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
}

void CanonicalReader::expectTag(char tag) {
    if (rest_.empty() || rest_.front() != tag) fail("another field was expected");
    rest_.remove_prefix(1);
}

std::uint64_t CanonicalReader::littleEndian(std::size_t width) {
    const std::string_view raw = take(width);
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(raw[i]);
    return value;
}

std::string CanonicalReader::text() {
    expectTag('t');
    return std::string(take(littleEndian(4)));
}

std::int64_t CanonicalReader::number() {
    expectTag('n');
    return static_cast<std::int64_t>(littleEndian(8));
}

Digest CanonicalReader::digest() {
    expectTag('d');
    return *Digest::fromBytes(take(Digest::kSize));
}

std::uint64_t CanonicalReader::list() {
    expectTag('l');
    return littleEndian(8);
}

void CanonicalReader::end() const {
    if (!rest_.empty()) fail("bytes follow the end");
}

}  // namespace gradus
