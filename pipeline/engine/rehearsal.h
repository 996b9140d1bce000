#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stages/changes/tree_record.h"
#include "stages/drivers/driver.h"

namespace gradus {

/// A path that is not as it was.
struct RehearsalDifference {
    std::string path;
    std::string what;  ///< "its mode is 644 and was 755"
};

/// What came of applying a change to a target and taking it back.
struct RehearsalOutcome {
    bool applied = false;   ///< the target showed the change, path by path
    bool restored = false;  ///< the driver said so, and nothing differs
    std::vector<std::string> problems;
    std::vector<RehearsalDifference> differences;  ///< by path, between before and after
    std::size_t paths = 0;                         ///< that were compared
    std::uint64_t bytes = 0;
    Milliseconds prepareTime{0};
    Milliseconds applyTime{0};
    Milliseconds rollbackTime{0};

    bool succeeded() const { return applied && restored && problems.empty(); }
};

/// A target that only this process knows, and what to compare in it.
struct RehearsalPlace {
    std::filesystem::path target;  ///< may be missing, before and after
    /// Neither it nor what is below it counts: locks, and what the driver keeps for itself.
    std::function<bool(const std::string&)> isLeftOut = [](const std::string&) { return false; };
    /// The driver replaces it, so its own time is not what it was; its bytes are.
    std::function<bool(const std::string&)> isRemade = [](const std::string&) { return false; };
};

/// Prepares, applies, looks, goes back, looks again. Faults of the driver are problems in the outcome.
RehearsalOutcome rehearse(StageDriver& driver, const StageChange& change, const RehearsalPlace& place);

/// Where two looks at one tree differ: type, bytes, mode and owner of everything, times of files and links. The times
/// of directories move with every name in them and are not promised.
std::vector<RehearsalDifference> differencesBetween(const TreeRecord& before, const TreeRecord& after,
                                                    const std::function<bool(const std::string&)>& isRemade);

}  // namespace gradus
