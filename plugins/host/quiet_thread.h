#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace gradus {

/// A thread that takes no signals: they are the main thread's, where one of them interrupts a wait. Throws
/// std::system_error where no more threads can be had.
template <typename Work>
std::thread quietThread(Work work) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    struct Restored {
        const sigset_t& mask;
        ~Restored() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
    } const restored{before};
    return std::thread(std::move(work));
}

}  // namespace gradus
