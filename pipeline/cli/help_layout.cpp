#include "pipeline/cli/help_layout.h"

#include <algorithm>

#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kPageWidth = 80;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;
constexpr std::size_t kWidestName = 38;

std::size_t docColumn(const std::vector<HelpRow>& rows) {
    std::size_t widest = 0;
    for (const HelpRow& row : rows) {
        const std::size_t width = displayWidth(row.name);
        if (width <= kWidestName) widest = std::max(widest, width);
    }
    return kIndent + (widest == 0 ? kIndent : widest) + kGap;
}

std::string renderRow(const HelpRow& row, std::size_t column, const Paint& paint) {
    const std::size_t end = kIndent + displayWidth(row.name);
    std::string out = std::string(kIndent, ' ') + paint(Style::kCyan, row.name);
    bool beside = end + kGap <= column;
    for (const std::string& line : wrapWords(row.doc, kPageWidth - column)) {
        out += beside ? std::string(column - end, ' ') : "\n" + std::string(column, ' ');
        out += paint(Style::kPlain, line);
        beside = false;
    }
    return out + "\n";
}

}  // namespace

std::vector<std::string> wrapWords(std::string_view text, std::size_t width) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t blank = text.find(' ');
        const std::string_view word = text.substr(0, blank);
        text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
        if (lines.empty() || displayWidth(lines.back()) + 1 + displayWidth(word) > width) {
            lines.emplace_back(word);
        } else {
            lines.back().append(" ").append(word);
        }
    }
    return lines;
}

std::string helpSection(std::string_view heading, const std::vector<HelpRow>& rows, const Paint& paint) {
    if (rows.empty()) return "";
    std::string out = "\n" + paint(Style::kBold, heading) + "\n";
    const std::size_t column = docColumn(rows);
    for (const HelpRow& row : rows) out += renderRow(row, column, paint);
    return out;
}

}  // namespace gradus
