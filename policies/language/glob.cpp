#include "policies/language/glob.h"

namespace gradus {

namespace {

constexpr std::size_t kLongestPattern = 1024;

/// Patterns are anchored at the project; these two rewrites are what people expect from ignore files.
std::string anchored(std::string_view pattern) {
    std::string text(pattern);
    if (text.ends_with('/')) text += "**";
    if (text.find('/') == std::string::npos) text = "**/" + text;
    if (text.starts_with('/')) text.erase(0, 1);
    return text;
}

std::string problemOf(std::string_view pattern) {
    if (pattern.empty()) return "is empty";
    if (pattern.size() > kLongestPattern) return "is longer than 1024 bytes";
    if (pattern == "/") return "names no file";
    if (pattern.find('\0') != std::string_view::npos) return "has a zero byte";
    if (("/" + std::string(pattern) + "/").find("/../") != std::string::npos) return "leaves the project through '..'";
    if (pattern.find("//") != std::string_view::npos) return "has an empty part ('//')";
    return {};
}

}  // namespace

std::string Glob::readSet(std::string_view pattern, std::size_t& at, Token& token) {
    token.kind = Token::Kind::kSet;
    std::size_t i = at + 1;
    if (i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^')) {
        token.negated = true;
        ++i;
    }
    // A ']' right at the start is a member, as in every shell.
    for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
        const auto low = static_cast<unsigned char>(pattern[i++]);
        if (low == '/') return "has a '/' inside [ ]";
        auto high = low;
        if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
            high = static_cast<unsigned char>(pattern[i + 1]);
            i += 2;
        }
        if (high < low) return "has a range that ends before it starts";
        token.ranges.emplace_back(low, high);
    }
    if (i >= pattern.size()) return "has a '[' without its ']'";
    at = i;
    return {};
}

Parsed<Glob> Glob::parse(std::string_view pattern) {
    using Result = Parsed<Glob>;
    if (std::string problem = problemOf(pattern); !problem.empty()) return Result::bad(std::move(problem));
    Glob glob;
    glob.pattern_ = pattern;
    const std::string text = anchored(pattern);
    for (std::size_t i = 0; i < text.size(); ++i) {
        Token token;
        if (text.compare(i, 2, "**") == 0) {
            const bool wholePart = (i == 0 || text[i - 1] == '/') && (i + 2 == text.size() || text[i + 2] == '/');
            if (!wholePart) return Result::bad("has '**' inside a part; it stands for whole parts, as in 'a/**/b'");
            token.kind = Token::Kind::kDeepStar;
            i += i + 2 < text.size() ? 2 : 1;  // "**/" is one token, so that "**/a" matches "a".
        } else if (text[i] == '*') {
            token.kind = Token::Kind::kStar;
        } else if (text[i] == '?') {
            token.kind = Token::Kind::kAny;
        } else if (text[i] == '[') {
            if (std::string problem = readSet(text, i, token); !problem.empty()) return Result::bad(std::move(problem));
        } else {
            if (text[i] == '\\' && ++i == text.size()) return Result::bad("ends in a lone '\\'");
            token.byte = text[i];
        }
        glob.tokens_.push_back(std::move(token));
    }
    return {std::move(glob), {}};
}

bool Glob::accepts(const Token& token, char c) {
    if (token.kind == Token::Kind::kByte) return c == token.byte;
    if (c == '/') return false;
    if (token.kind != Token::Kind::kSet) return true;
    const auto byte = static_cast<unsigned char>(c);
    for (const auto& [low, high] : token.ranges)
        if (byte >= low && byte <= high) return !token.negated;
    return token.negated;
}

// All states at once, as in a Thompson automaton: live[t] says that the tokens before t match the path read so far.
bool Glob::matches(std::string_view path) const {
    const std::size_t count = tokens_.size();
    std::vector<char> live(count + 1, 0);
    live[0] = 1;
    const auto close = [&](std::vector<char>& states, bool atPartStart) {
        for (std::size_t t = 0; t < count; ++t) {
            const bool skips = tokens_[t].kind == Token::Kind::kStar ||
                               (tokens_[t].kind == Token::Kind::kDeepStar && (atPartStart || t + 1 == count));
            if (states[t] != 0 && skips) states[t + 1] = 1;
        }
    };
    close(live, true);
    for (const char c : path) {
        std::vector<char> next(count + 1, 0);
        for (std::size_t t = 0; t < count; ++t) {
            if (live[t] == 0) continue;
            const auto kind = tokens_[t].kind;
            if (kind == Token::Kind::kDeepStar)
                next[t] = 1;
            else if (accepts(tokens_[t], c))
                next[kind == Token::Kind::kStar ? t : t + 1] = 1;
        }
        close(next, c == '/');
        live = std::move(next);
    }
    return live[count] != 0;
}

}  // namespace gradus
