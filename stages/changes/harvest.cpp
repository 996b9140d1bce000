#include "stages/changes/harvest.h"

#include "stages/changes/harvester.h"

namespace gradus {

Harvest harvest(const HarvestSource& source, const HarvestOptions& options) { return Harvester(source, options).run(); }

timespec fileSystemNow() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

}  // namespace gradus
