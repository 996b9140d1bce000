#include "pipeline/engine/person.h"

#include "store/model/error.h"

namespace gradus {

void requirePerson(const Actor& actor, std::string_view what) {
    if (actor.kind == ActorKind::kPerson) return;
    throw Error(ErrorCode::kNotAllowed, "{} {} does not {}: that takes a person", nameOf(kActorKinds, actor.kind),
                actor.name, what)
        .hint("ask a person to do it");
}

}  // namespace gradus
