// A command on a terminal: its own, made inside, with a person's at the other end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>

#include "store/file.h"
#include "tests/plugins/patience.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

/// A person's terminal, and what the person does and sees.
class Person {
  public:
    Person() {
        winsize size{30, 100, 0, 0};
        int master = -1;
        int slave = -1;
        EXPECT_EQ(::openpty(&master, &slave, nullptr, nullptr, &size), 0);
        ::fcntl(master, F_SETFL, O_NONBLOCK);
        master_ = FileDescriptor(master);
        slave_ = FileDescriptor(slave);
    }

    TerminalLink link() const { return {slave_.get(), slave_.get()}; }
    void type(std::string_view keys) const { writeAll(master_.get(), keys, "the terminal"); }
    void resize(unsigned short rows, unsigned short columns) const {
        const winsize size{rows, columns, 0, 0};
        ::ioctl(master_.get(), TIOCSWINSZ, &size);
        ::raise(SIGWINCH);  // what the kernel does for a terminal that is ours
    }
    std::string seen() const {
        std::string text;
        char piece[4096];
        for (ssize_t got = 0; (got = ::read(master_.get(), piece, sizeof piece)) > 0;)
            text.append(piece, static_cast<std::size_t>(got));
        return text;
    }
    bool echoes() const {
        termios settings{};
        return ::tcgetattr(slave_.get(), &settings) == 0 && (settings.c_lflag & ECHO) != 0;
    }

  private:
    FileDescriptor master_;
    FileDescriptor slave_;
};

class OnATerminal : public SandboxTest {
  protected:
    Outcome run(const Person& person, const std::string& script,
                const std::function<void(std::string_view)>& onOutput = {}) {
        const HostProject project(someone());
        Command command = shell(script, project.path());
        command.terminal = person.link();
        if (onOutput) command.live = [&](Stream, std::string_view bytes) { onOutput(bytes); };
        return open(project, limitsOf({{LimitName::kWallTime, 20'000}}))->run(command);
    }
};

TEST_F(OnATerminal, TheCommandHasATerminalOfItsOwnAndOfTheSameSize) {
    GRADUS_CASES("NS28");
    const Person person;
    const Outcome outcome =
        run(person, "test -t 0 && test -t 1 && test -t 2 && tty && stty size && : < /dev/tty && exit 7");
    EXPECT_EQ(outcome.exitCode, 7) << describe(outcome);
    EXPECT_EQ(outcome.out.text(), "/dev/pts/0\r\n30 100\r\n");
    EXPECT_EQ(person.seen(), outcome.out.text()) << "the person saw something else";
    EXPECT_TRUE(person.echoes()) << "the person's terminal was not put back";
}

TEST_F(OnATerminal, KeysGoInAndControlCIsTheCommandsOwn) {
    const Person person;
    std::string shown;
    const Outcome outcome =
        run(person, "echo ready; read line; echo got $line; exec sleep 10", [&](std::string_view bytes) {
            shown += bytes;
            if (bytes.find("ready") != std::string_view::npos) person.type("hello\r");
            if (bytes.find("got hello") != std::string_view::npos) person.type("\x03");
        });
    EXPECT_NE(shown.find("got hello"), std::string::npos) << shown;
    EXPECT_TRUE(outcome.signal == SIGINT || outcome.exitCode == 130) << describe(outcome);
    EXPECT_LT(outcome.wallMillis, patiently(9000));
}

TEST_F(OnATerminal, AChangeOfSizeIsPassedOn) {
    const Person person;
    const Outcome outcome = run(person, "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done",
                                [&](std::string_view bytes) {
                                    if (bytes.find("ready") != std::string_view::npos) person.resize(50, 132);
                                });
    EXPECT_NE(outcome.out.text().find("50 132"), std::string::npos) << describe(outcome);
}

TEST_F(OnATerminal, NothingCanBeTypedIntoThePersonsTerminal) {
    GRADUS_CASES("NS28");
    const Person person;
    const Outcome outcome =
        run(person, "python3 -c 'import fcntl,termios; fcntl.ioctl(0, termios.TIOCSTI, b\"x\")' 2>&1 | tail -1");
    EXPECT_NE(outcome.out.text().find("PermissionError"), std::string::npos) << describe(outcome);
}

// The caller's umask, not the jail's.
TEST_F(OnATerminal, WithoutOneTheUmaskIsStillTheCallers) {
    const HostProject project(someone());
    Command command = shell("umask");
    EXPECT_EQ(open(project)->run(command).out.text(), "0022\n");
    command.umask = 077;
    EXPECT_EQ(open(project)->run(command).out.text(), "0077\n");
}

}  // namespace
}  // namespace gradus
