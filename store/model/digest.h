#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gradus {

/// The SHA-256 of some bytes.
struct Digest {
    static constexpr std::size_t kSize = 32;
    std::array<std::uint8_t, kSize> bytes{};

    auto operator<=>(const Digest&) const = default;

    std::string hex() const;
    /// Enough to recognise it by, for people.
    std::string brief() const { return hex().substr(0, 12); }
    /// Exactly 64 lower-case hexadecimal digits, or nothing.
    static std::optional<Digest> fromHex(std::string_view text);
    /// Exactly 32 bytes, or nothing.
    static std::optional<Digest> fromBytes(std::string_view raw);
    std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), kSize}; }
};

/// SHA-256 over bytes that arrive in pieces. The context is reused: finish() leaves the hasher ready for the next
/// message, which costs a third of setting a new one up. One thread at a time.
class Hasher {
  public:
    Hasher();
    ~Hasher();
    Hasher(Hasher&&) noexcept;
    Hasher& operator=(Hasher&&) noexcept;

    Hasher& update(std::string_view bytes);
    Digest finish();

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

Digest sha256(std::string_view bytes);

}  // namespace gradus

template <>
struct std::hash<gradus::Digest> {
    std::size_t operator()(const gradus::Digest& digest) const noexcept {
        return std::hash<std::string_view>{}(digest.view());
    }
};
