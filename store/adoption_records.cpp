#include "store/adoption_records.h"

#include <limits>

#include "store/audit_query.h"

namespace gradus {

Adoption adoptionOf(const Event& event) {
    return {.project = event.project.value_or(0),
            .stage = event.stage.value_or(""),
            .tree = event.fields.optionalDigest("tree"),
            .vouched = event.fields.has("vouched"),
            .brought = event.fields.optionalNumber("of"),
            .settles = event.fields.optionalNumber("settles"),
            .uid = event.fields.optionalNumber("uid"),
            .seq = event.seq,
            .by = event.actor.value_or(0),
            .at = event.at};
}

void recordAdoption(Writer& writer, const Adoption& adoption, ActorId by) {
    EventDraft draft;
    draft.kind = EventKind::kStageAdopted;
    draft.actor = by;
    draft.project = adoption.project;
    draft.stage = adoption.stage;
    draft.fields.setIfPresent("tree", adoption.tree);
    if (adoption.vouched) draft.fields.set("vouched", 1);
    draft.fields.setIfPresent("of", adoption.brought).setIfPresent("settles", adoption.settles);
    draft.fields.setIfPresent("uid", adoption.uid);
    writer.record(std::move(draft));
}

std::vector<Adoption> adoptionsOf(Sql& sql, std::int64_t project, const std::string& stage) {
    std::vector<Adoption> all;
    for (const Event& event : queryEvents(sql, {.kind = EventKind::kStageAdopted,
                                               .stage = stage,
                                               .project = project,
                                               .limit = std::numeric_limits<std::int64_t>::max()}))
        all.push_back(adoptionOf(event));
    return all;
}

std::optional<Adoption> standingAdoption(Sql& sql, const Records& records, std::int64_t project,
                                         const std::string& stage) {
    const StageState holds = records.stageState(project, stage);
    if (holds.promotion) return std::nullopt;
    const auto all = adoptionsOf(sql, project, stage);
    const bool stands = !all.empty() && all.back().tree == holds.tree;
    return stands ? std::optional(all.back()) : std::nullopt;
}

}  // namespace gradus
