#include "pipeline/engine/checked_evidence.h"

#include "store/model/canonical.h"

namespace gradus {

Digest evidenceOver(const std::vector<Digest>& evidence) {
    Canonical all("gradus.checked.1");
    all.list(evidence.size());
    for (const Digest& one : evidence) all.digest(one);
    return all.hash();
}

}  // namespace gradus
