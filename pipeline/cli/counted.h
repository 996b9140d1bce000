#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gradus {

/// "1 event", "2 events".
template <typename Count>
std::string counted(Count count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == Count{1} ? "" : "s");
}

}  // namespace gradus
