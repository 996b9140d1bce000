#pragma once

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <vector>

namespace gradus::bench {

/// Microseconds that `work` takes.
template <typename Work>
double microseconds(Work&& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

/// Microseconds of processor time that `work` takes: what a shared machine leaves of a figure.
template <typename Work>
double processorMicroseconds(Work&& work) {
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
    };
    const double begin = now();
    work();
    return now() - begin;
}

/// What every figure about processes stands beside: a plain one.
inline void spawnTrue() {
    pid_t pid = 0;
    char program[] = "/bin/true";
    char* arguments[] = {program, nullptr};
    if (posix_spawn(&pid, program, nullptr, nullptr, arguments, environ) == 0) ::waitpid(pid, nullptr, 0);
}

inline double quantile(std::vector<double> values, double q) {
    std::sort(values.begin(), values.end());
    return values.at(static_cast<std::size_t>(static_cast<double>(values.size() - 1) * q));
}
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// One line: what was measured, what came out, what the goal is and whether it is met. Nothing here fails a build: a
/// benchmark on a shared machine informs, it does not judge.
inline void row(const std::string& name, const std::string& measured, const std::string& goal, bool met) {
    fmt::print("{:<58} {:>24}   goal {:<22} {}\n", name, measured, goal, met ? "met" : "MISSED");
    std::fflush(stdout);
}
inline void note(const std::string& name, const std::string& measured) {
    fmt::print("{:<58} {:>24}\n", name, measured);
    std::fflush(stdout);
}

void benchAudit(std::int64_t events);
void benchSandbox(const std::string& jail, int rounds);
void benchCommand(const std::string& gradus);
void benchHarvest();
void benchNetwork(const std::string& jail);
void benchKept(const std::string& jail);
void benchPromotion(const std::string& jail);
void benchQueue(const std::string& jail);
void benchWriter();
void benchRelease();

}  // namespace gradus::bench
