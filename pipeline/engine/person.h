#pragma once

#include <string_view>

#include "store/model/actor.h"

namespace gradus {

/// Throws Error(kNotAllowed) for what a machine does not do: "approve".
void requirePerson(const Actor& actor, std::string_view what);

}  // namespace gradus
