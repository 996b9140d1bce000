#include "store/model/evidence.h"

#include "store/model/canonical.h"

namespace gradus {

Digest Evidence::fingerprint() const {
    return Canonical("gradus.evidence.1")
        .digest(tree)
        .digest(change)
        .digest(base)
        .digest(rules)
        .digest(check)
        .digest(environment)
        .hash();
}

}  // namespace gradus
