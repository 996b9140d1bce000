#include "plugins/isolation/run_exchange.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "plugins/isolation/jail_pool.h"

namespace gradus {
namespace {

using Steady = std::chrono::steady_clock;

/// Both ends of a jail's socket.
struct Channel {
    Channel() {
        int pair[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        ours = FileDescriptor(pair[0]);
        jails = FileDescriptor(pair[1]);
    }
    FileDescriptor ours;
    FileDescriptor jails;
};

Command briefCommand() {
    Command command;
    command.arguments = {"true"};
    command.grace = Milliseconds(10);
    return command;
}

Limits wallTime(std::uint64_t millis) {
    Limits limits;
    limits[LimitName::kWallTime] = Limit{millis, true};
    return limits;
}

// Whatever keeps a jail from keeping the time: the engine does not wait for it.
TEST(RunExchange, AJailThatSleepsBeyondTheWallTimeIsGivenUp) {
    const Channel channel;
    const Command command = briefCommand();
    const Limits limits = wallTime(50);
    RunExchange exchange(channel.ours.get(), command, limits, 022, Milliseconds(50));
    exchange.start();
    const auto before = Steady::now();
    exchange.follow();
    EXPECT_TRUE(exchange.isLost());
    EXPECT_TRUE(exchange.isOverdue());
    EXPECT_GE(Steady::now() - before, Milliseconds(100));
    EXPECT_FALSE(exchange.takeReport().cancelled) << "nobody asked for it";
    std::optional<JailFrame> frame = receiveFrame(channel.jails.get());
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->kind, JailMessage::kRun);
    frame = receiveFrame(channel.jails.get());
    ASSERT_TRUE(frame) << "it was told first";
    EXPECT_EQ(frame->kind, JailMessage::kStop);
}

// And its command's output is no sign of life of the jail.
TEST(RunExchange, OutputWithoutEndDoesNotPutOffTheEnd) {
    const Channel channel;
    const Command command = briefCommand();
    const Limits limits = wallTime(50);
    RunExchange exchange(channel.ours.get(), command, limits, 022, Milliseconds(50));
    exchange.start();
    const std::optional<JailFrame> frame = receiveFrame(channel.jails.get());
    ASSERT_TRUE(frame);
    ASSERT_EQ(frame->descriptors.size(), 3U);
    std::jthread chatter([out = frame->descriptors[1].get()](const std::stop_token& stop) {
        while (!stop.stop_requested() && ::write(out, "still here\n", 11) > 0) ::usleep(1000);
    });
    exchange.follow();
    EXPECT_TRUE(exchange.isOverdue());
}

TEST(RunExchange, WithoutAWallTimeItWaits) {
    Channel channel;
    const Command command = briefCommand();
    const Limits limits;
    RunExchange exchange(channel.ours.get(), command, limits, 022, Milliseconds(10));
    exchange.start();
    std::jthread later([&] {
        ::usleep(150'000);
        channel.jails = FileDescriptor();
    });
    const auto before = Steady::now();
    exchange.follow();
    EXPECT_GE(Steady::now() - before, Milliseconds(140));
    EXPECT_TRUE(exchange.isLost()) << "the jail went";
    EXPECT_FALSE(exchange.isOverdue());
}

// A jail that was killed is gone before what it kept: the lock of its layers must not be free by then.
TEST(EndJail, WaitsUntilWhatRanInsideIsGone) {
    ChildProcess init({"/bin/sleep", {"sleep", "0.3"}, {}, {}});
    Jail jail{ChildProcess({"/bin/true", {"true"}, {}, {}}), FileDescriptor()};
    jail.init = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, init.pid(), 0)));
    ASSERT_TRUE(jail.init);
    endJail(jail);
    EXPECT_TRUE(init.wait(Milliseconds(0)));
}

}  // namespace
}  // namespace gradus
