#include <algorithm>
#include <nlohmann/json.hpp>

#include "pipeline/experiment/race.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

// Less is better, in every respect.
std::int64_t cost(const RaceEntry& entry, RankBy by) {
    const auto passed = static_cast<std::int64_t>(entry.checksPassed());
    switch (by) {
        case RankBy::kFailures:
            return static_cast<std::int64_t>(entry.checks.size()) - passed;
        case RankBy::kPassed:
            return -passed;
        case RankBy::kSize:
            return static_cast<std::int64_t>(entry.added + entry.removed);
        case RankBy::kTime:
            return entry.wallMs;
        case RankBy::kCpu:
            return entry.cpuMs;
        case RankBy::kMemory:
            return entry.peakMemoryBytes;
    }
    return 0;
}

// One that never came to its checks has failed none of them and is no better for it.
int group(const RaceEntry& entry) {
    if (entry.standing == RaceStanding::kPassed) return 0;
    return entry.checks.empty() ? 2 : 1;
}

}  // namespace

void rank(std::vector<RaceEntry>& entries, const std::vector<RankBy>& by) {
    std::stable_sort(entries.begin(), entries.end(), [&](const RaceEntry& a, const RaceEntry& b) {
        if (group(a) != group(b)) return group(a) < group(b);
        for (const RankBy key : by)
            if (cost(a, key) != cost(b, key)) return cost(a, key) < cost(b, key);
        return false;
    });
}

nlohmann::json entryJson(const RaceEntry& entry) {
    nlohmann::json checks = nlohmann::json::array();
    for (const RaceCheck& check : entry.checks) {
        checks.push_back(
            {{"name", check.name}, {"verdict", nameOf(kCauses, check.verdict)}, {"wall_ms", check.wallMs}});
        if (check.verdict != Cause::kPassed) checks.back()["reason"] = check.reason;
        if (check.ended) checks.back()["ended"] = verdictName(*check.ended);
        if (check.execution) checks.back()["execution"] = executionHandle(*check.execution);
    }
    nlohmann::json overlap = nlohmann::json::array();
    for (const auto& [name, paths] : entry.overlap) overlap.push_back({{"with", name}, {"paths", paths}});
    nlohmann::json json{{"name", entry.name},
                        {"source", entry.source},
                        {"standing", nameOf(kRaceStandings, entry.standing)},
                        {"reason", entry.reason},
                        {"checks", std::move(checks)},
                        {"checks_passed", entry.checksPassed()},
                        {"paths", entry.changes.changes().size()},
                        {"lines_added", entry.added},
                        {"lines_removed", entry.removed},
                        {"overlap", std::move(overlap)},
                        {"wall_ms", entry.wallMs},
                        {"span_ms", entry.spanMs},
                        {"cpu_ms", entry.cpuMs},
                        {"peak_memory_bytes", entry.peakMemoryBytes}};
    json["change_set"] = entry.changes.empty() ? nlohmann::json() : nlohmann::json(entry.changes.digest().hex());
    json["ended"] = entry.ended ? nlohmann::json(verdictName(*entry.ended)) : nlohmann::json();
    json["execution"] = entry.execution ? nlohmann::json(executionHandle(*entry.execution)) : nlohmann::json();
    json["sandbox"] = entry.sandbox ? nlohmann::json(sandboxHandle(*entry.sandbox)) : nlohmann::json();
    return json;
}

}  // namespace gradus
