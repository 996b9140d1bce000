#pragma once

#include <poll.h>

#include <string>

#include "store/file.h"

namespace gradus {

/// From a descriptor of ours into a command's stdin, as it comes: the command has a pipe and never the descriptor
/// itself. Whichever side ends first ends it. Never waits for the command; lives on one thread, which calls pass() with
/// what poll() said of wanted().
class InputRelay {
  public:
    /// What to wait for; -1 where there is nothing to wait for.
    struct Wanted {
        pollfd source{-1, 0, 0};
        pollfd sink{-1, 0, 0};
    };

    /// `source` is borrowed and stays as it is; `sink` is the pipe's end to write to.
    InputRelay(int source, FileDescriptor sink);

    Wanted wanted() const;
    void pass(short source, short sink);

  private:
    void take();
    void give();

    int source_;
    FileDescriptor sink_;  ///< none: it has ended
    std::string bytes_;    ///< read, and not yet written
    bool sourceEnded_ = false;
};

}  // namespace gradus
