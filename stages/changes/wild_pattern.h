#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace gradus {

/// One shell pattern as git reads it for ignore rules: `*`, `?` and sets stop at a '/', `**` between slashes does not.
/// Matching takes time in proportion to pattern times text, whatever the pattern: it may come from inside a sandbox.
class WildPattern {
  public:
    explicit WildPattern(std::string_view pattern);

    bool matches(std::string_view text) const;

  private:
    enum class Kind : std::uint8_t { kByte, kOne, kSet, kStar, kAnyDepth, kNever };
    struct Step {
        Kind kind = Kind::kByte;
        unsigned char byte = 0;
        std::size_t set = 0;        ///< of kSet
        bool mayBeSkipped = false;  ///< of kAnyDepth: it and the '/' after it may stand for nothing
    };

    std::size_t readStars(std::string_view pattern, std::size_t at);
    std::size_t readSet(std::string_view pattern, std::size_t at);
    bool accepts(const Step& step, unsigned char byte) const;
    void enter(std::vector<char>& states, std::size_t state, bool arriving) const;

    std::vector<Step> steps_;
    std::vector<std::bitset<256>> sets_;
};

}  // namespace gradus
