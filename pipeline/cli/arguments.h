#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/cli/verb.h"
#include "store/model/error.h"

namespace gradus {

/// What the caller said to one verb, already checked against the verb's row. Asking for a name that the row does not
/// have is a bug and throws std::logic_error.
class Arguments {
  public:
    explicit Arguments(const Verb& verb) : verb_(&verb) {}

    const Verb& verb() const { return *verb_; }
    bool flag(std::string_view option) const;
    std::optional<std::string> value(std::string_view option) const;
    std::vector<std::string> values(std::string_view option) const;
    /// A whole number from `least` to `most`; throws Error (usage) for anything else.
    std::optional<std::int64_t> number(std::string_view option, std::int64_t least, std::int64_t most) const;
    /// Always there if the row says so.
    std::optional<std::string> positional(std::string_view name) const;
    std::vector<std::string> positionals(std::string_view name) const;
    /// What followed `--`, for a verb that runs a command.
    const std::vector<std::string>& command() const { return command_; }

    /// For the parser.
    void addOption(std::string_view option, std::string value) {
        options_[std::string(option)].push_back(std::move(value));
    }
    void addPositional(std::string_view name, std::string value) {
        positionals_[std::string(name)].push_back(std::move(value));
    }
    void forgetPositionals() { positionals_.clear(); }
    void setCommand(std::vector<std::string> words) { command_ = std::move(words); }
    bool isGiven(std::string_view option) const { return options_.contains(std::string(option)); }

  private:
    const Verb* verb_;
    std::map<std::string, std::vector<std::string>> options_;
    std::map<std::string, std::vector<std::string>> positionals_;
    std::vector<std::string> command_;
};

/// A mistake in how `verb` was called: the message names it, the hint ends with where to read on.
Error usageError(std::string_view verb, std::string_view message, std::string_view wayOut = {});

/// One of `choices`, or a usage error that lists them and says which was probably meant. `what` names the place, such
/// as "option '--color'".
void requireChoice(std::string_view verb, std::string_view what, std::string_view given,
                   const std::vector<std::string_view>& choices);

/// "did you mean '--since'?", or nothing.
std::string didYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gradus
