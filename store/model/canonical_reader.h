#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/model/digest.h"

namespace gradus {

/// Reads what Canonical wrote. Every method throws Error(kDamaged) when the bytes are not what is asked for; lengths
/// are never believed beyond the bytes that are there.
class CanonicalReader {
  public:
    CanonicalReader(std::string_view bytes, std::string_view domain);

    std::string text();
    std::int64_t number();
    Digest digest();
    std::uint64_t list();
    /// Nothing may follow.
    void end() const;
    [[noreturn]] void fail(std::string_view reason) const;

  private:
    std::string_view take(std::size_t count);
    void expectTag(char tag);
    std::uint64_t littleEndian(std::size_t width);

    std::string_view all_;
    std::string_view rest_;
    std::string_view domain_;
};

}  // namespace gradus
