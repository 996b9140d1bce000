#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/model/digest.h"

namespace gradus {

/// What a driver needs to finish or take back one promotion in another process. Kept as an object before anything is
/// touched; its digest stands in the event that says so.
struct Checkpoint {
    std::string data;             ///< the driver's own words
    std::vector<Digest> objects;  ///< what must not be swept while it may be gone back to

    bool operator==(const Checkpoint&) const = default;
    std::string encode() const;
    /// Throws Error(kDamaged) unless `bytes` are exactly what encode() gives.
    static Checkpoint decode(std::string_view bytes);
};

}  // namespace gradus
