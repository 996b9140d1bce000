#include "pipeline/engine/check_schedule.h"

#include <algorithm>

namespace gradus {

CheckSchedule::CheckSchedule(const Pipeline& pipeline, const Stage& stage, CheckWhen when) {
    for (const std::string& name : stage.checks) {
        const auto check = pipeline.checks.find(name);
        if (check != pipeline.checks.end() && check->second.when == when) items_.push_back({&check->second});
    }
}

CheckSchedule::Item* CheckSchedule::find(const std::string& name) {
    const auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return i.check->name == name; });
    return found == items_.end() ? nullptr : &*found;
}

// The items stand in the order of their needs, so one pass tells of all.
void CheckSchedule::skipHopeless() {
    for (Item& item : items_)
        for (const std::string& need : item.check->settings.list("needs")) {
            const Item* needed = find(need);
            if (item.standing == Standing::kWaiting && needed != nullptr && needed->standing == Standing::kNotPassed)
                item.standing = Standing::kNotPassed;
        }
}

CheckSchedule::Item* CheckSchedule::ready() {
    for (Item& item : items_) {
        if (item.standing != Standing::kWaiting) continue;
        const std::vector<std::string> needs = item.check->settings.list("needs");
        const bool met = std::all_of(needs.begin(), needs.end(), [&](const std::string& need) {
            const Item* needed = find(need);
            return needed == nullptr || needed->standing == Standing::kPassed;
        });
        if (met) return &item;
    }
    return nullptr;
}

bool CheckSchedule::isAnyRunning() const {
    return std::any_of(items_.begin(), items_.end(), [](const Item& i) { return i.standing == Standing::kRunning; });
}

const Check* CheckSchedule::next() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
        skipHopeless();
        if (Item* item = ready()) {
            item->standing = Standing::kRunning;
            return item->check;
        }
        if (!isAnyRunning()) break;
        changed_.wait(lock);
    }
    return nullptr;
}

void CheckSchedule::finish(const Check& check, bool passed) {
    const std::lock_guard guard(mutex_);
    find(check.name)->standing = passed ? Standing::kPassed : Standing::kNotPassed;
    changed_.notify_all();
}

void CheckSchedule::stop() {
    const std::lock_guard guard(mutex_);
    stopped_ = true;
    changed_.notify_all();
}

}  // namespace gradus
