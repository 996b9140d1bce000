#include "plugins/isolation/built_ahead.h"

#include <sys/stat.h>

#include <algorithm>

namespace gradus {

namespace {

// Once may be once and never again.
constexpr int kOften = 2;

}  // namespace

PlanGround::Place PlanGround::look(const std::string& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return {path};
    return {path, info.st_dev, info.st_ino, info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec};
}

PlanGround::PlanGround(const JailSetup& setup) {
    for (const JailOverlay& overlay : setup.overlays)
        for (const std::string& lower : overlay.lowers) places_.push_back(look(lower));
    for (const JailBind& bind : setup.binds) places_.push_back(look(bind.source));
    for (const std::string& path : setup.hidden) places_.push_back(look(path));
    for (const std::string& path : setup.alwaysHidden) places_.push_back(look(path));
}

bool PlanGround::isAsItWas() const {
    return std::all_of(places_.begin(), places_.end(), [](const Place& place) { return look(place.path) == place; });
}

void BuiltAhead::note(const JailSetup& setup, std::string plan) {
    const std::lock_guard lock(mutex_);
    asked_ = plan == newestPlan_ ? asked_ + 1 : 1;
    if (asked_ > 1) return;
    newest_ = setup;
    newestPlan_ = std::move(plan);
}

bool BuiltAhead::isOfUse(const Built& built, std::uint64_t hostView) const {
    return built.plan == newestPlan_ && built.hostView == hostView && built.session->isAlive() &&
           built.ground.isAsItWas();
}

std::deque<BuiltAhead::Built> BuiltAhead::takeUseless(std::uint64_t hostView) {
    std::deque<Built> useless;
    for (std::size_t left = built_.size(); left > 0; --left) {
        Built one = std::move(built_.front());
        built_.pop_front();
        (isOfUse(one, hostView) ? built_ : useless).push_back(std::move(one));
    }
    return useless;
}

std::unique_ptr<JailSession> BuiltAhead::take(const std::string& plan, std::uint64_t hostView) {
    std::deque<Built> useless;  // closed outside of the lock
    const std::lock_guard lock(mutex_);
    useless = takeUseless(hostView);
    if (built_.empty() || built_.front().plan != plan) return nullptr;
    std::unique_ptr<JailSession> session = std::move(built_.front().session);
    built_.pop_front();
    ++given_;
    return session;
}

std::optional<JailSetup> BuiltAhead::wanted(std::uint64_t hostView) {
    std::deque<Built> useless;
    const std::lock_guard lock(mutex_);
    useless = takeUseless(hostView);
    return asked_ >= kOften && built_.size() < most_ ? newest_ : std::nullopt;
}

void BuiltAhead::put(const JailSetup& setup, std::unique_ptr<JailSession> session, const PlanGround& ground,
                     std::uint64_t hostView) {
    std::string plan = encode(setup);
    const std::lock_guard lock(mutex_);
    if (built_.size() < most_) built_.push_back({std::move(plan), hostView, ground, std::move(session)});
}

void BuiltAhead::clear() {
    std::deque<Built> all;
    const std::lock_guard lock(mutex_);
    all.swap(built_);
    newest_.reset();
    asked_ = 0;
}

std::size_t BuiltAhead::given() {
    const std::lock_guard lock(mutex_);
    return given_;
}

std::size_t BuiltAhead::size() {
    const std::lock_guard lock(mutex_);
    return built_.size();
}

}  // namespace gradus
