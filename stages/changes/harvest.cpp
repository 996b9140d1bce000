#include "stages/changes/harvest.h"

#include "stages/changes/harvester.h"
#include "store/model/error.h"

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

void goOnHarvesting(const HarvestOptions& options) {
    if (options.cancel.stop_requested()) throw Error(ErrorCode::kNotAllowed, "listing the changes was stopped");
    if (options.until && std::chrono::steady_clock::now() > *options.until)
        throw Error(ErrorCode::kNotAllowed, "listing the changes took longer than the wall-time limit leaves for it");
}

timespec fileSystemNow() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

}  // namespace gradus
