#pragma once

#include <string_view>

#include "store/model/clock.h"

namespace gradus {

/// A moment as people type it: an age (`90s`, `2d`, `1h30m`: that long before `now`) or RFC 3339 with a zone
/// (`2026-03-01T12:00:00Z`, `…+01:00`). Throws Error (usage) that says what is wrong and shows a right one.
Time parseTimeArgument(std::string_view text, Time now);

}  // namespace gradus
