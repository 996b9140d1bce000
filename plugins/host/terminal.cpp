#include "plugins/host/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

namespace gradus {

namespace {

constexpr std::size_t kMostPending = 65536;
// Ends of the process that no destructor sees, and being stopped and continued.
constexpr std::array kWatched{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT, SIGTSTP, SIGCONT};

// The one terminal that a relay has in raw mode: the property of the process, as handlers of signals are.
struct Taken {
    std::atomic<bool> isRaw = false;
    int in = -1;
    int out = -1;
    int inside = -1;
    termios before{};
    termios raw{};
    std::array<struct sigaction, kWatched.size()> handlers{};
};
Taken taken;

// The signal only has to interrupt a wait.
void onResize(int) {}

// From the background this would stop us, where we only put things right.
void setTerminal(int terminal, int when, const termios& settings) noexcept {
    sigset_t stops;
    sigset_t before;
    ::sigemptyset(&stops);
    ::sigaddset(&stops, SIGTTOU);
    ::pthread_sigmask(SIG_BLOCK, &stops, &before);
    ::tcsetattr(terminal, when, &settings);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// What the shell wrote meanwhile covers the screen: a change of size, there and back, makes a program draw it again.
void askForTheScreen() noexcept {
    winsize size{};
    if (::ioctl(taken.out, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return;
    winsize narrower = size;
    narrower.ws_col -= 1;
    ::ioctl(taken.inside, TIOCSWINSZ, &narrower);
    ::ioctl(taken.inside, TIOCSWINSZ, &size);
}

// Stopped as if nobody had been listening; it goes on in the handler of SIGCONT.
void stopForAWhile() noexcept {
    struct sigaction ours {};
    struct sigaction byDefault {};
    byDefault.sa_handler = SIG_DFL;
    ::sigaction(SIGTSTP, &byDefault, &ours);
    sigset_t stop;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTSTP);
    ::raise(SIGTSTP);
    ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // stops here
    ::sigaction(SIGTSTP, &ours, nullptr);
    // Where nobody could continue us, the kernel does not stop us either.
    ::tcsetattr(taken.in, TCSANOW, &taken.raw);
}

void onSignal(int number) {
    const int error = errno;
    if (number == SIGCONT) {
        // In the background this stops us again, as it should.
        if (taken.isRaw) ::tcsetattr(taken.in, TCSANOW, &taken.raw);
        askForTheScreen();
    } else {
        restoreTerminal();
        if (number == SIGTSTP) stopForAWhile();
    }
    if (number != SIGTSTP && number != SIGCONT) {
        for (std::size_t i = 0; i < kWatched.size(); ++i)
            if (kWatched[i] == number) ::sigaction(number, &taken.handlers[i], nullptr);
        ::raise(number);  // blocked until this handler ends
    }
    errno = error;
}

void take(const TerminalLink& link, int inside, const termios& before) {
    taken.in = link.in;
    taken.out = link.out;
    taken.inside = inside;
    taken.before = before;
    taken.raw = before;
    ::cfmakeraw(&taken.raw);
    struct sigaction action {};
    action.sa_handler = onSignal;
    for (std::size_t i = 0; i < kWatched.size(); ++i) ::sigaction(kWatched[i], &action, &taken.handlers[i]);
    taken.isRaw = true;
    ::tcsetattr(link.in, TCSADRAIN, &taken.raw);
}

void giveBack(int when) {
    setTerminal(taken.in, when, taken.before);
    taken.isRaw = false;
    for (std::size_t i = 0; i < kWatched.size(); ++i) ::sigaction(kWatched[i], &taken.handlers[i], nullptr);
}

// Through short writes; a descriptor that does not block is waited for.
void putAll(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t put = ::write(fd, bytes.data(), bytes.size());
        if (put >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(put));
        } else if (errno == EAGAIN) {
            pollfd event{fd, POLLOUT, 0};
            constexpr int kPatience = 1000;
            if (::poll(&event, 1, kPatience) == 0) return;  // nobody reads there any more
        } else if (errno != EINTR) {
            return;
        }
    }
}

// Answers can be on their way for as long as a line is long. A terminal answers in the order in which it was asked:
// what comes before the answer to a last question of ours is for nobody any more.
void takeAnswers(const TerminalLink& link) {
    constexpr std::string_view kAreYouThere = "\x1b[5n";
    constexpr std::string_view kIAm = "\x1b[0n";
    constexpr std::chrono::milliseconds kPatience{1000};
    putAll(link.out, kAreYouThere);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    std::string said;
    while (said.find(kIAm) == std::string::npos) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd event{link.in, POLLIN, 0};
        if (left.count() <= 0 || ::poll(&event, 1, static_cast<int>(left.count())) == 0) return;
        char bytes[256];
        const ssize_t got = ::read(link.in, bytes, sizeof bytes);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return;
        if (got > 0) said.append(bytes, static_cast<std::size_t>(got));
        if (said.size() > kMostPending) said.erase(0, said.size() - kIAm.size());
    }
}

}  // namespace

void restoreTerminal() noexcept {
    if (taken.isRaw) setTerminal(taken.in, TCSANOW, taken.before);
}

TerminalRelay::TerminalRelay(const TerminalLink& link, int inside) : link_(link), inside_(inside) {
    struct sigaction action {};
    action.sa_handler = onResize;  // without SA_RESTART
    ::sigaction(SIGWINCH, &action, &beforeResize_);
    raw_ = ::tcgetattr(link_.in, &before_) == 0;
    if (raw_) {
        // The command's terminal begins as the person's is: the same keys, the same line discipline.
        ::tcsetattr(inside_, TCSANOW, &before_);
        take(link_, inside_, before_);
    }
    followSize();
}

TerminalRelay::~TerminalRelay() {
    // An answer of the terminal's to the command is not to be read by the shell.
    const bool hasAsked = asked_ || filter_.hasAsked();
    const int when = hasAsked ? TCSAFLUSH : TCSADRAIN;
    putAll(link_.out, filter_.leave());
    if (raw_ && hasAsked) takeAnswers(link_);
    if (raw_) giveBack(when);
    ::sigaction(SIGWINCH, &beforeResize_, nullptr);
}

int TerminalRelay::input() const { return open_ && pending_.size() < kMostPending ? link_.in : -1; }

void TerminalRelay::passInput() {
    char keys[4096];
    const ssize_t got = ::read(link_.in, keys, sizeof keys);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
        // The person's end is closed. To the command that is the end of its input.
        open_ = false;
        pending_ += static_cast<char>(raw_ ? before_.c_cc[VEOF] : 4);
    } else {
        pending_.append(keys, static_cast<std::size_t>(got));
    }
    passPending();
}

void TerminalRelay::passPending() {
    const ssize_t put = ::write(inside_, pending_.data(), pending_.size());
    if (put > 0) pending_.erase(0, static_cast<std::size_t>(put));
    if (put < 0 && errno != EAGAIN && errno != EINTR) pending_.clear();  // nobody is there to take it
}

void TerminalRelay::show(std::string_view bytes) {
    if (link_.raw) {
        // What passes unseen may be a question in any of many forms.
        asked_ = asked_ || bytes.find_first_of("\x1b\x05\x9b\x90\x9d") != std::string_view::npos;
        putAll(link_.out, bytes);
    } else {
        putAll(link_.out, filter_.pass(bytes));
    }
}

void TerminalRelay::followSize() const {
    winsize outside{};
    winsize inside{};
    if (::ioctl(link_.out, TIOCGWINSZ, &outside) != 0 || ::ioctl(inside_, TIOCGWINSZ, &inside) != 0) return;
    if (outside.ws_row != inside.ws_row || outside.ws_col != inside.ws_col) ::ioctl(inside_, TIOCSWINSZ, &outside);
}

}  // namespace gradus
