#include "plugins/host/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace gradus {

namespace {

// The signal only has to interrupt a wait.
void onResize(int) {}

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

}  // namespace

TerminalRelay::TerminalRelay(const TerminalLink& link, int inside) : link_(link), inside_(inside) {
    struct sigaction action {};
    action.sa_handler = onResize;  // without SA_RESTART
    ::sigaction(SIGWINCH, &action, &beforeResize_);
    raw_ = ::tcgetattr(link_.in, &before_) == 0;
    if (raw_) {
        // The command's terminal begins as the person's is: the same keys, the same line discipline.
        ::tcsetattr(inside_, TCSANOW, &before_);
        termios raw = before_;
        ::cfmakeraw(&raw);
        ::tcsetattr(link_.in, TCSADRAIN, &raw);
    }
    followSize();
}

TerminalRelay::~TerminalRelay() {
    if (raw_) ::tcsetattr(link_.in, TCSADRAIN, &before_);
    ::sigaction(SIGWINCH, &beforeResize_, nullptr);
}

void TerminalRelay::passInput() {
    char keys[4096];
    const ssize_t got = ::read(link_.in, keys, sizeof keys);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
        // The person's end is closed. To the command that is the end of its input.
        open_ = false;
        const char end = static_cast<char>(raw_ ? before_.c_cc[VEOF] : 4);
        putAll(inside_, {&end, 1});
        return;
    }
    putAll(inside_, {keys, static_cast<std::size_t>(got)});
}

void TerminalRelay::show(std::string_view bytes) const { putAll(link_.out, bytes); }

void TerminalRelay::followSize() const {
    winsize outside{};
    winsize inside{};
    if (::ioctl(link_.out, TIOCGWINSZ, &outside) != 0 || ::ioctl(inside_, TIOCGWINSZ, &inside) != 0) return;
    if (outside.ws_row != inside.ws_row || outside.ws_col != inside.ws_col) ::ioctl(inside_, TIOCSWINSZ, &outside);
}

}  // namespace gradus
