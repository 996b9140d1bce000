#pragma once

#include <string>
#include <string_view>

namespace gradus {

/// Text from outside (file names, titles, output, messages) made safe to show: control characters, escape sequences,
/// characters that reorder or hide text, and bytes that are not UTF-8 become visible, as `\x1b` or `\u{202e}`. What
/// is left can neither drive a terminal nor look like something else. One line: a newline is shown as `\n`.
std::string printable(std::string_view untrusted);

/// The same for text of several lines: newlines and tabs stay.
std::string printableLines(std::string_view untrusted);

/// The same for text that Paint coloured: newlines, tabs and exactly Paint's own sequences stay.
std::string printableStyled(std::string_view text);

}  // namespace gradus
