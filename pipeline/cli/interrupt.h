#pragma once

#include <atomic>
#include <csignal>
#include <stop_token>
#include <string_view>
#include <thread>

namespace gradus {

/// What is said when something that a target is written by is ended in the middle.
inline constexpr std::string_view kLeftInTheMiddle =
    "\nleft in the middle: a stage may hold half of it; `gradus recover` brings it to an end\n";

/// Turns the first SIGINT, SIGTERM or SIGHUP into a request to stop, so that a verb ends in order; a second one ends
/// the process at once, and says `farewell` on standard error. For the time it lives these signals are not handled
/// otherwise. Make it before any other thread.
class Interrupt {
  public:
    explicit Interrupt(std::string_view farewell = {});
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;

    std::stop_token token() const { return source_.get_token(); }
    /// The signal that asked to stop; 0 if none did.
    int signal() const { return signal_; }

  private:
    void watch();

    std::string_view farewell_;
    std::stop_source source_;
    std::atomic<int> signal_ = 0;
    sigset_t before_{};
    std::jthread watcher_;
};

}  // namespace gradus
