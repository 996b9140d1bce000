#include "stages/changes/ignore_rules.h"

#include <algorithm>

namespace gradus {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kSpecial = "*?[\\";
/// No path is longer; what is was made to keep a matcher busy.
constexpr std::size_t kLongestRule = 4096;

std::size_t literalLength(std::string_view pattern) {
    return std::min(pattern.find_first_of(kSpecial), pattern.size());
}

// Blanks at the end go, unless a backslash holds them.
std::string_view withoutTrailingSpaces(std::string_view line) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const bool escaped = line[i] == '\\';
        if (escaped && ++i == line.size()) return line;
        if (escaped || line[i] != ' ') end = i + 1;
    }
    return line.substr(0, end);
}

// As git, which reads lines as C strings.
std::string_view untilNul(std::string_view line) { return line.substr(0, line.find('\0')); }

}  // namespace

IgnoreRules::IgnoreRules(std::string_view text) {
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.starts_with('#') || line.size() > kLongestRule) continue;
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (auto rule = read(withoutTrailingSpaces(untilNul(line)))) rules_.push_back(std::move(*rule));
    }
}

std::optional<IgnoreRules::Rule> IgnoreRules::read(std::string_view line) {
    Rule rule;
    rule.keeps = line.starts_with('!');
    if (rule.keeps) line.remove_prefix(1);
    rule.onlyDirectories = line.ends_with('/');
    if (rule.onlyDirectories) line.remove_suffix(1);
    if (line.empty()) return std::nullopt;
    rule.anyDepth = line.find('/') == std::string_view::npos;
    if (line.front() == '/') line.remove_prefix(1);
    if (rule.anyDepth && line.front() == '*' && literalLength(line.substr(1)) == line.size() - 1) {
        rule.byEnding = true;
        rule.literal = line.substr(1);
        return rule;
    }
    // git compares the beginning without wildcards first and then matches only the rest: so "a**/b" means "a" and any
    // depth, which it would not if the pattern were matched as a whole. Patterns for the last part are matched whole.
    const std::size_t literal = literalLength(line);
    const bool whole = rule.anyDepth && literal < line.size();
    rule.literal = whole ? "" : line.substr(0, literal);
    line.remove_prefix(rule.literal.size());
    if (!line.empty()) rule.wild.emplace(line);
    return rule;
}

bool IgnoreRules::fits(const Rule& rule, std::string_view path, std::string_view name) {
    if (rule.byEnding) return name.ends_with(rule.literal);
    std::string_view text = rule.anyDepth ? name : path;
    if (!text.starts_with(rule.literal)) return false;
    text.remove_prefix(rule.literal.size());
    return rule.wild ? rule.wild->matches(text) : text.empty();
}

std::optional<bool> IgnoreRules::judge(std::string_view path, bool isDirectory) const {
    const std::size_t slash = path.rfind('/');
    const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
    for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
        if (rule->onlyDirectories && !isDirectory) continue;
        if (fits(*rule, path, name)) return !rule->keeps;
    }
    return std::nullopt;
}

}  // namespace gradus
