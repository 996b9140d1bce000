#include "plugins/isolation/jail_verdict.h"

#include <csignal>

namespace gradus {

namespace {

bool tripped(const JailEnded& ended, LimitName name) { return ended.tripped[static_cast<std::size_t>(name)]; }

// What ended it comes before how it ended: a killed process says nothing about why.
Verdict verdictOf(const RunReport& report) {
    const JailEnded& ended = *report.ended;
    if (ended.end == JailEnd::kWallTime) return Verdict::kTimeout;
    if (ended.oom || ended.end == JailEnd::kMemory) return Verdict::kOom;
    if (report.outputTripped || ended.end == JailEnd::kCpuTime || ended.end == JailEnd::kDisk) return Verdict::kLimit;
    if (ended.end == JailEnd::kStopped || ended.end == JailEnd::kLost) return Verdict::kKilled;
    if (ended.exited && ended.status == 0) return Verdict::kOk;
    // These refuse a call rather than end the run; a command that failed where they struck failed because of them.
    for (const LimitName name : {LimitName::kCpuTime, LimitName::kFileSize, LimitName::kTasks, LimitName::kDisk})
        if (tripped(ended, name)) return Verdict::kLimit;
    return ended.exited ? Verdict::kFailed : Verdict::kKilled;
}

std::vector<LimitReport> limitReports(const RunReport& report, const Limits& limits, const JailReady& ready) {
    std::vector<LimitReport> reports;
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const LimitName name = static_cast<LimitName>(i);
        if (!limits[name]) continue;
        LimitReport entry{name, limits[name]->value, ready.enforcers[i], std::nullopt, false};
        if (report.ended) {
            entry.peak = report.ended->peaks[i];
            entry.tripped = report.ended->tripped[i];
        }
        if (name == LimitName::kOutput) {
            entry.peak = report.out.bytes + report.err.bytes;
            entry.tripped = report.outputTripped;
        }
        reports.push_back(entry);
    }
    return reports;
}

void fillEnd(Outcome& outcome, const JailEnded& ended) {
    if (ended.exited) outcome.exitCode = static_cast<int>(ended.status);
    if (ended.signalled) outcome.signal = static_cast<int>(ended.status);
    if (!ended.exited && !ended.signalled) outcome.signal = SIGKILL;  // with its whole namespace
    outcome.wallMillis = ended.wallNanos / 1'000'000;
    outcome.cpuMillis = ended.cpuNanos / 1'000'000;
    outcome.peakMemoryBytes = ended.memoryPeak;
    outcome.leftBehind = ended.leftBehind;
}

}  // namespace

Outcome judge(RunReport report, const Limits& limits, const JailReady& ready) {
    Outcome outcome;
    outcome.limits = limitReports(report, limits, ready);
    outcome.landlock = ready.landlockAbi;
    outcome.shortfall = ready.shortfall;
    outcome.out = std::move(report.out);
    outcome.err = std::move(report.err);
    if (report.started) {
        outcome.init = static_cast<pid_t>(report.started->initPid);
        for (std::size_t i = 0; i < kNamespaceNames.size(); ++i)
            outcome.namespaces.emplace_back(kNamespaceNames[i], report.started->namespaces[i]);
    }
    if (report.failed) outcome.failure = SetupFailure{report.failed->step, report.failed->error, report.failed->detail};
    if (!report.ended) return outcome;
    fillEnd(outcome, *report.ended);
    outcome.verdict = verdictOf(report);
    return outcome;
}

}  // namespace gradus
