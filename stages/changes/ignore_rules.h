#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/changes/wild_pattern.h"

namespace gradus {

/// The rules of one `.gitignore` or exclude file, in git's own reading of it. Pure: text in, answers out.
class IgnoreRules {
  public:
    IgnoreRules() = default;
    explicit IgnoreRules(std::string_view text);

    bool empty() const { return rules_.empty(); }

    /// What the last rule that fits says of `path`, which is relative to the directory that the rules are for: ignored,
    /// or not ("!"), or nothing. Says nothing of the directories above the path: an ignored one takes all below with
    /// it.
    std::optional<bool> judge(std::string_view path, bool isDirectory) const;

  private:
    struct Rule {
        bool keeps = false;               ///< "!"
        bool onlyDirectories = false;     ///< a '/' at the end
        bool anyDepth = false;            ///< no other '/': the last part of the path is compared
        bool byEnding = false;            ///< "*" and then `literal`
        std::string literal;              ///< what the text must begin with
        std::optional<WildPattern> wild;  ///< what must fit the rest, if there is more than the literal
    };

    static std::optional<Rule> read(std::string_view line);
    static bool fits(const Rule& rule, std::string_view path, std::string_view name);

    std::vector<Rule> rules_;
};

}  // namespace gradus
