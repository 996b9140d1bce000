#include <fmt/format.h>

#include <optional>

#include "policies/language/document.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

Diagnostic problemAt(const SourceText& source, std::size_t offset, std::string_view code, std::string message,
                     std::string reason, std::string hint) {
    const Position begin = source.position(offset);
    Diagnostic diagnostic = diagnosticAt(source, {begin, {begin.line, begin.column + 1}}, code);
    diagnostic.message = std::move(message);
    diagnostic.reason = std::move(reason);
    diagnostic.hint = std::move(hint);
    return diagnostic;
}

bool isBareKey(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/// Walks over TOML without understanding it: strings and comments are skipped, parts between dots and open brackets
/// are counted. It may count a number such as 1.5 as two parts, which harms nobody.
class DepthScan {
  public:
    explicit DepthScan(std::string_view text) : text_(text) {}

    /// Where it first gets deeper than allowed, or nothing.
    std::optional<std::size_t> firstTooDeep() {
        while (at_ < text_.size()) {
            step();
            if (dots_ >= kDeepestNesting || brackets_ > kDeepestNesting) return at_ - 1;
        }
        return std::nullopt;
    }

    bool isKey() const { return dots_ >= kDeepestNesting; }

  private:
    void step() {
        const char c = text_[at_];
        if (c == '"' || c == '\'') return skipString(c);
        ++at_;
        if (c == '.')
            ++dots_;
        else if (c == '#')
            skipComment();
        else if (c == '[' || c == '{')
            open();
        else if (c == ']' || c == '}')
            close();
        else if (c == ',' || c == '=' || c == '\n')
            dots_ = 0;
        else if (isBareKey(c))
            skipBareKey();
    }

    void open() {
        ++brackets_;
        dots_ = 0;
    }

    void close() {
        if (brackets_ > 0) --brackets_;
        dots_ = 0;
    }

    void skipBareKey() {
        while (at_ < text_.size() && isBareKey(text_[at_])) ++at_;
    }

    void skipComment() {
        dots_ = 0;
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }

    void skipString(char quote) {
        const std::string fence(3, quote);
        const bool multiline = text_.compare(at_, 3, fence) == 0;
        at_ += multiline ? 3 : 1;
        while (at_ < text_.size()) {
            if (quote == '"' && text_[at_] == '\\')
                at_ += 2;
            else if (multiline && text_.compare(at_, 3, fence) == 0)
                return endFence(quote);
            else if (!multiline && (text_[at_] == quote || text_[at_] == '\n'))
                return void(++at_);
            else
                ++at_;
        }
        at_ = std::min(at_, text_.size());
    }

    // A multi-line string may end in up to five quotes; the first of them belong to the text.
    void endFence(char quote) {
        at_ += 3;
        for (int extra = 0; extra < 2 && at_ < text_.size() && text_[at_] == quote; ++extra) ++at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t dots_ = 0;
    std::size_t brackets_ = 0;
};

std::optional<Diagnostic> encodingProblem(const SourceText& source) {
    const std::string_view bytes = source.bytes();
    if (bytes.starts_with("\xef\xbb\xbf"))
        return problemAt(source, 0, "encoding", "the file begins with a byte order mark", "three bytes EF BB BF",
                         "save it as UTF-8 without a byte order mark");
    if (bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff"))
        return problemAt(source, 0, "encoding", "the file is UTF-16, not UTF-8", "a UTF-16 byte order mark",
                         "save it as UTF-8");
    if (const auto at = firstInvalidUtf8(bytes))
        return problemAt(source, *at, "encoding", "the file is not UTF-8",
                         fmt::format("byte {:#04x} is part of no character", static_cast<unsigned char>(bytes[*at])),
                         "save the file as UTF-8");
    if (const auto at = bytes.find('\0'); at != std::string_view::npos)
        return problemAt(source, at, "encoding", "the file has a zero byte", "no text has one",
                         "remove it; is this a text file?");
    return std::nullopt;
}

std::optional<Diagnostic> depthProblem(const SourceText& source) {
    DepthScan scan(source.bytes());
    const auto at = scan.firstTooDeep();
    if (!at) return std::nullopt;
    return problemAt(source, *at, "too-deep",
                     fmt::format("{} nesting deeper than {}", scan.isKey() ? "key" : "value", kDeepestNesting),
                     fmt::format("level {} begins here", kDeepestNesting + 1),
                     "no rule is nested deeper than four levels; see the pipeline file's reference");
}

}  // namespace

std::vector<Diagnostic> inspectBytes(const SourceText& source) {
    if (source.bytes().size() > kLargestRuleFile) {
        Diagnostic diagnostic = diagnosticAt(source, {}, "too-large");
        diagnostic.message = fmt::format("the file is larger than {} KiB", kLargestRuleFile / 1024);
        diagnostic.reason = fmt::format("it has {} bytes", source.bytes().size());
        diagnostic.hint = "move what is not a rule elsewhere";
        return {diagnostic};
    }
    if (auto problem = encodingProblem(source)) return {*problem};
    if (auto problem = depthProblem(source)) return {*problem};
    return {};
}

}  // namespace gradus
