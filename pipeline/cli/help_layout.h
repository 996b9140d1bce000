#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/cli/style.h"

namespace gradus {

/// A name and what is said about it.
struct HelpRow {
    std::string name;
    std::string doc;
};

/// Rows in two columns that fit 80, under a heading; nothing for no rows. A name too long for the first column has
/// its text on the next line; a long text is wrapped.
std::string helpSection(std::string_view heading, const std::vector<HelpRow>& rows, const Paint& paint);

/// Breaks at blanks so that no line is longer than `width`, words longer than that excepted.
std::vector<std::string> wrapWords(std::string_view text, std::size_t width);

}  // namespace gradus
