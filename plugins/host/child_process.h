#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/file.h"
#include "store/model/clock.h"

namespace gradus {

/// How to start a child. It gets exactly the named descriptors, default signals, a session of its own.
struct ChildPlan {
    std::filesystem::path program;
    std::vector<std::string> arguments;    ///< with the program's name first
    std::vector<std::string> environment;  ///< the whole of it
    /// {ours, the child's}; the child's numbers from 0 up without holes. Where fewer than three are named, the rest of
    /// stdin, stdout and stderr are /dev/null.
    std::vector<std::pair<int, int>> descriptors;
    std::filesystem::path directory{};  ///< where it starts; empty: where we are
};

/// A child of this process, started without fork: posix_spawn copies no memory of a threaded, large parent.
/// The destructor kills it, if it still runs, and reaps it.
class ChildProcess {
  public:
    explicit ChildProcess(const ChildPlan& plan);
    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&&) = delete;
    ~ChildProcess();

    pid_t pid() const { return pid_; }
    /// Becomes readable when the child has ended.
    int pidfd() const { return pidfd_.get(); }
    /// The status as from wait(2) once it has ended, nothing if it still runs after `patience`.
    std::optional<int> wait(Milliseconds patience);
    void kill() const;

  private:
    pid_t pid_ = -1;
    FileDescriptor pidfd_;
    std::optional<int> status_;
};

}  // namespace gradus
