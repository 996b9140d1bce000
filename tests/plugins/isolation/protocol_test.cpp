// The words between engine and jail: what is written is read, and nothing else is.

#include "plugins/isolation/jail/protocol.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail_verdict.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

JailSetup sampleSetup() {
    JailSetup setup;
    setup.uid = 1000;
    setup.gid = 100;
    setup.hostNetwork = true;
    setup.hostname = "sandbox";
    setup.cgroupRoot = "/sys/fs/cgroup";
    setup.userManager = "/run/user/1000/bus";
    setup.overlays = {{"/srv/shop", {"/srv/a", "/srv/shop"}, "/x/upper", "/x/work", false},
                      {"/opt", {"/opt"}, "", "", true}};
    setup.binds = {{"/etc/hosts", "/run/hosts", true}};
    setup.privates = {{"/tmp", 01777}};
    setup.files = {{"/tmp/note", "text\n", 0600}};
    setup.images = {{"/x/image", "/x/disk", true}};
    setup.subordinateUsers = {{300000, 65536}};
    setup.subordinateGroups = {{300000, 65536}, {400000, 10}};
    setup.hidden = {"/root", "/home"};
    setup.limits = limitsOf({{LimitName::kMemory, 1U << 30}, {LimitName::kWallTime, 30'000}});
    setup.limits[LimitName::kTasks] = Limit{100, false};
    return setup;
}

JailRun sampleRun() {
    return {"/bin/sh", {"sh", "-c", "echo \xff"}, {"A=1", "B="}, "/srv/shop", 250, 022, true, 24, 80};
}

JailSetup systemSetup() {
    JailSetup setup = sampleSetup();
    setup.uid = setup.gid = 0;
    setup.system = true;
    setup.fuseProgram = "/usr/bin/fuse-overlayfs";
    setup.overlays.push_back({"/", {"/"}, "", "", true});
    setup.seeds = {{"/etc/shadow", "root:*:::::::\n", 0640}};
    return setup;
}

TEST(JailProtocol, WhatIsWrittenIsRead) {
    EXPECT_EQ(decodeSetup(encode(sampleSetup())), sampleSetup());
    EXPECT_EQ(decodeSetup(encode(systemSetup())), systemSetup());
    EXPECT_EQ(decodeRun(encode(sampleRun())), sampleRun());
    JailEnded ended;
    ended.end = JailEnd::kMemory;
    ended.signalled = true;
    ended.status = 9;
    ended.peaks[0] = 5;
    ended.tripped[8] = true;
    EXPECT_EQ(decodeEnded(encode(ended)), ended);
    JailStarted started;
    started.initPid = 77;
    started.namespaces[6] = 4026531837;
    EXPECT_EQ(decodeStarted(encode(started)), started);
    JailReady ready;
    ready.enforcers[2] = Enforcer::kTmpfs;
    ready.shortfall = "no rights";
    EXPECT_EQ(decodeReady(encode(ready)), ready);
    const auto failed = decodeFailed(encode(Failure{"mount overlay", 22, "/srv"}));
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->detail, "/srv");
}

TEST(JailProtocol, EveryTruncationAndEveryTrailingByteIsRefused) {
    const std::string bytes = encode(sampleSetup());
    for (std::size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(decodeSetup(bytes.substr(0, length))) << length;
    EXPECT_FALSE(decodeSetup(bytes + '\0'));
    EXPECT_FALSE(decodeRun(encode(sampleRun()) + "x"));
}

TEST(JailProtocol, AnyBytesAreReadOrRefusedButNeverMisread) {
    const bool held = rc::check(
        "decode(bytes) gives a value that encodes to the same bytes, or nothing", [](const std::string& noise) {
            std::string bytes = encode(sampleRun());
            const std::size_t at = noise.empty() ? 0 : static_cast<unsigned char>(noise[0]) % bytes.size();
            bytes.replace(at, std::min(noise.size(), bytes.size() - at), noise.substr(0, bytes.size() - at));
            const auto run = decodeRun(bytes);
            const bool faithful = !run || encode(*run) == bytes;  // the macro would not stop at the first half
            RC_ASSERT(faithful);
            decodeSetup(noise);
            decodeEnded(noise);
            decodeFailed(noise);
        });
    EXPECT_TRUE(held);
}

TEST(JailProtocol, AHeaderOfAnotherVersionIsRefused) {
    const std::string header = encodeHeader(JailMessage::kRun, 10);
    ASSERT_TRUE(decodeHeader(header));
    for (const std::size_t at : {0U, 4U}) {
        std::string other = header;
        ++other[at];
        EXPECT_FALSE(decodeHeader(other));
    }
    EXPECT_FALSE(decodeHeader(encodeHeader(JailMessage::kRun, kJailFrameCap + 1)));
    EXPECT_FALSE(decodeHeader(header.substr(1)));
}

TEST(JailProtocol, FramesCarryDescriptors) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Descriptor left(pair[0]);
    Descriptor right(pair[1]);
    const Descriptor null = openPath(AT_FDCWD, "/dev/null", O_RDONLY);
    ASSERT_TRUE(sendFrame(left.get(), JailMessage::kRun, "body", {null.get(), null.get()}));
    ASSERT_TRUE(sendFrame(left.get(), JailMessage::kStop, {}));
    const auto frame = receiveFrame(right.get());
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->body, "body");
    EXPECT_EQ(frame->descriptors.size(), 2U);
    EXPECT_EQ(receiveFrame(right.get())->kind, JailMessage::kStop);
    right.reset();
    EXPECT_FALSE(sendFrame(left.get(), JailMessage::kStop, {}));
}

TEST(JailProtocol, ObjectsToPlansThatCouldMeanSomethingElse) {
    const auto objects = [](auto change) {
        JailSetup setup = sampleSetup();
        change(setup);
        return objection(setup).has_value();
    };
    EXPECT_FALSE(objection(sampleSetup()));
    for (const char* path : {"", "/", "relative", "/a//b", "/a/./b", "/a/../b", "/a/", "/proc/self", "/dev/x", "/sys"})
        EXPECT_TRUE(objects([&](JailSetup& setup) { setup.hidden.emplace_back(path); })) << path;
    EXPECT_TRUE(objects([](JailSetup& setup) { setup.hidden.emplace_back("/opt"); })) << "named twice";
    EXPECT_TRUE(objects([](JailSetup& setup) { setup.limits[LimitName::kDisk] = Limit{0, true}; }));
    EXPECT_TRUE(objects([](JailSetup& setup) { setup.overlays[0].target = "/"; })) << "the root, and no copy of it";
    EXPECT_TRUE(objects([](JailSetup& setup) { setup.system = true; })) << "a copy without an overlay of the root";
    EXPECT_TRUE(objects([](JailSetup& setup) { setup.seeds = {{"/etc/shadow", "", 0600}}; }));
    EXPECT_TRUE(objects([](JailSetup& setup) { setup.images[0].at = "/proc/x"; }));
    EXPECT_EQ(objection(systemSetup()), std::nullopt);
    JailSetup notRoot = systemSetup();
    notRoot.uid = 1000;
    EXPECT_TRUE(objection(notRoot));
    JailRun run = sampleRun();
    EXPECT_FALSE(objection(run));
    run.environment = {"NOVALUE"};
    EXPECT_TRUE(objection(run));
    run = sampleRun();
    run.arguments.clear();
    EXPECT_TRUE(objection(run));
}

JailEnded exitedWith(std::uint32_t status) {
    JailEnded ended;
    ended.exited = true;
    ended.status = status;
    return ended;
}

Verdict verdictFor(const JailEnded& ended, bool outputTripped = false, bool cancelled = false) {
    RunReport report;
    report.ended = ended;
    report.outputTripped = outputTripped;
    report.cancelled = cancelled;
    return judge(report, {}, {}).verdict;
}

// The whole table of ends.
TEST(JailVerdict, WhatEndedItComesBeforeHowItEnded) {
    GRADUS_CASES("R1", "PR10");
    EXPECT_EQ(verdictFor(exitedWith(0)), Verdict::kOk);
    EXPECT_EQ(verdictFor(exitedWith(1)), Verdict::kFailed);
    JailEnded ended = exitedWith(0);
    ended.end = JailEnd::kWallTime;
    EXPECT_EQ(verdictFor(ended), Verdict::kTimeout) << "it was told to go, and went politely";
    ended = exitedWith(0);
    ended.oom = true;
    EXPECT_EQ(verdictFor(ended), Verdict::kOom) << "a child was killed for memory";
    ended = {};
    ended.end = JailEnd::kCpuTime;
    EXPECT_EQ(verdictFor(ended), Verdict::kLimit);
    ended.end = JailEnd::kStopped;
    EXPECT_EQ(verdictFor(ended), Verdict::kKilled);
    EXPECT_EQ(verdictFor(ended, true), Verdict::kLimit) << "too much output";
    ended.end = JailEnd::kLost;
    EXPECT_EQ(verdictFor(ended), Verdict::kKilled);
    ended = exitedWith(0);
    ended.tripped[static_cast<std::size_t>(LimitName::kTasks)] = true;
    EXPECT_EQ(verdictFor(ended), Verdict::kOk) << "a refusal that did no harm";
    ended.status = 2;
    EXPECT_EQ(verdictFor(ended), Verdict::kLimit);
    EXPECT_EQ(judge({}, {}, {}).verdict, Verdict::kSetupFailed);
}

}  // namespace
}  // namespace gradus
