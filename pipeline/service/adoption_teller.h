#pragma once

#include <string>

#include "store/model/adoption.h"
#include "store/records.h"

namespace gradus {

/// Somebody's word for what a stage holds, as people read it.
struct AdoptionTold {
    Adoption adoption;
    std::string by;    ///< "person:alice"
    std::string text;  ///< "person:alice vouched that production holds what p2 (c1.1) brought (tree 3fa4…)"
};

AdoptionTold tellAdoption(const Records& records, const Adoption& adoption);

/// The same without who and when, for a line that has them: "vouched that production holds …".
std::string adoptionSentence(const Records& records, const Adoption& adoption);

}  // namespace gradus
