#include "policies/language/command_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace gradus {

namespace {

constexpr std::array<std::string_view, 10> kShellOnly{"|", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>&1"};

bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// What a shell would replace at the start of `rest`, or nothing.
std::string_view expansion(std::string_view rest) {
    if (rest.starts_with("$(")) return "$(";
    if (rest.starts_with("${")) return "${";
    if (rest.starts_with('`')) return "`";
    return {};
}

class Splitter {
  public:
    explicit Splitter(std::string_view text) : text_(text) {}

    Parsed<std::vector<std::string>> split() {
        for (std::size_t i = 0; i < text_.size() && problem_.empty(); ++i) step(i);
        if (quote_ != 0 && problem_.empty()) problem_ = fmt::format("has an opening {} without its end", quote_);
        endWord();
        if (problem_.empty() && words_.empty()) problem_ = "is empty";
        if (!problem_.empty()) return Parsed<std::vector<std::string>>::bad(problem_);
        return {std::move(words_), {}};
    }

  private:
    void step(std::size_t i) {
        const char c = text_[i];
        if (quote_ != '\'') {
            if (const auto found = expansion(text_.substr(i)); !found.empty()) {
                problem_ = fmt::format("has '{}', which only a shell understands", found);
                return;
            }
        }
        if (quote_ != 0 && c == quote_)
            quote_ = 0;
        else if (quote_ != 0)
            word_ += c;
        else if (c == '\'' || c == '"')
            quote_ = c, open_ = true, quoted_ = true;
        else if (isSpace(c))
            endWord();
        else
            word_ += c, open_ = true;
    }

    void endWord() {
        if (!open_) return;
        const bool shellOnly = std::find(kShellOnly.begin(), kShellOnly.end(), word_) != kShellOnly.end();
        if (shellOnly && !quoted_ && problem_.empty())
            problem_ = fmt::format("has '{}', which only a shell understands", word_);
        words_.push_back(std::move(word_));
        word_.clear();
        open_ = false;
        quoted_ = false;
    }

    std::string_view text_;
    std::vector<std::string> words_;
    std::string word_;
    std::string problem_;
    char quote_ = 0;
    bool open_ = false;
    bool quoted_ = false;
};

}  // namespace

Parsed<std::vector<std::string>> splitCommand(std::string_view text) { return Splitter(text).split(); }

}  // namespace gradus
