#include "plugins/isolation/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "plugins/isolation/broker_log.h"
#include "plugins/isolation/connection_seat.h"

namespace gradus {
namespace {

FileDescriptor counter(unsigned value) { return FileDescriptor(::eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK)); }

TEST(EventLoop, CallsWhoeverWatchesWhatIsReady) {
    EventLoop loop;
    const FileDescriptor ready = counter(1);
    const FileDescriptor idle = counter(0);
    int calls = 0;
    loop.watch(ready.get(), EPOLLIN, [&](std::uint32_t events) { calls += events == EPOLLIN ? 1 : 100; });
    loop.watch(idle.get(), EPOLLIN, [&](std::uint32_t) { calls += 1000; });
    loop.wait(0);
    EXPECT_EQ(calls, 1);
    loop.change(idle.get(), EPOLLOUT);
    loop.unwatch(ready.get());
    EXPECT_FALSE(loop.isWatched(ready.get()));
    loop.wait(0);
    EXPECT_EQ(calls, 1001);
}

// Both are ready in one round; the first closes the second, and another file gets its number.
TEST(EventLoop, AnEventOfAClosedDescriptorIsNotTheNextOnes) {
    EventLoop loop;
    FileDescriptor files[2] = {counter(1), counter(1)};
    const FileDescriptor idle = counter(0);
    int meant = 0;
    int wrong = 0;
    FileDescriptor next;
    const auto replaceOther = [&](FileDescriptor& other) {
        ++meant;
        const int number = other.get();
        loop.unwatch(number);
        other = FileDescriptor();
        next = FileDescriptor(::dup3(idle.get(), number, O_CLOEXEC));
        ASSERT_EQ(next.get(), number);
        loop.watch(number, EPOLLIN, [&](std::uint32_t) { ++wrong; });
    };
    loop.watch(files[0].get(), EPOLLIN, [&](std::uint32_t) { replaceOther(files[1]); });
    loop.watch(files[1].get(), EPOLLIN, [&](std::uint32_t) { replaceOther(files[0]); });
    loop.wait(0);
    EXPECT_EQ(meant, 1);
    EXPECT_EQ(wrong, 0);
}

NetworkRoute routeTo(const std::string& host) { return {{1, 443}, host, std::nullopt}; }

// Who owns a name decides how many addresses it has.
TEST(BrokerRecord, IsBoundedWhateverAddressesANameHas) {
    BrokerRecord record;
    constexpr std::size_t kMany = 1000;
    for (std::size_t i = 0; i < kMany; ++i) {
        const std::string address = "203.0.113." + std::to_string(i);
        record.allowed(routeTo("shifty.test"), address, i % 2 == 0);
        record.refused(routeTo("shifty.test"), "private-address", address);
    }
    record.allowed(routeTo("shifty.test"), "203.0.113.0", true);
    const BrokerLog log = record.take();
    EXPECT_EQ(log.allowed.size(), BrokerRecord::kMostAddresses + 1);
    EXPECT_EQ(log.refused.size(), BrokerRecord::kMostAddresses + 1);
    std::uint64_t connections = 0;
    std::uint64_t failed = 0;
    std::uint64_t attempts = 0;
    bool others = false;
    for (const AllowedConnection& one : log.allowed) {
        connections += one.connections;
        failed += one.failed;
        others = others || one.address == BrokerRecord::kOthers;
    }
    for (const RefusedConnection& one : log.refused) attempts += one.attempts;
    EXPECT_EQ(connections, kMany / 2 + 1) << "each is counted";
    EXPECT_EQ(failed, kMany / 2);
    EXPECT_EQ(attempts, kMany);
    EXPECT_TRUE(others);
    EXPECT_TRUE(record.take().allowed.empty());
}

TEST(ConnectionSeat, LeavesDescriptorsForEverythingElse) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = 400;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const std::size_t all = ConnectionSeat::all();
    EXPECT_GT(all, 0U);
    EXPECT_LT(2 * all, 100U);
    {
        std::vector<ConnectionSeat> seats;
        for (std::size_t i = 0; i < all; ++i) seats.push_back(*ConnectionSeat::take());
        EXPECT_FALSE(ConnectionSeat::take());
        seats.pop_back();
        EXPECT_TRUE(ConnectionSeat::take()) << "given back";
    }
    EXPECT_TRUE(ConnectionSeat::take());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_GT(ConnectionSeat::all(), all);
}

}  // namespace
}  // namespace gradus
