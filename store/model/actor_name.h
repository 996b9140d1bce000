#pragma once

#include <string>
#include <string_view>

namespace gradus {

/// Why this cannot be anybody's name, as half a sentence that follows it in a message; empty if it can. Two names that
/// look the same are the same: what nobody sees is not in them, what has two spellings has one, and letters of scripts
/// that resemble each other are not mixed.
std::string actorNameProblem(std::string_view name);

/// What two spellings of one person's name have in common: without capitals, without the wide, circled and styled forms
/// of letters, and without punctuation at either end. For comparing who may not act for themselves, not for showing.
std::string actorKey(std::string_view name);

/// Throws Error(kUsage) for a name that cannot be anybody's; `where` is what held it: "GRADUS_ACTOR".
void requireActorName(std::string_view where, std::string_view name);

}  // namespace gradus
