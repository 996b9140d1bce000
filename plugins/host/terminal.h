#pragma once

#include <signal.h>
#include <termios.h>

#include <string>
#include <string_view>

#include "plugins/api/isolation.h"
#include "plugins/host/screen_filter.h"

namespace gradus {

/// Between a person's terminal and the terminal of a command: every key goes through untouched (Ctrl-C too: it is the
/// command's own terminal that makes a signal of it), and so does every change of size. Puts the person's terminal back
/// as it was when it ends, also when a fault or a signal ends the process, or stops it for a while. One at a time in a
/// process; lives on one thread; followSize() is to be called when a system call was interrupted.
class TerminalRelay {
  public:
    /// `inside` is the other end of the command's terminal. All descriptors are borrowed.
    TerminalRelay(const TerminalLink& link, int inside);
    ~TerminalRelay();
    TerminalRelay(const TerminalRelay&) = delete;
    TerminalRelay& operator=(const TerminalRelay&) = delete;

    /// What to wait for: keys, as long as the command takes those before; nothing more comes once it is -1 and nothing
    /// is pending.
    int input() const;
    void passInput();
    /// Keys that the command did not take yet: to be passed on when the other end has room.
    bool hasPending() const { return !pending_.empty(); }
    void passPending();
    void show(std::string_view bytes);
    void followSize() const;

  private:
    TerminalLink link_;
    int inside_;
    bool open_ = true;
    bool raw_ = false;
    bool asked_ = false;  ///< in raw: the terminal may have been asked something
    termios before_{};
    ScreenFilter filter_;
    std::string pending_;
    struct sigaction beforeResize_ {};
};

/// As it was before a relay took it, if one did: for whoever ends the process without going back. Safe in a handler of
/// signals.
void restoreTerminal() noexcept;

}  // namespace gradus
