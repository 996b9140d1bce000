#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/model/names.h"

namespace gradus {

enum class ActorKind { kPerson, kAgent, kDaemon, kCi };

inline constexpr std::array kActorKinds{
    Name<ActorKind>{ActorKind::kPerson, "person"},
    Name<ActorKind>{ActorKind::kAgent, "agent"},
    Name<ActorKind>{ActorKind::kDaemon, "daemon"},
    Name<ActorKind>{ActorKind::kCi, "ci"},
};

/// Who or what does something. The kind is declared by the caller and only ever lowers authority.
struct Actor {
    ActorKind kind = ActorKind::kPerson;
    std::string name;
    auto operator<=>(const Actor&) const = default;
};

using ActorId = std::int64_t;

}  // namespace gradus
