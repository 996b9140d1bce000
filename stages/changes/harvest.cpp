#include "stages/changes/harvest.h"

#include "stages/changes/harvester.h"

namespace gradus {

Harvest harvest(const HarvestSource& source, const HarvestOptions& options) {
    Harvest found = Harvester(source, options).run();
    for (const RepositorySource& repository : source.repositories) {
        HarvestSource part{.layers = repository.layers, .base = repository.base, .since = source.since};
        part.marks = source.marks;
        found.inRepository += Harvester(part, options).countRepository();
    }
    return found;
}

timespec fileSystemNow() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

}  // namespace gradus
