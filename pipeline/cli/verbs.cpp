#include "pipeline/cli/verbs.h"

#include <iterator>

namespace gradus {

std::vector<Verb> allVerbs() {
    std::vector<Verb> all;
    for (auto* family : {&gradusVerbs}) {
        std::vector<Verb> rows = family();
        all.insert(all.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
    }
    return all;
}

}  // namespace gradus
