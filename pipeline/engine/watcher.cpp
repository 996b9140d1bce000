#include "pipeline/engine/watcher.h"

#include <algorithm>

namespace gradus {

namespace {

// What a busy machine may be late by, however short the period.
constexpr Milliseconds kSlack{2000};

bool isNamed(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

Milliseconds slackOf(const WatchedCheck& check) { return std::max(check.period, kSlack); }

}  // namespace

std::vector<WatchedCheck> watchedChecks(const Pipeline& pipeline, const Stage& stage, Milliseconds period) {
    std::vector<WatchedCheck> all;
    for (const std::string& name : stage.monitorChecks) {
        const Settings& settings = pipeline.checks.at(name).settings;
        const Milliseconds own = settings.has("interval") ? settings.duration("interval") : period;
        all.push_back({name, own, settings.duration("timeout") * (1 + settings.number("retries"))});
    }
    return all;
}

Watcher::Watcher(std::vector<WatchedCheck> checks, const Moment& last) : last_(last) {
    for (WatchedCheck& check : checks) items_.push_back({std::move(check), last});
}

Milliseconds Watcher::untilNext(const Moment& now) const {
    std::optional<Milliseconds> soonest;
    for (const Item& item : items_) {
        const Milliseconds left = std::max(item.check.period - elapsed(item.last, now), Milliseconds(0));
        soonest = std::min(soonest.value_or(left), left);
    }
    return soonest.value_or(Milliseconds::max());
}

std::vector<std::string> Watcher::due(const Moment& now) const {
    std::vector<std::string> names;
    for (const Item& item : items_)
        if (elapsed(item.last, now) >= item.check.period) names.push_back(item.check.name);
    return names;
}

std::vector<std::string> Watcher::all() const {
    std::vector<std::string> names;
    for (const Item& item : items_) names.push_back(item.check.name);
    return names;
}

bool Watcher::isOnSchedule(const std::vector<std::string>& names, const Moment& began, const Moment& ended) const {
    Milliseconds most = kSlack;
    Milliseconds slack = kSlack;
    for (const Item& item : items_) {
        // Those that were not run count, too: one that is overdue is not on schedule because another is.
        if (elapsed(item.last, began) > item.check.period + slackOf(item.check)) return false;
        if (!isNamed(names, item.check.name)) continue;
        most += item.check.most;
        slack = std::max(slack, slackOf(item.check));
    }
    const Milliseconds counted = elapsed(last_, ended);
    const Milliseconds shown = ended.at - last_.at;
    const bool wasSet = std::max(counted, shown) - std::min(counted, shown) > slack;
    return !wasSet && elapsed(began, ended) <= most;
}

Milliseconds Watcher::pass(const std::vector<std::string>& names, const Moment& ended) {
    const Milliseconds passed = elapsed(last_, ended);
    for (Item& item : items_)
        if (isNamed(names, item.check.name)) item.last = ended;
    last_ = ended;
    return passed;
}

Watcher::Time Watcher::ran(const std::vector<std::string>& names, const Moment& began, const Moment& ended) {
    const bool counts = isOnSchedule(names, began, ended);
    const Milliseconds passed = pass(names, ended);
    return counts ? Time{passed, Milliseconds(0)} : Time{Milliseconds(0), passed};
}

Watcher::Time Watcher::missed(const std::vector<std::string>& names, const Moment& ended) {
    return {Milliseconds(0), pass(names, ended)};
}

}  // namespace gradus
