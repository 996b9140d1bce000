// What a command prints, whoever holds the pipe, and whoever wants it to end.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "plugins/host/capture.h"
#include "tests/plugins/patience.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using Steady = std::chrono::steady_clock;

class Output : public SandboxTest {};

TEST(Capture, KeepsHeadAndTailAndCountsEverything) {
    Capture capture({4, 4});
    for (const char* piece : {"ab", "cdef", "ghij", "k"}) capture.append(piece);
    const CapturedStream stream = capture.take();
    EXPECT_EQ(stream.head, "abcd");
    EXPECT_EQ(stream.tail, "hijk");
    EXPECT_EQ(stream.bytes, 11U);
    EXPECT_TRUE(stream.truncated);
    EXPECT_EQ(stream.text(), "abcd\n[... 3 bytes left out ...]\nhijk");
}

TEST(Capture, LeavesNothingOutOfAStreamThatFits) {
    for (const std::size_t size : {0U, 3U, 4U, 5U, 8U}) {
        Capture capture({4, 4});
        const std::string text = std::string("12345678").substr(0, size);
        for (const char letter : text) capture.append(std::string(1, letter));
        const CapturedStream stream = capture.take();
        EXPECT_FALSE(stream.truncated);
        EXPECT_EQ(stream.text(), text);
    }
}

TEST(Capture, APieceLargerThanEverythingIsCutOnce) {
    Capture capture({2, 3});
    capture.append("0123456789");
    EXPECT_EQ(capture.take().text(), "01\n[... 5 bytes left out ...]\n789");
    Capture none({0, 0});
    none.append("abc");
    EXPECT_EQ(none.take().bytes, 3U);
}

// A flood costs its budget and no more, and the command is not blocked.
TEST_F(Output, AFloodIsCountedExactlyAndKeptWithinItsBudget) {
    GRADUS_CASES("PR7");
    const HostProject project(someone());
    Command command = guest({"output", "200000000"});
    command.keepOut = {1000, 2000};
    const Outcome outcome = open(project)->run(command);
    EXPECT_EQ(outcome.verdict, Verdict::kOk);
    EXPECT_EQ(outcome.out.bytes, 200'000'000U);
    EXPECT_EQ(outcome.out.head.size(), 1000U);
    EXPECT_EQ(outcome.out.tail.size(), 2000U);
    EXPECT_TRUE(outcome.out.truncated);
}

TEST_F(Output, TheTwoStreamsHaveBudgetsOfTheirOwn) {
    const HostProject project(someone());
    Command command = shell(guestProgram() + " output 100000 1; echo last words >&2");
    command.keepOut = {10, 10};
    const Outcome outcome = open(project)->run(command);
    EXPECT_TRUE(outcome.out.truncated);
    EXPECT_EQ(outcome.err.text(), "last words\n");
    EXPECT_EQ(outcome.err.bytes, 11U);
}

TEST_F(Output, IsGivenToTheSinkAsItArrives) {
    const HostProject project(someone());
    Command command = shell("echo one; echo two >&2; echo three");
    std::string out;
    std::string err;
    command.live = [&](Stream stream, std::string_view bytes) { (stream == Stream::kOut ? out : err) += bytes; };
    const Outcome outcome = open(project)->run(command);
    EXPECT_EQ(out, "one\nthree\n");
    EXPECT_EQ(err, "two\n");
    EXPECT_EQ(outcome.out.text(), out);
}

TEST_F(Output, TheOutputLimitEndsTheCommand) {
    const Outcome outcome = runGuest({"output", "2000000000"}, limitsOf({{LimitName::kOutput, 1'000'000}}));
    EXPECT_EQ(outcome.verdict, Verdict::kLimit);
    EXPECT_TRUE(reportOf(outcome, LimitName::kOutput).tripped);
    EXPECT_LT(outcome.out.bytes, 4'000'000U);
}

// One read brings far more than a small limit
TEST_F(Output, WhatComesBeyondTheLimitIsNotKept) {
    const HostProject project(someone());
    std::string live;
    Command command = guest({"output", "100000"});
    command.live = [&](Stream, std::string_view piece) { live += piece; };
    const auto sandbox = open(project, limitsOf({{LimitName::kOutput, 4096}}));
    const Outcome outcome = sandbox->run(command);
    EXPECT_EQ(outcome.verdict, Verdict::kLimit);
    EXPECT_EQ(outcome.out.head.size() + outcome.out.tail.size(), 4096U);
    EXPECT_TRUE(outcome.out.truncated);
    EXPECT_EQ(live.size(), 4096U);
}

TEST_F(Output, InputIsReadToItsEnd) {
    const HostProject project(someone());
    Command command = shell("wc -c; cat /dev/null");
    command.input = std::string(1'000'000, 'i');
    EXPECT_EQ(open(project)->run(command).out.text(), "1000000\n");
    EXPECT_EQ(open(project)->run(shell("wc -c")).out.text(), "0\n");
}

TEST_F(Output, ArgumentsAndEnvironmentMayBeLarge) {
    const HostProject project(someone());
    Command command = shell("echo ${#BIG} $(( $# ))");
    command.environment.push_back("BIG=" + std::string(100'000, 'e'));
    for (int i = 0; i < 10'000; ++i) command.arguments.emplace_back("argument");
    const Outcome outcome = open(project)->run(command);
    EXPECT_EQ(outcome.out.text(), "100000 9999\n") << describe(outcome);
    command.environment = {"TOO_BIG=" + std::string(200'000, 'e')};
    const Outcome refused = open(project)->run(command);
    EXPECT_EQ(refused.verdict, Verdict::kSetupFailed);
    EXPECT_EQ(refused.failure->error, E2BIG);
}

// A detached grandchild that holds the pipe is ended with the run and delays nothing.
TEST_F(Output, ADetachedGrandchildDoesNotDelayTheVerdict) {
    GRADUS_CASES("PR1", "N14");
    const HostProject project(someone());
    const auto sandbox = open(project);
    const auto begin = Steady::now();
    const Outcome outcome = sandbox->run(guest({"detach", "20000"}));
    EXPECT_LT(Steady::now() - begin, Milliseconds(patiently(5000)));
    EXPECT_EQ(outcome.verdict, Verdict::kOk);
    EXPECT_EQ(outcome.out.text(), "detached\n");
    EXPECT_EQ(outcome.leftBehind, 1U);
}

TEST_F(Output, ACancelledCommandIsKilledAtOnce) {
    GRADUS_CASES("I24");
    const HostProject project(someone());
    const auto sandbox = open(project);
    std::stop_source source;
    Command command = guest({"stubborn"});
    command.cancel = source.get_token();
    command.live = [&](Stream, std::string_view) { source.request_stop(); };  // it is ready
    const auto begin = Steady::now();
    const Outcome outcome = sandbox->run(command);
    EXPECT_LT(Steady::now() - begin, Milliseconds(patiently(2000)));
    EXPECT_EQ(outcome.verdict, Verdict::kKilled);
    EXPECT_FALSE(outcome.exitCode);
    EXPECT_EQ(sandbox->run(shell("true")).verdict, Verdict::kOk) << "the sandbox is still of use";
}

TEST_F(Output, AFastCommandLosesNothingOfWhatItSaid) {
    const HostProject project(someone());
    const auto sandbox = open(project);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(sandbox->run(shell("echo a; echo b >&2")).out.text(), "a\n");
}

}  // namespace
}  // namespace gradus
