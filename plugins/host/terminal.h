#pragma once

#include <signal.h>
#include <termios.h>

#include <string_view>

#include "plugins/api/isolation.h"

namespace gradus {

/// Between a person's terminal and the terminal of a command: every key goes through untouched (Ctrl-C too: it is the
/// command's own terminal that makes a signal of it), and so does every change of size. Puts the person's terminal back
/// as it was when it ends. Lives on one thread; followSize() is to be called when a system call was interrupted.
class TerminalRelay {
  public:
    /// `inside` is the other end of the command's terminal. All descriptors are borrowed.
    TerminalRelay(const TerminalLink& link, int inside);
    ~TerminalRelay();
    TerminalRelay(const TerminalRelay&) = delete;
    TerminalRelay& operator=(const TerminalRelay&) = delete;

    /// What to wait for; nothing more comes from it once isOpen() is false.
    int input() const { return link_.in; }
    bool isOpen() const { return open_; }
    void passInput();
    void show(std::string_view bytes) const;
    void followSize() const;

  private:
    TerminalLink link_;
    int inside_;
    bool open_ = true;
    bool raw_ = false;
    termios before_{};
    struct sigaction beforeResize_ {};
};

}  // namespace gradus
