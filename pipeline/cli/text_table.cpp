#include "pipeline/cli/text_table.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "pipeline/cli/printable.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 6;  // Below this a cut cell says nothing.

std::string fitted(const std::string& text, std::size_t width) {
    if (displayWidth(text) <= width) return text;
    return std::string(cutToWidth(text, width - 1)) + "…";
}

void shrinkTo(std::vector<std::size_t>& widths, std::size_t limit) {
    const std::size_t gaps = kGap * (widths.size() - 1);
    std::size_t total = std::accumulate(widths.begin(), widths.end(), gaps);
    while (total > limit) {
        const auto widest = std::ranges::max_element(widths);
        if (*widest <= kNarrowest) return;
        --*widest;
        --total;
    }
}

}  // namespace

TextTable::Cell::Cell(const std::string& untrusted, Style look) : text(printable(untrusted)), style(look) {}

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::row(std::vector<Cell> cells) {
    if (cells.size() != columns_.size()) throw std::logic_error("a table row with the wrong number of cells");
    rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::columnWidths(std::size_t limit) const {
    std::vector<std::size_t> widths;
    widths.reserve(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        std::size_t width = displayWidth(columns_[i].title);
        for (const auto& cells : rows_) width = std::max(width, displayWidth(cells[i].text));
        widths.push_back(width);
    }
    if (limit > 0) shrinkTo(widths, limit);
    return widths;
}

std::string TextTable::renderRow(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths,
                                 const Paint& paint) const {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::string text = fitted(cells[i].text, widths[i]);
        const std::string padding(widths[i] - displayWidth(text), ' ');
        const bool right = columns_[i].align == Align::kRight;
        if (i > 0) line += std::string(kGap, ' ');
        if (right) line += padding;
        line += paint(cells[i].style, text);
        // No blanks at the end of a line: they wrap on a narrow terminal and show up in copied text.
        if (!right && i + 1 < cells.size()) line += padding;
    }
    return line + "\n";
}

std::string TextTable::render(const Paint& paint, std::size_t width) const {
    const std::vector<std::size_t> widths = columnWidths(width);
    std::vector<Cell> titles;
    titles.reserve(columns_.size());
    for (const Column& column : columns_) titles.emplace_back(column.title, Style::kBold);
    std::string out = renderRow(titles, widths, paint);
    for (const auto& cells : rows_) out += renderRow(cells, widths, paint);
    return out;
}

}  // namespace gradus
