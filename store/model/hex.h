#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gradus {

/// Two lower-case hexadecimal digits per byte.
std::string toHex(std::string_view bytes);
/// The reverse; nothing unless every digit is lower-case hexadecimal and their number is even.
std::optional<std::string> fromHex(std::string_view text);

}  // namespace gradus
