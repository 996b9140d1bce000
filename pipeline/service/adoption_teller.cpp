#include "pipeline/service/adoption_teller.h"

#include <fmt/format.h>

#include "store/model/handle.h"

namespace gradus {

namespace {

std::string broughtText(const Records& records, std::int64_t id) {
    const auto promotion = records.promotion(id);
    if (!promotion) return fmt::format("what {} brought", promotionHandle(id));
    return fmt::format("what {} ({}.{}) brought", promotionHandle(id), changeHandle(promotion->change),
                       promotion->revision);
}

std::string claim(const Records& records, const Adoption& adoption) {
    if (adoption.vouched)
        return fmt::format("vouched that {} holds {}", adoption.stage,
                           adoption.brought ? broughtText(records, *adoption.brought) : "nothing of its own");
    if (!adoption.tree)
        return fmt::format("took {} for empty: what it held on record is not there any more", adoption.stage);
    return fmt::format("took what is in {} for what it holds", adoption.stage);
}

}  // namespace

std::string adoptionSentence(const Records& records, const Adoption& adoption) {
    std::string text = claim(records, adoption);
    if (adoption.tree) text += fmt::format(" (tree {})", adoption.tree->brief());
    if (adoption.settles) text += fmt::format(", which settles {}", promotionHandle(*adoption.settles));
    return text;
}

AdoptionTold tellAdoption(const Records& records, const Adoption& adoption) {
    const auto actor = records.actor(adoption.by);
    AdoptionTold told{
        adoption, actor ? fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name) : "somebody", {}};
    told.text = told.by + " " + adoptionSentence(records, adoption);
    return told;
}

}  // namespace gradus
