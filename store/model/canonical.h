#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/model/digest.h"

namespace gradus {

/// The one way values become bytes for hashing: a domain, then fields in a fixed order, each with a type tag and a
/// length. Two different values never give the same bytes, and bytes of one domain never pass for another's
/// (docs/audit-format.md).
class Canonical {
  public:
    /// `domain` names what is encoded and its version, such as "gradus.change-set.1".
    explicit Canonical(std::string_view domain);
    /// Starts over with another domain, keeping the memory: for hashing millions of small values.
    void restart(std::string_view domain);

    Canonical& text(std::string_view value);
    Canonical& number(std::int64_t value);
    Canonical& digest(const Digest& value);
    /// An optional field that is not there; distinct from an empty text and from zero.
    Canonical& absent();
    /// Opens a list of `count` elements; the elements' fields follow.
    Canonical& list(std::size_t count);

    Canonical& optionalText(const std::optional<std::string>& value) { return value ? text(*value) : absent(); }
    Canonical& optionalNumber(const std::optional<std::int64_t>& value) { return value ? number(*value) : absent(); }
    Canonical& optionalDigest(const std::optional<Digest>& value) { return value ? digest(*value) : absent(); }

    const std::string& bytes() const { return bytes_; }
    Digest hash() const { return sha256(bytes_); }

  private:
    Canonical& field(char tag, std::string_view value);
    Canonical& wide(char tag, std::uint64_t value);
    std::string bytes_;
};

}  // namespace gradus
