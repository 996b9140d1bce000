#include "pipeline/cli/style.h"

#include <array>

#include "pipeline/cli/printable.h"

namespace gradus {

namespace {

// In the order of Style.
constexpr std::array<std::string_view, 7> kSequences = {"\x1b[0m",  "\x1b[1m",  "\x1b[2m", "\x1b[31m",
                                                        "\x1b[32m", "\x1b[33m", "\x1b[36m"};

std::string_view sequence(Style style) { return kSequences.at(static_cast<std::size_t>(style)); }

}  // namespace

std::string Paint::operator()(Style style, std::string_view untrusted) const {
    std::string text = printableLines(untrusted);
    if (!colour_ || style == Style::kPlain) return text;
    return std::string(sequence(style)) + text + std::string(sequence(Style::kPlain));
}

std::size_t styleSequenceLength(std::string_view text) {
    for (const std::string_view known : kSequences) {
        if (text.starts_with(known)) return known.size();
    }
    return 0;
}

bool wantsColour(const ColourFacts& facts) {
    if (facts.choice != ColourChoice::kAuto) return facts.choice == ColourChoice::kAlways;
    return facts.isTerminal && !facts.noColor && !facts.dumbTerminal;
}

}  // namespace gradus
