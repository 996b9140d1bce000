#include "pipeline/experiment/race.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "pipeline/engine/check_answer.h"
#include "pipeline/engine/check_runner.h"
#include "stages/changes/change_sources.h"
#include "stages/changes/patch_writer.h"
#include "stages/changes/tree_reader.h"
#include "store/model/error.h"

namespace gradus {

namespace {

struct Lines {
    std::uint64_t added = 0;
    std::uint64_t removed = 0;
};

// As `git diff --numstat` counts them. A binary file has no lines, and neither has what cannot be written as a patch.
Lines linesOf(const ChangeSet& changes, const Objects& objects) {
    Lines lines;
    std::string text;
    try {
        text = writePatch(changes, objects).text;
    } catch (const Error&) {
        return lines;
    }
    bool inHunk = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = std::string_view(text).substr(at, end - at);
        if (line.starts_with("diff --git ")) inHunk = false;
        if (inHunk && line.starts_with('+')) ++lines.added;
        if (inHunk && line.starts_with('-')) ++lines.removed;
        if (line.starts_with("@@ ")) inHunk = true;
        at = end + 1;
    }
    return lines;
}

RaceStanding standingOf(const std::vector<RaceCheck>& checks, std::string& reason) {
    RaceStanding standing = RaceStanding::kPassed;
    for (const RaceCheck& check : checks) {
        if (check.verdict == Cause::kPassed) continue;
        const bool no = check.verdict == Cause::kFailed || check.verdict == Cause::kTimedOut;
        const RaceStanding its = no                                   ? RaceStanding::kFailed
                                 : check.verdict == Cause::kCancelled ? RaceStanding::kStopped
                                                                      : RaceStanding::kErrored;
        // A clear no outweighs what could not be judged.
        if (standing != RaceStanding::kPassed && its != RaceStanding::kFailed) continue;
        if (standing != RaceStanding::kFailed) reason = fmt::format("{}: {}", check.name, check.reason);
        standing = its;
    }
    return standing;
}

RaceStanding standingOf(Cause verdict) {
    if (verdict == Cause::kCancelled) return RaceStanding::kStopped;
    return verdict == Cause::kErrored ? RaceStanding::kErrored : RaceStanding::kFailed;
}

// Somebody may have given that name away.
void keepNamed(Trial& trial, const std::string& name, Milliseconds lifetime) {
    try {
        trial.keep(name, lifetime);
    } catch (const Error& e) {
        if (e.code() != ErrorCode::kUsage) throw;
        trial.keep(std::nullopt, lifetime);
    }
}

void findOverlap(std::vector<RaceEntry>& entries) {
    std::map<std::string, std::vector<std::size_t>> touchedBy;
    for (std::size_t i = 0; i < entries.size(); ++i)
        for (const PathChange& change : entries[i].changes.changes()) touchedBy[change.path].push_back(i);
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> shared;
    for (const auto& [path, who] : touchedBy)
        for (const std::size_t one : who)
            for (const std::size_t other : who)
                if (one != other) ++shared[{one, other}];
    for (const auto& [pair, count] : shared) entries[pair.first].overlap.emplace_back(entries[pair.second].name, count);
}

}  // namespace

struct Race::Running {
    Running(Surroundings surroundings, Rules its) : around(std::move(surroundings)), rules(its) {}

    Surroundings around;
    Rules rules;
    std::vector<RaceEntry> entries;
    std::vector<std::optional<Trial>> trials;
    std::stop_source stop;
    std::string stopReason = "cancelled";
    std::mutex mutex;  // over stopReason and what is told

    void tell(const RaceEntry& entry, std::string_view what) {
        const std::lock_guard guard(mutex);
        around.tell(entry, what);
    }

    void end(const std::string& reason) {
        {
            const std::lock_guard guard(mutex);
            if (!stop.stop_requested()) stopReason = reason;
        }
        stop.request_stop();
    }

    void race(const Candidate& candidate, std::size_t index) {
        RaceEntry& entry = entries[index];
        const auto began = std::chrono::steady_clock::now();
        try {
            if (!stop.stop_requested() && makeChange(candidate, entry, trials[index])) judge(entry);
            if (entry.standing != RaceStanding::kStopped) voidIfMoved(entry);
        } catch (const std::exception& fault) {
            const CheckAnswer answer = erroredBy(fault);
            entry.standing = stop.stop_requested() ? RaceStanding::kStopped : RaceStanding::kErrored;
            entry.reason = answer.reason;
        }
        if (entry.standing == RaceStanding::kStopped) {
            const std::lock_guard guard(mutex);
            entry.reason = stopReason;
        }
        entry.spanMs = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began).count();
        tell(entry, "ended");
        if (entry.standing == RaceStanding::kPassed && rules.stopAtFirstPass)
            end(fmt::format("stopped, as {} had passed", entry.name));
    }

    // Seen by this one, and not by those before it: whatever came of it says nothing about them.
    void voidIfMoved(RaceEntry& entry) const {
        const auto what = around.moved();
        if (!what) return;
        entry.standing = RaceStanding::kErrored;
        entry.moved = true;
        entry.reason = fmt::format("{} changed outside while it ran, so it did not see what the others saw", *what);
    }

    // What is left of its share of processor time, and what holds for every command.
    Limits limitsNow(const RaceEntry& entry) const {
        Limits limits = rules.atMost;
        if (!rules.cpu) return limits;
        const std::int64_t share = rules.cpu->count() / static_cast<std::int64_t>(entries.size());
        limits[LimitName::kCpuTime] =
            Limit{static_cast<std::uint64_t>(std::max<std::int64_t>(share - entry.cpuMs, 1)), true};
        return limits;
    }

    bool makeChange(const Candidate& candidate, RaceEntry& entry, std::optional<Trial>& trial) {
        tell(entry, "started");
        entry.changes = candidate.given;
        if (candidate.command) {
            TryRequest request = *candidate.command;
            request.base = around.base;
            request.afterwards = Afterwards::kAsk;
            request.contents = &around.objects;
            request.command.cancel = stop.get_token();
            capLimits(request.command.limits, limitsNow(entry));
            trial.emplace(around.sandboxes.attempt(request));
            if (!takeTrial(*trial, entry)) return false;
        }
        if (entry.changes.empty()) {
            entry.standing = RaceStanding::kEmpty;
            entry.reason = "it changed nothing";
            return false;
        }
        const Lines lines = linesOf(entry.changes, around.objects);
        entry.added = lines.added;
        entry.removed = lines.removed;
        return true;
    }

    bool takeTrial(const Trial& trial, RaceEntry& entry) const {
        const Execution& execution = trial.report().execution;
        entry.execution = execution.id;
        entry.ended = execution.verdict;
        entry.wallMs = static_cast<std::int64_t>(execution.wallMillis);
        entry.cpuMs = static_cast<std::int64_t>(execution.cpuMillis);
        entry.peakMemoryBytes = static_cast<std::int64_t>(execution.peakMemoryBytes.value_or(0));
        entry.changes = withContents(trial.changes().changes, DirectoryReader(around.directory), around.objects);
        const CheckAnswer answer = answerOf(trial.report(), stop.stop_requested());
        if (answer.verdict != Cause::kPassed) {
            entry.standing = standingOf(answer.verdict);
            entry.reason = "its command: " + answer.reason;
        } else if (trial.unread()) {
            entry.standing = RaceStanding::kErrored;
            entry.reason = *trial.unread();
        } else if (!trial.changes().refused.empty()) {
            // What would be promoted is not what the candidate made.
            entry.standing = RaceStanding::kErrored;
            entry.reason = fmt::format("{} cannot be part of a change: {}", trial.changes().refused.front().path,
                                       trial.changes().refused.front().reason);
        } else {
            return true;
        }
        return false;
    }

    void judge(RaceEntry& entry) {
        tell(entry, "made");
        entry.checks = around.judge({entry.changes, around.base, limitsNow(entry), stop.get_token()});
        for (const RaceCheck& check : entry.checks) entry.wallMs += check.wallMs;
        entry.standing = standingOf(entry.checks, entry.reason);
    }
};

std::size_t RaceEntry::checksPassed() const {
    std::size_t passed = 0;
    for (const RaceCheck& check : checks) passed += check.verdict == Cause::kPassed ? 1U : 0U;
    return passed;
}

Race::Race(Surroundings surroundings, Rules rules)
    : running_(std::make_unique<Running>(std::move(surroundings), rules)) {}

Race::~Race() = default;

std::vector<RaceEntry> Race::run(const std::vector<Candidate>& candidates, const std::stop_token& cancel) {
    Running& now = *running_;
    now.entries.assign(candidates.size(), {});
    now.trials = std::vector<std::optional<Trial>>(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        now.entries[i].name = candidates[i].name;
        now.entries[i].source = candidates[i].source;
    }
    const std::stop_callback cancelled(cancel, [&] { now.end("cancelled"); });
    std::atomic<std::size_t> next = 0;
    {
        std::jthread timer;
        if (now.rules.budget)
            timer = std::jthread([&](const std::stop_token& done) {
                std::mutex mutex;
                std::unique_lock lock(mutex);
                std::condition_variable_any ended;
                if (!ended.wait_for(lock, done, *now.rules.budget, [&] { return done.stop_requested(); }) &&
                    !done.stop_requested())
                    now.end("the time for all of them was up");
            });
        std::vector<std::jthread> runners;
        for (std::size_t i = 0; i < std::min(now.rules.atOnce, candidates.size()); ++i)
            runners.emplace_back([&] {
                for (std::size_t index = next++; index < candidates.size(); index = next++)
                    now.race(candidates[index], index);
            });
    }
    findOverlap(now.entries);
    return now.entries;
}

void Race::keep(RaceEntry& entry, const std::string& name, Milliseconds lifetime) {
    for (std::size_t i = 0; i < running_->entries.size(); ++i) {
        std::optional<Trial>& trial = running_->trials[i];
        if (running_->entries[i].name != entry.name || !trial) continue;
        if (trial->isOpen()) keepNamed(*trial, name, lifetime);
        entry.sandbox = trial->kept();
    }
}

}  // namespace gradus
