#pragma once

#include <string>
#include <string_view>

#include "policies/language/parsed.h"
#include "store/model/clock.h"

namespace gradus {

/// Reads "250ms", "90s", "30m", "12h", "2d", "1w" and sums from large to small such as "1h30m". A bare number, a sign,
/// a fraction, a space or a repeated unit is refused: a duration that can be misread is not a duration.
Parsed<Milliseconds> parseDuration(std::string_view text);

/// The shortest text that parseDuration reads back as the same duration: "1h30m", "0s".
std::string formatDuration(Milliseconds duration);

}  // namespace gradus
