#include "plugins/isolation/event_loop.h"

#include <sys/epoll.h>

#include <utility>

#include "store/model/error.h"

namespace gradus {

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) throw Error(ErrorCode::kInfrastructure, "cannot wait for events: {}", errnoText(errno));
}

void EventLoop::control(int operation, int fd, std::uint32_t events, std::uint64_t serial) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = serial;
    ::epoll_ctl(epoll_.get(), operation, fd, &event);
}

void EventLoop::watch(int fd, std::uint32_t events, Handler handler) {
    const std::uint64_t serial = ++last_;
    serials_[fd] = serial;
    watched_[serial] = {events, std::move(handler)};
    control(EPOLL_CTL_ADD, fd, events, serial);
}

void EventLoop::change(int fd, std::uint32_t events) {
    const std::uint64_t serial = serials_.at(fd);
    if (std::exchange(watched_.at(serial).events, events) != events) control(EPOLL_CTL_MOD, fd, events, serial);
}

void EventLoop::unwatch(int fd) {
    const auto found = serials_.find(fd);
    if (found == serials_.end()) return;
    control(EPOLL_CTL_DEL, fd, 0, 0);
    watched_.erase(found->second);
    serials_.erase(found);
}

void EventLoop::wait(int millis) {
    constexpr int kMost = 64;
    epoll_event events[kMost];
    const int count = ::epoll_wait(epoll_.get(), events, kMost, millis);
    for (int i = 0; i < count; ++i) {
        const auto found = watched_.find(events[i].data.u64);
        if (found == watched_.end()) continue;
        const Handler handler = found->second.handler;  // it may stop being watched meanwhile
        handler(events[i].events);
    }
}

}  // namespace gradus
