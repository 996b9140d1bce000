#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gradus {

/// "1 event", "2 events".
template <typename Count>
std::string counted(Count count, std::string_view noun, std::string_view plural = "s") {
    return fmt::format("{} {}{}", count, noun, count == Count{1} ? "" : plural);
}

}  // namespace gradus
