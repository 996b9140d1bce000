#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <chrono>

#include "tests/pipeline/end_to_end/sandbox_program.h"

namespace gradus::test {

/// Somebody at a terminal of their own, in which one program runs in the foreground. Ended and reaped with this.
class PersonAtTerminal {
  public:
    PersonAtTerminal(const Words& words, const std::map<std::string, std::string>& variables,
                     const std::filesystem::path& directory) {
        const winsize size{24, 80, 0, 0};
        EXPECT_EQ(::openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
        EXPECT_EQ(::tcgetattr(slave_, &before_), 0);
        Words environment;
        for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
        std::vector<char*> arguments = pointers(words);
        std::vector<char*> given = pointers(environment);
        pid_ = ::fork();
        if (pid_ != 0) return;
        ::setsid();
        ::ioctl(slave_, TIOCSCTTY, 0);
        for (int fd = 0; fd < 3; ++fd) ::dup2(slave_, fd);
        ::close(slave_);
        ::close(master_);
        if (::chdir(directory.c_str()) == 0) ::execvpe(arguments[0], arguments.data(), given.data());
        ::_exit(99);
    }
    PersonAtTerminal(const PersonAtTerminal&) = delete;
    PersonAtTerminal& operator=(const PersonAtTerminal&) = delete;
    ~PersonAtTerminal() {
        if (pid_ > 0) ::kill(pid_, SIGKILL);
        if (pid_ > 0) wait();
        ::close(master_);
        ::close(slave_);
    }

    pid_t pid() const { return pid_; }
    void type(std::string_view keys) const {
        EXPECT_EQ(::write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    }
    /// The kernel tells whoever is in the foreground.
    void resize(unsigned short rows, unsigned short columns) const {
        const winsize size{rows, columns, 0, 0};
        EXPECT_EQ(::ioctl(master_, TIOCSWINSZ, &size), 0);
    }
    /// Until the text comes up on the screen, after what was waited for before.
    testing::AssertionResult sees(std::string_view text) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (true) {
            if (const auto at = screen_.find(text, looked_); at != std::string::npos) {
                looked_ = at + text.size();
                return testing::AssertionSuccess();
            }
            if (std::chrono::steady_clock::now() > end || !read(100))
                return testing::AssertionFailure() << "no '" << text << "' in: " << screen_.substr(looked_);
        }
    }
    const std::string& screen() {
        while (read(0)) continue;
        return screen_;
    }
    bool isRaw() const {
        termios now{};
        return ::tcgetattr(slave_, &now) == 0 && (now.c_lflag & (ICANON | ECHO)) == 0;
    }
    /// Every setting as it was before the program began.
    bool isAsBefore() const {
        termios now{};
        return ::tcgetattr(slave_, &now) == 0 && now.c_iflag == before_.c_iflag && now.c_oflag == before_.c_oflag &&
               now.c_cflag == before_.c_cflag && now.c_lflag == before_.c_lflag;
    }
    /// How many bytes wait for whoever reads from the terminal next.
    int unread() const {
        termios now{};
        int waiting = 0;
        ::tcgetattr(slave_, &now);
        termios atOnce = now;
        ::cfmakeraw(&atOnce);
        ::tcsetattr(slave_, TCSANOW, &atOnce);
        ::ioctl(slave_, FIONREAD, &waiting);
        ::tcsetattr(slave_, TCSANOW, &now);
        return waiting;
    }
    /// Soon; nobody tells us when.
    template <typename Claim>
    static bool soon(const Claim& claim) {
        for (int i = 0; i < 1000; ++i) {
            if (claim()) return true;
            ::usleep(10'000);
        }
        return false;
    }
    /// Its exit code, or 128 and its signal; what it says meanwhile is read.
    int wait() {
        int status = 0;
        for (int left = 3000; ::waitpid(pid_, &status, WNOHANG) == 0; --left) {
            if (left == 0) ::kill(pid_, SIGKILL);  // a minute: it will not end by itself
            read(20);
        }
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

  private:
    bool read(int patience) {
        pollfd event{master_, POLLIN, 0};
        if (::poll(&event, 1, patience) <= 0) return patience > 0;
        char piece[4096];
        const ssize_t got = ::read(master_, piece, sizeof piece);
        if (got > 0) screen_.append(piece, static_cast<std::size_t>(got));
        return got > 0;
    }
    static std::vector<char*> pointers(const Words& words) {
        std::vector<char*> out;
        for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
        out.push_back(nullptr);
        return out;
    }

    pid_t pid_ = -1;
    int master_ = -1;
    int slave_ = -1;
    termios before_{};
    std::string screen_;
    std::size_t looked_ = 0;
};

}  // namespace gradus::test
