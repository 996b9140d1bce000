#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gradus {

/// Work on items that come one by one, done by the caller and, once the caller falls behind, by other threads as well:
/// a few items never cost a thread. The work does not throw, and is for one item at a time on each thread.
template <typename Item>
class SideBySide {
  public:
    SideBySide(std::size_t most, std::function<void(Item&)> work) : most_(most), work_(std::move(work)) {}
    SideBySide(const SideBySide&) = delete;
    SideBySide& operator=(const SideBySide&) = delete;
    ~SideBySide() { finish(); }

    /// The item outlives finish(). Works itself where the others have more than enough.
    void add(Item& item) {
        {
            const std::lock_guard lock(mutex_);
            waiting_.push_back(&item);
            if (waiting_.size() >= kBehind && others_.size() < most_) others_.emplace_back([this] { help(); });
        }
        there_.notify_one();
        while (Item* own = takeAbove(kMostWaiting)) work_(*own);
    }

    /// Works until nothing is left, and waits for the others.
    void finish() {
        while (Item* own = takeAbove(0)) work_(*own);
        {
            const std::lock_guard lock(mutex_);
            isOver_ = true;
        }
        there_.notify_all();
        others_.clear();
    }

  private:
    // Every item that waits may hold a descriptor, so there are not many.
    static constexpr std::size_t kMostWaiting = 24;
    static constexpr std::size_t kBehind = 8;

    Item* takeAbove(std::size_t count) {
        const std::lock_guard lock(mutex_);
        if (waiting_.size() <= count) return nullptr;
        Item* const item = waiting_.front();
        waiting_.pop_front();
        return item;
    }

    void help() {
        while (true) {
            std::unique_lock lock(mutex_);
            there_.wait(lock, [this] { return isOver_ || !waiting_.empty(); });
            if (waiting_.empty()) return;
            Item* const item = waiting_.front();
            waiting_.pop_front();
            lock.unlock();
            work_(*item);
        }
    }

    const std::size_t most_;
    const std::function<void(Item&)> work_;
    std::mutex mutex_;
    std::condition_variable there_;
    std::deque<Item*> waiting_;
    bool isOver_ = false;
    std::vector<std::jthread> others_;
};

}  // namespace gradus
