#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "policies/language/parsed.h"

namespace gradus {

/// Reads a number of bytes: "512M", "4G", "64K", "2T", "1000B"; the units are powers of 1024, and "MiB" is the same as
/// "M". A bare number, a sign or a fraction is refused; so is "MB", which some read as a power of 1000.
Parsed<std::int64_t> parseSize(std::string_view text);

/// The shortest exact text that parseSize reads back: "4G", "1500M", "0B".
std::string formatSize(std::int64_t bytes);

}  // namespace gradus
