#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/language/parsed.h"

namespace gradus {

/// A pattern over paths relative to the project, with '/' between parts:
///   *  any characters but '/'      ?  one character but '/'      [a-z] [!a-z]  one of a set
///   ** as a whole part: any number of parts, none included       \x  the character x itself
/// A pattern without a '/' matches the last part at any depth, and one that ends in '/' matches everything below.
/// Matching is linear in pattern times path: no pattern makes it explode.
class Glob {
  public:
    static Parsed<Glob> parse(std::string_view pattern);

    bool matches(std::string_view path) const;
    const std::string& pattern() const { return pattern_; }

  private:
    struct Token {
        enum class Kind { kByte, kAny, kSet, kStar, kDeepStar } kind = Kind::kByte;
        char byte = 0;
        bool negated = false;
        std::vector<std::pair<unsigned char, unsigned char>> ranges;
    };

    static std::string readSet(std::string_view pattern, std::size_t& at, Token& token);
    static bool accepts(const Token& token, char c);

    std::string pattern_;
    std::vector<Token> tokens_;
};

}  // namespace gradus
