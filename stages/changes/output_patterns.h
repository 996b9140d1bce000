#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/language/glob.h"

namespace gradus {

/// Patterns that name what a check builds.
class OutputPatterns {
  public:
    /// Throws Error(kUsage) for one that is no pattern.
    explicit OutputPatterns(const std::vector<std::string>& patterns);

    bool matches(std::string_view path) const;
    /// Something in a directory of that path may match.
    bool mayMatchBelow(std::string_view directory) const;

  private:
    struct Pattern {
        Glob glob;
        std::string fixed;  ///< the directory that everything which matches lies in; "" for any
    };
    std::vector<Pattern> patterns_;
};

}  // namespace gradus
