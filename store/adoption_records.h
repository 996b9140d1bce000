#pragma once

#include <vector>

#include "store/model/adoption.h"
#include "store/store.h"

namespace gradus {

/// What is there becomes what the stage holds; whatever closed it is over.
void recordAdoption(Writer& writer, const Adoption& adoption, ActorId by);

/// What such an event says.
Adoption adoptionOf(const Event& event);

/// All of a stage, oldest first.
std::vector<Adoption> adoptionsOf(Sql& sql, std::int64_t project, const std::string& stage);

/// What the stage holds on somebody's word; nothing: a promotion brought it, or it never held anything.
std::optional<Adoption> standingAdoption(Sql& sql, const Records& records, std::int64_t project,
                                         const std::string& stage);

}  // namespace gradus
