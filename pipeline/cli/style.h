#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gradus {

enum class Style { kPlain, kBold, kDim, kRed, kGreen, kYellow, kCyan };

/// Colours text for a terminal, or leaves it as it is. What it is given is escaped first, so untrusted text may be
/// painted as it comes.
class Paint {
  public:
    explicit Paint(bool colour) : colour_(colour) {}
    std::string operator()(Style style, std::string_view untrusted) const;
    bool usesColour() const { return colour_; }

  private:
    bool colour_;
};

/// How many bytes at the start of `text` are a sequence that Paint writes; 0 for none.
std::size_t styleSequenceLength(std::string_view text);

enum class ColourChoice { kAuto, kAlways, kNever };

/// What colour depends on. A choice made on the command line wins over the environment.
struct ColourFacts {
    ColourChoice choice = ColourChoice::kAuto;
    bool isTerminal = false;
    bool noColor = false;       ///< NO_COLOR is set and not empty
    bool dumbTerminal = false;  ///< TERM is "dumb" or not set
};

bool wantsColour(const ColourFacts& facts);

}  // namespace gradus
