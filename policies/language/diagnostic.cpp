#include "policies/language/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kWindow = 120;       // Characters of a line that are shown.
constexpr std::size_t kWindowBefore = 60;  // Of these, at most so many before the caret.

struct Paint {
    bool on;
    std::string operator()(std::string_view style, std::string_view text) const {
        return on ? fmt::format("\x1b[{}m{}\x1b[0m", style, text) : std::string(text);
    }
};

constexpr std::string_view kBold = "1";
constexpr std::string_view kRed = "1;31";
constexpr std::string_view kYellow = "1;33";
constexpr std::string_view kBlue = "1;34";

struct Excerpt {
    std::string text;
    std::size_t caretAt = 0;
    std::size_t caretWidth = 1;
};

// A tab has no width of its own; the carets below need one.
constexpr std::string_view kTab = "    ";

/// The part of the line around the span, safe to show, and where the carets go in terminal columns.
Excerpt excerptOf(const Diagnostic& diagnostic) {
    const Span& span = diagnostic.span;
    const std::size_t begin = span.begin.column > 0 ? span.begin.column - 1 : 0;
    const bool oneLine = span.end.line == span.begin.line && span.end.column > span.begin.column;
    const std::size_t end = oneLine ? span.end.column - 1 : static_cast<std::size_t>(-1);
    const std::size_t first = begin > kWindowBefore ? begin - kWindowBefore : 0;
    Excerpt excerpt;
    if (first > 0) excerpt.text = "…";
    std::size_t underlined = 0;
    excerpt.caretAt = displayWidth(excerpt.text);
    std::string_view line = diagnostic.sourceLine;
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::size_t index = 0;
    for (std::size_t at = 0; at < line.size(); ++index) {
        const std::size_t length = firstCodePoint(line.substr(at)).length;
        const std::string piece = line[at] == '\t' ? std::string(kTab) : printable(line.substr(at, length));
        at += length;
        if (index < first) continue;
        if (index >= first + kWindow) {
            excerpt.text += "…";
            break;
        }
        excerpt.text += piece;
        if (index < begin)
            excerpt.caretAt += displayWidth(piece);
        else if (index < end)
            underlined += displayWidth(piece);
    }
    excerpt.caretWidth = std::max<std::size_t>(1, underlined);
    return excerpt;
}

std::string_view word(Severity severity) { return severity == Severity::kError ? "error" : "warning"; }

std::string place(const Diagnostic& diagnostic) {
    if (diagnostic.span.begin.line == 0) return printable(diagnostic.file);
    return fmt::format("{}:{}:{}", printable(diagnostic.file), diagnostic.span.begin.line,
                       diagnostic.span.begin.column);
}

std::string renderExcerpt(const Diagnostic& diagnostic, const std::string& margin, const Paint& paint) {
    const auto style = diagnostic.severity == Severity::kError ? kRed : kYellow;
    const Excerpt excerpt = excerptOf(diagnostic);
    const std::string bar = paint(kBlue, "|");
    std::string carets = std::string(excerpt.caretWidth, '^');
    if (!diagnostic.reason.empty()) carets += " " + printable(diagnostic.reason);
    const std::string number = paint(kBlue, std::to_string(diagnostic.span.begin.line));
    return fmt::format("{0} {1}\n{2} {1}{3}\n{0} {1} {4}{5}\n", margin, bar, number,
                       excerpt.text.empty() ? "" : " " + excerpt.text, std::string(excerpt.caretAt, ' '),
                       paint(style, carets));
}

std::string render(const Diagnostic& diagnostic, const Paint& paint) {
    const auto style = diagnostic.severity == Severity::kError ? kRed : kYellow;
    const bool hasLine = diagnostic.span.begin.line > 0;
    const std::size_t width = hasLine ? std::to_string(diagnostic.span.begin.line).size() : 1;
    const std::string margin(width, ' ');
    std::string text =
        fmt::format("{}{}\n{}{} {}\n", paint(style, word(diagnostic.severity)),
                    paint(kBold, ": " + printable(diagnostic.message)), margin, paint(kBlue, "-->"), place(diagnostic));
    if (hasLine)
        text += renderExcerpt(diagnostic, margin, paint);
    else if (!diagnostic.reason.empty())
        text += fmt::format("{} = {}\n", margin, printable(diagnostic.reason));
    if (!diagnostic.note.empty())
        text += fmt::format("{} = {} {}\n", margin, paint(kBold, "note:"), printable(diagnostic.note));
    if (!diagnostic.hint.empty())
        text += fmt::format("{} = {} {}\n", margin, paint(kBold, "help:"), printable(diagnostic.hint));
    return text;
}

std::string counted(std::ptrdiff_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string closingLine(const std::vector<Diagnostic>& diagnostics) {
    const auto errors = std::count_if(diagnostics.begin(), diagnostics.end(),
                                      [](const Diagnostic& d) { return d.severity == Severity::kError; });
    const auto warnings = static_cast<std::ptrdiff_t>(diagnostics.size()) - errors;
    if (warnings == 0) return counted(errors, "error");
    if (errors == 0) return counted(warnings, "warning");
    return counted(errors, "error") + ", " + counted(warnings, "warning");
}

}  // namespace

std::string renderDiagnostics(const std::vector<Diagnostic>& diagnostics, bool colour) {
    if (diagnostics.empty()) return {};
    const Paint paint{colour};
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics) text += render(diagnostic, paint) + "\n";
    return text + closingLine(diagnostics) + "\n";
}

std::string diagnosticsJson(const std::vector<Diagnostic>& diagnostics) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Diagnostic& d : diagnostics)
        list.push_back({{"severity", word(d.severity)},
                        {"code", d.code},
                        {"file", d.file},
                        {"line", d.span.begin.line},
                        {"column", d.span.begin.column},
                        {"endLine", d.span.end.line},
                        {"endColumn", d.span.end.column},
                        {"message", d.message},
                        {"reason", d.reason},
                        {"note", d.note},
                        {"hint", d.hint}});
    // A file may hold bytes that are not UTF-8: they become U+FFFD instead of an exception.
    return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void sortDiagnostics(std::vector<Diagnostic>& diagnostics) {
    const auto key = [](const Diagnostic& d) {
        return std::tie(d.file, d.span.begin.line, d.span.begin.column, d.severity);
    };
    std::stable_sort(diagnostics.begin(), diagnostics.end(),
                     [&](const Diagnostic& a, const Diagnostic& b) { return key(a) < key(b); });
}

bool hasErrors(const std::vector<Diagnostic>& diagnostics) {
    return std::any_of(diagnostics.begin(), diagnostics.end(),
                       [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

}  // namespace gradus
