#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/cli/exit_code.h"

namespace gradus {

/// Keys keep the order in which they were written, so output reads the way its author meant it.
using Json = nlohmann::ordered_json;

/// Why a verb did not do what was asked, in the words of `error` in --json.
struct Problem {
    std::string code;
    std::string message;
    std::string hint = {};
    bool retryable = false;
};

/// What a verb answers. The frame shows it: as one JSON envelope or as text, never both.
struct Result {
    Exit exit = Exit::kOk;
    Json data = Json::object();
    std::string text = {};               ///< for people, on stdout; ends with a newline, or is empty
    std::vector<std::string> next = {};  ///< whole commands that make sense now
    /// Set when the answer is no: `ok` is false, `data` is still shown. A verb that passes a command's exit code
    /// through has no problem, whatever the code.
    std::optional<Problem> problem = std::nullopt;
    /// The verb wrote its data line by line; there is nothing left to show but a problem.
    bool streamed = false;
};

}  // namespace gradus
