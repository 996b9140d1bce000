#include "pipeline/cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "plugins/host/terminal.h"

namespace gradus {

namespace {

constexpr int kShellsSignalBase = 128;
// Wakes the watcher when there is nothing left to watch for; nobody sends it from outside.
constexpr int kEnough = SIGUSR2;

sigset_t signalsOf(std::initializer_list<int> numbers) {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : numbers) sigaddset(&set, number);
    return set;
}

// Whoever started it with nohup wants it to outlive the terminal.
bool isIgnored(int number) {
    struct sigaction now {};
    return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t watchedSignals() {
    sigset_t set = signalsOf({SIGINT, SIGTERM, kEnough});
    if (!isIgnored(SIGHUP)) sigaddset(&set, SIGHUP);
    return set;
}

}  // namespace

Interrupt::Interrupt(std::string_view farewell) : farewell_(farewell) {
    const sigset_t watched = watchedSignals();
    pthread_sigmask(SIG_BLOCK, &watched, &before_);
    watcher_ = std::jthread([this] { watch(); });
}

Interrupt::~Interrupt() {
    pthread_kill(watcher_.native_handle(), kEnough);
    watcher_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::watch() {
    const sigset_t watched = watchedSignals();
    for (int number = 0; sigwait(&watched, &number) == 0 && number != kEnough;) {
        if (signal_ != 0) {
            restoreTerminal();
            // Nothing but the call itself: whoever holds a lock of the streams may never let go of it.
            static_cast<void>(!::write(STDERR_FILENO, farewell_.data(), farewell_.size()));
            _exit(kShellsSignalBase + number);
        }
        signal_ = number;
        source_.request_stop();
    }
}

}  // namespace gradus
