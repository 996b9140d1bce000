#include "pipeline/service/promoter.h"

#include <limits>

#include "store/audit_query.h"

namespace gradus {

std::optional<Actor> promoterOf(Sql& log, const Records& records, const Promotion& promotion) {
    const AuditQuery query{
        .stage = promotion.stage, .change = promotion.change, .limit = std::numeric_limits<std::int64_t>::max()};
    std::optional<ActorId> asked;
    for (const Event& event : queryEvents(log, query)) {
        if (event.promotion != promotion.id) continue;
        if (event.kind == EventKind::kPromotionOpened) asked = event.actor;
        if (event.kind == EventKind::kPromotionMoved &&
            event.fields.text("to") == nameOf(kPromotionStates, PromotionState::kApplying))
            asked = event.fields.has("for") ? event.fields.number("for") : event.actor;
    }
    return asked ? records.actor(*asked) : std::nullopt;
}

}  // namespace gradus
