// What a command reads when its input comes from a descriptor of ours.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "plugins/host/input_relay.h"
#include "store/file.h"
#include "tests/plugins/patience.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

using Steady = std::chrono::steady_clock;

struct Ends {
    FileDescriptor read;
    FileDescriptor write;
};

Ends makePipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

void put(const Ends& pipe, std::string_view text) { writeAll(pipe.write.get(), text, "the pipe"); }

class Input : public SandboxTest {
  protected:
    void SetUp() override {
        SandboxTest::SetUp();
        project_ = std::make_unique<HostProject>(someone());
    }
    void TearDown() override {
        project_.reset();
        SandboxTest::TearDown();
    }

    static Command reading(const std::string& script, int from) {
        Command command = shell(script);
        command.inputFrom = from;
        return command;
    }
    Outcome run(const Command& command, const Limits& limits = {}) { return open(*project_, limits)->run(command); }

  private:
    std::unique_ptr<HostProject> project_;
};

// The next line is only written when the last one has been answered: nothing is kept back.
TEST_F(Input, EveryPieceArrivesAsItComes) {
    Ends pipe = makePipe();
    Command command = reading("while read line; do echo got $line; done; echo end", pipe.read.get());
    put(pipe, "1\n");
    int answered = 0;
    command.live = [&](Stream, std::string_view text) {
        if (!text.starts_with("got")) return;
        if (++answered < 5)
            put(pipe, std::to_string(answered + 1) + "\n");
        else
            pipe.write = FileDescriptor();
    };
    EXPECT_EQ(run(command).out.text(), "got 1\ngot 2\ngot 3\ngot 4\ngot 5\nend\n");
}

TEST_F(Input, ABigFileIsReadToItsEnd) {
    const test::ScratchDirectory place;
    std::string text;
    for (int i = 0; text.size() < 20'000'000; ++i) text += std::to_string(i) + "\n";
    const FileDescriptor file = openFile(place.path() / "big", O_RDWR | O_CREAT);
    writeAll(file.get(), text, "big");
    ::lseek(file.get(), 0, SEEK_SET);
    Command command = reading("cat", file.get());
    command.keepOut = {text.size(), 0};
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.out.bytes, text.size());
    EXPECT_TRUE(outcome.out.head == text) << "the bytes are others";
}

TEST_F(Input, NothingToReadIsTheEndAtOnce) {
    EXPECT_EQ(run(reading("wc -c", openFile("/dev/null", O_RDONLY).get())).out.text(), "0\n");
    Ends pipe = makePipe();
    pipe.write = FileDescriptor();
    EXPECT_EQ(run(reading("wc -c", pipe.read.get())).out.text(), "0\n");
}

// Neither the command nor its output waits for somebody who never reads; only one piece is taken from the source
// beyond what the pipe holds.
TEST_F(Input, ACommandThatNeverReadsRunsToItsEnd) {
    const FileDescriptor zero = openFile("/dev/zero", O_RDONLY);
    const Outcome outcome = run(reading("head -c 1000000 /dev/zero | wc -c", zero.get()));
    EXPECT_EQ(outcome.verdict, Verdict::kOk);
    EXPECT_EQ(outcome.out.text(), "1000000\n");
}

// A write nobody reads is a signal that would end this whole program: it has its usual action here.
TEST_F(Input, ACommandMayCloseItsInputAndGoOn) {
    ASSERT_NE(::signal(SIGPIPE, SIG_DFL), SIG_ERR);
    const FileDescriptor zero = openFile("/dev/zero", O_RDONLY);
    const Outcome outcome =
        run(reading("head -c 100000 | wc -c; exec 0<&-; head -c 50000 /dev/zero | wc -c", zero.get()));
    EXPECT_EQ(outcome.out.text(), "100000\n50000\n") << describe(outcome);
    sigset_t pending;
    ::sigpending(&pending);
    EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
}

// Our side stays open and silent: the end of the command is the end.
TEST_F(Input, TheEndOfTheCommandIsNotDelayedByAnOpenSource) {
    const Ends pipe = makePipe();
    put(pipe, "one\n");
    const auto begin = Steady::now();
    const Outcome outcome = run(reading("read line; echo $line", pipe.read.get()));
    EXPECT_LT(Steady::now() - begin, Milliseconds(patiently(2000)));
    EXPECT_EQ(outcome.out.text(), "one\n");
    EXPECT_EQ(::fcntl(pipe.read.get(), F_GETFL) & O_NONBLOCK, 0) << "a borrowed descriptor was changed";
}

TEST_F(Input, TheDescriptorItselfIsNotInside) {
    const test::ScratchDirectory place;
    const FileDescriptor file = openFile(place.path() / "file", O_RDWR | O_CREAT);
    const Outcome outcome =
        run(reading("test -p /dev/stdin && echo a pipe; cat /dev/stdin; ls /proc/self/fd | wc -l", file.get()));
    EXPECT_EQ(outcome.out.text(), "a pipe\n4\n") << describe(outcome);
}

TEST_F(Input, TheWallTimeLimitEndsACommandThatWaitsForInput) {
    const Ends pipe = makePipe();
    EXPECT_EQ(run(reading("cat", pipe.read.get()), limitsOf({{LimitName::kWallTime, 100}})).verdict, Verdict::kTimeout);
}

TEST(InputRelay, WaitsForTheSinkOnlyWhileSomethingIsToBeWritten) {
    const Ends source = makePipe();
    Ends sink = makePipe();
    InputRelay relay(source.read.get(), std::move(sink.write));
    EXPECT_EQ(relay.wanted().source.fd, source.read.get());
    EXPECT_EQ(relay.wanted().sink.events, 0);
    // The pipe holds 64 KiB; the rest of the second piece has to wait, and the source with it.
    for (int piece = 0; piece < 2; ++piece) {
        put(source, std::string(40'000, 'x'));
        relay.pass(POLLIN, 0);
    }
    EXPECT_EQ(relay.wanted().source.fd, -1);
    EXPECT_EQ(relay.wanted().sink.events, POLLOUT);
    sink.read = FileDescriptor();
    relay.pass(0, POLLOUT);
    EXPECT_EQ(relay.wanted().sink.fd, -1) << "nobody reads any more";
}

}  // namespace
}  // namespace gradus
