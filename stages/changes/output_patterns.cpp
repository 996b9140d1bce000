#include "stages/changes/output_patterns.h"

#include <algorithm>

#include "store/model/error.h"
#include "store/paths.h"

namespace gradus {

namespace {

/// "web/dist" for "web/dist/**/*.js".
std::string fixedPart(std::string_view pattern) {
    std::size_t end = 0;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        if (std::string_view("*?[\\").find(pattern[at]) != std::string_view::npos) break;
        if (pattern[at] == '/') end = at;
    }
    return std::string(pattern.substr(0, end));
}

}  // namespace

OutputPatterns::OutputPatterns(const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
        auto glob = Glob::parse(pattern);
        if (!glob) throw Error(ErrorCode::kUsage, "'{}' is no pattern: {}", pattern, glob.problem);
        patterns_.push_back({std::move(*glob.value), fixedPart(pattern)});
    }
}

bool OutputPatterns::matches(std::string_view path) const {
    return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& p) { return p.glob.matches(path); });
}

bool OutputPatterns::mayMatchBelow(std::string_view directory) const {
    return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& p) {
        return isAtOrBelow(directory, p.fixed) || isAtOrBelow(p.fixed, directory);
    });
}

}  // namespace gradus
