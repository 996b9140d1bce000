#pragma once

#include <string>
#include <string_view>

namespace gradus {

/// What is wrong with a text, as half a sentence that follows it in a message; empty if nothing is.
using TextRule = std::string (*)(std::string_view text);

std::string plainProblem(std::string_view text);  ///< not empty, not huge, no zero byte
std::string nameProblem(std::string_view text);   ///< of a stage, check, policy, service or role
std::string globProblem(std::string_view text);
std::string innerPathProblem(std::string_view text);    ///< relative, and stays below the project
std::string environmentProblem(std::string_view text);  ///< NAME or NAME=value
std::string urlProblem(std::string_view text);
std::string cronProblem(std::string_view text);
/// Only names such as Europe/Berlin or UTC: never a path that leaves the directory of zones.
std::string timeZoneProblem(std::string_view text);

bool isName(std::string_view text);

}  // namespace gradus
