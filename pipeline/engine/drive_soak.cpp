#include <algorithm>

#include "pipeline/engine/by_hand.h"
#include "pipeline/engine/drive.h"
#include "pipeline/engine/watcher.h"
#include "policies/language/duration.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

constexpr Milliseconds kLookAgain{5000};
// Of what is watched, at most this is lost with the process; a record costs a durable commit.
constexpr Milliseconds kBetweenRecords{30'000};
constexpr std::int64_t kMostRecords = 100;
// A commit and the start of a check lie between two looks of one process as well.
constexpr Milliseconds kNoGap{5000};

}  // namespace

std::vector<CheckReport> Drive::lookAfter(const std::vector<std::string>& names) {
    Stage some = stage_;
    some.checks = names;
    const std::filesystem::path directory = target_->shown().value_or(project_.root);
    return parts_.after(some, directory, evidenceFor(parts_.store.records(), report_.promotion, project_.rules),
                        progress_.checks, cancel_);
}

void Drive::takeBack(const Checkpoint& checkpoint, Cause cause, const std::string& reason,
                     const std::vector<CheckReport>& reports) {
    commit({}, {.checks = reports, .phase = CheckPhase::kAfter});
    if (isTakenBackByHand(stage_) && cause != Cause::kCancelled) {
        report_.reason = fmt::format("{}; the policy leaves taking it back to a person", reason);
        return;
    }
    if (!staysAfter(checkpoint, cause, reason)) rollBack(checkpoint, cause, reason);
}

Watch Drive::watchFrom(WatchPhase phase) const {
    Watch watch;
    watch.promotion = report_.promotion.id;
    watch.phase = phase;
    watch.looked = parts_.clock.moment();
    return watch;
}

std::optional<Watch> Drive::monitorFrom() const {
    const bool isAsked = takesTarget() && stage_.settings.duration("monitor") > Milliseconds(0);
    // What came back is what was there before: it had its own time.
    if (!isAsked || stage_.monitorChecks.empty() || report_.promotion.undoes) return std::nullopt;
    return watchFrom(WatchPhase::kMonitor);
}

// What a process did that is gone is what it put on record; since then nobody looked.
std::pair<Watch, Milliseconds> Drive::soakedSoFar() {
    const Moment now = parts_.clock.moment();
    auto known = parts_.store.records().watches().watch(report_.promotion.id);
    Watch watch = known && known->phase == WatchPhase::kSoak ? *known : watchFrom(WatchPhase::kSoak);
    const Milliseconds unseen = elapsed(watch.looked, now);
    watch.looked = now;
    if (unseen <= kNoGap) return {watch, Milliseconds(0)};
    watch.gap += unseen;
    commit({}, {.watch = watch});
    return {watch, unseen};
}

// Only time in which the checks ran on schedule counts. What is missed is on record, and is waited for again.
void Drive::soak(const Checkpoint& checkpoint) {
    const Milliseconds whole = stage_.settings.duration("soak");
    const Milliseconds most = stage_.policy.settings.duration("gap-limit");
    const Milliseconds between = std::max(kBetweenRecords, whole / kMostRecords);
    auto [watch, gap] = soakedSoFar();
    Milliseconds unrecorded{0};
    Watcher watcher(watchedChecks(project_.pipeline, stage_, kLookAgain), watch.looked);
    while (watch.counted < whole) {
        if (gap > most)
            return takeBack(checkpoint, Cause::kInconclusive,
                            fmt::format("nobody looked for {}, longer than gap-limit = {}", formatDuration(gap),
                                        formatDuration(most)),
                            {});
        parts_.sleep(std::min({watcher.untilNext(parts_.clock.moment()), whole - watch.counted, kLookAgain}), cancel_);
        const Moment began = parts_.clock.moment();
        std::vector<std::string> names = watcher.due(began);
        // The last look is at the end, whatever is due.
        if (elapsed(watch.looked, began) >= whole - watch.counted) names = watcher.all();
        const auto reports = names.empty() ? std::vector<CheckReport>{} : lookAfter(names);
        if (stopped() || verdictOf(reports) != Cause::kPassed) return judgeAfter(checkpoint, reports);
        watch.looked = parts_.clock.moment();
        const Watcher::Time time = watcher.ran(names, began, watch.looked);
        watch.counted += time.counted;
        watch.gap += time.gap;
        gap = time.gap;
        unrecorded += time.counted;
        if (watch.counted >= whole || (time.gap == Milliseconds(0) && unrecorded < between)) continue;
        unrecorded = Milliseconds(0);
        commit({}, {.watch = watch});
    }
    if (!takeBackIfDeparted(checkpoint, {})) finish(checkpoint, {});
}

Hold Drive::holdAfter(std::int64_t promotion, const std::string& why) const {
    return {.project = project_.id,
            .stage = stage_.name,
            .change = report_.promotion.change,
            .promotion = promotion,
            .reason = fmt::format("{} failed: {}", promotionHandle(promotion), why)};
}

}  // namespace gradus
