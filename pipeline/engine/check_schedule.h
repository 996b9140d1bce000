#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "policies/language/pipeline.h"

namespace gradus {

/// Which check comes next: those that somebody is to run at the same time take from one of these.
class CheckSchedule {
  public:
    /// The stage's checks that run `when`. Needs that are not among them count as met.
    CheckSchedule(const Pipeline& pipeline, const Stage& stage, CheckWhen when);

    std::size_t size() const { return items_.size(); }
    /// One whose needs have passed; waits while only others that run can make one so. Nothing when no more will come.
    const Check* next();
    void finish(const Check& check, bool passed);
    /// No more will come.
    void stop();

  private:
    enum class Standing { kWaiting, kRunning, kPassed, kNotPassed };
    struct Item {
        const Check* check;
        Standing standing = Standing::kWaiting;
    };
    Item* find(const std::string& name);
    void skipHopeless();
    Item* ready();
    bool isAnyRunning() const;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Item> items_;
    bool stopped_ = false;
};

}  // namespace gradus
