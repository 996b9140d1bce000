#pragma once

#include <string>
#include <string_view>

#include "store/model/utf8.h"

namespace gradus {

/// printable() for text of several lines: newlines and tabs stay.
std::string printableLines(std::string_view untrusted);

/// The same for text that Paint coloured: newlines, tabs and exactly Paint's own sequences stay.
std::string printableStyled(std::string_view text);

}  // namespace gradus
