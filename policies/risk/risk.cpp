#include "policies/risk/risk.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/gate/path_match.h"

namespace gradus {

namespace {

void raise(RiskAnswer& answer, Risk risk, const std::string& reason) {
    if (risk <= answer.risk) return;
    answer.risk = risk;
    answer.reason = reason;
}

void judgeSize(RiskAnswer& answer, const Value& demand, const char* what, std::int64_t count) {
    const auto most = demand.fields.find(what);
    if (most == demand.fields.end()) return;
    const std::int64_t limit = most->second.number;
    if (count > limit) raise(answer, Risk::kHigh, fmt::format("{} {}, more than {}", count, what, limit));
    if (count > limit / 10)
        raise(answer, Risk::kMedium, fmt::format("{} {}, more than a tenth of {}", count, what, limit));
}

void judgePath(RiskAnswer& answer, const TouchedPath& path) {
    if (path.wasThere && !path.isThere) raise(answer, Risk::kMedium, "it deletes " + path.path);
    if (path.added < 0 || path.removed < 0) raise(answer, Risk::kMedium, path.path + " has no lines to count");
}

std::int64_t lineCount(const ChangeFacts& change) {
    std::int64_t lines = 0;
    for (const TouchedPath& path : change.paths)
        lines += std::max<std::int64_t>(path.added, 0) + std::max<std::int64_t>(path.removed, 0);
    return lines;
}

std::vector<std::string> riskyPatterns(const Value& demand) {
    std::vector<std::string> patterns;
    if (const auto paths = demand.fields.find("paths"); paths != demand.fields.end())
        for (const Value& item : paths->second.items) patterns.push_back(item.text);
    return patterns;
}

}  // namespace

RiskAnswer assessRisk(const ChangeFacts& change, const Value& demand) {
    RiskAnswer answer;
    answer.reason = "small";
    if (const auto above = demand.fields.find("person-above"); above != demand.fields.end())
        answer.personAbove = fromName(kRisks, above->second.text).value_or(Risk::kLow);
    if (const auto risky = matchingPaths(change, riskyPatterns(demand)); !risky.empty())
        raise(answer, Risk::kHigh, "it touches " + risky.front());
    judgeSize(answer, demand, "files", static_cast<std::int64_t>(change.paths.size()));
    judgeSize(answer, demand, "lines", lineCount(change));
    // The same path is named whatever the order of the facts.
    std::vector<TouchedPath> paths = change.paths;
    std::sort(paths.begin(), paths.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    for (const TouchedPath& path : paths) judgePath(answer, path);
    return answer;
}

}  // namespace gradus
