#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "pipeline/cli/result.h"

namespace gradus {

struct Context;

/// The headings of `gradus help`, in their order there.
enum class Group { kTry, kPromote, kAnswer, kRules, kStore, kGradus };

struct Example {
    std::string_view command;  ///< as typed, with "gradus"
    std::string_view doc;
};

struct Positional {
    std::string_view name;  ///< in capitals, singular: "FILE"
    std::string_view doc;
    bool required = true;
    bool repeated = false;                       ///< only the last one may be
    std::vector<std::string_view> choices = {};  ///< if any, the parser accepts nothing else
    std::string_view variable = {};  ///< of the environment, for the first one: what it is when it is left out
};

struct Option {
    std::string_view name;        ///< without dashes: "since"
    std::string_view value = {};  ///< what its value is called, in capitals; empty for a flag
    std::string_view doc;
    char letter = '\0';  ///< for `-C`; most options have none
    bool repeatable = false;
    std::string_view fallback = {};              ///< the default, in words, for the help
    std::vector<std::string_view> choices = {};  ///< if any, the parser accepts nothing else

    bool isFlag() const { return value.empty(); }
};

/// What a verb does. Answers are in the Result; a fault is thrown as Error.
using Handler = std::function<Result(Context&)>;

/// One row of the table of verbs: everything that the parser, the help and the completions know about it.
struct Verb {
    std::string_view words;  ///< "audit verify"; the longest that fits is meant
    Group group;
    std::string_view summary;  ///< one line without a full stop
    std::vector<Example> examples;
    std::vector<Positional> positionals = {};
    std::vector<Option> options = {};
    /// Set for a verb that runs a command: what follows `--` is that command, untouched. For other verbs the words
    /// after `--` are positionals, even if they begin with a dash.
    std::optional<Positional> command = std::nullopt;
    bool onFrontPage = false;  ///< its first example is shown by `gradus help`
    Handler handler;
};

/// The options that every verb has.
const std::vector<Option>& globalOptions();

}  // namespace gradus
