#pragma once

#include <string>
#include <string_view>

namespace gradus {

/// Why this cannot be anybody's name, as half a sentence that follows it in a message; empty if it can. Two names that
/// look the same are the same: what nobody sees is not in them, what has two spellings has one, and letters of scripts
/// that resemble each other are not mixed.
std::string actorNameProblem(std::string_view name);

/// Throws Error(kUsage) for a name that cannot be anybody's; `where` is what held it: "GRADUS_ACTOR".
void requireActorName(std::string_view where, std::string_view name);

}  // namespace gradus
