#include "pipeline/engine/rehearsal.h"

#include <chrono>

#include "stages/changes/tree_reader.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

class Stopwatch {
  public:
    Milliseconds read() const {
        return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began_);
    }

  private:
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

TreeRecord lookAt(const RehearsalPlace& place) {
    if (!fs::exists(fs::symlink_status(place.target))) return {};
    RecordRequest request;
    request.isLeftOut = place.isLeftOut;
    return recordTree(TreeRoot(place.target), request);
}

std::string entryText(const Entry& entry) {
    return fmt::format("a {} of {} bytes", nameOf(kEntryTypes, entry.type), entry.size);
}

bool isSameTime(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

/// Empty if the two are the same.
std::string differenceOf(const RecordedPath& was, const RecordedPath& is, bool isRemade) {
    if (was.entry.type != is.entry.type)
        return fmt::format("it is {} and was {}", entryText(is.entry), entryText(was.entry));
    if (was.entry.digest != is.entry.digest) return "its bytes are not what they were";
    if (was.entry.mode != is.entry.mode)
        return fmt::format("its mode is {:o} and was {:o}", is.entry.mode, was.entry.mode);
    if (was.user != is.user || was.group != is.group)
        return fmt::format("it belongs to {}:{} and belonged to {}:{}", is.user, is.group, was.user, was.group);
    const bool hasTime = was.entry.type != EntryType::kDirectory && !isRemade;
    return hasTime && !isSameTime(was.modified, is.modified) ? "its modification time is not what it was" : "";
}

/// What the driver shows is what the change says, and what was built along with it.
void lookAtApplied(const StageDriver& driver, const StageChange& change, RehearsalOutcome& outcome) {
    const auto shown = driver.shown();
    if (!shown) return outcome.problems.emplace_back("nothing is shown after it was applied"), void();
    const DirectoryReader tree(*shown);
    for (const ChangeSet* changes : {&change.changes, &change.outputs})
        for (const PathChange& path : changes->changes())
            if (tree.at(path.path) != path.after)
                outcome.problems.push_back(fmt::format("'{}' is not what the change makes of it", path.path));
}

void apply(StageDriver& driver, const StageChange& change, const Checkpoint& checkpoint, RehearsalOutcome& outcome) {
    const Stopwatch time;
    const ApplyOutcome said = driver.apply(checkpoint);
    outcome.applyTime = time.read();
    for (const Conflict& conflict : said.conflicts) outcome.problems.push_back(describe(conflict));
    if (!said.failure.empty()) outcome.problems.push_back(said.failure);
    if (said.applied) lookAtApplied(driver, change, outcome);
    if (said.applied && driver.observe(checkpoint) != StageDriver::Observed::kAfter)
        outcome.problems.emplace_back("the driver does not see that it is applied");
    outcome.applied = said.applied && outcome.problems.empty();
}

void goBack(StageDriver& driver, const Checkpoint& checkpoint, RehearsalOutcome& outcome) {
    const Stopwatch time;
    const RollbackOutcome said = driver.rollback(checkpoint);
    outcome.rollbackTime = time.read();
    outcome.restored = said.complete;
    for (const std::string& problem : said.problems) outcome.problems.push_back(problem);
    for (const Kept& kept : said.kept) outcome.problems.push_back(fmt::format("'{}': {}", kept.path, kept.reason));
    if (driver.observe(checkpoint) != StageDriver::Observed::kBefore)
        outcome.problems.emplace_back("the driver does not see that it is taken back");
}

}  // namespace

std::vector<RehearsalDifference> differencesBetween(const TreeRecord& before, const TreeRecord& after,
                                                    const std::function<bool(const std::string&)>& isRemade) {
    std::vector<RehearsalDifference> differences;
    for (const RecordedPath& was : before.paths) {
        const RecordedPath* is = after.find(was.path);
        const std::string what = is == nullptr ? "it is gone" : differenceOf(was, *is, isRemade(was.path));
        if (!what.empty()) differences.push_back({was.path, what});
    }
    for (const RecordedPath& is : after.paths)
        if (before.find(is.path) == nullptr) differences.push_back({is.path, "it was not there before"});
    return differences;
}

RehearsalOutcome rehearse(StageDriver& driver, const StageChange& change, const RehearsalPlace& place) {
    RehearsalOutcome outcome;
    try {
        const TreeRecord before = lookAt(place);
        outcome.paths = before.paths.size();
        outcome.bytes = before.bytes();
        const Stopwatch time;
        const Checkpoint checkpoint = driver.checkpoint(change);
        outcome.prepareTime = time.read();
        apply(driver, change, checkpoint, outcome);
        goBack(driver, checkpoint, outcome);
        outcome.differences = differencesBetween(before, lookAt(place), place.isRemade);
        outcome.restored = outcome.restored && outcome.differences.empty();
    } catch (const Error& e) {
        outcome.restored = false;
        outcome.problems.emplace_back(e.what());
    }
    return outcome;
}

}  // namespace gradus
