#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pipeline/cli/style.h"

namespace gradus {

/// Rows in aligned columns, by what is seen on the screen rather than by bytes. Cells may hold untrusted text.
class TextTable {
  public:
    enum class Align { kLeft, kRight };
    struct Column {
        std::string title;
        Align align = Align::kLeft;
    };
    struct Cell {
        Cell(const std::string& untrusted, Style look = Style::kPlain);  // NOLINT: rows are written as plain texts
        Cell(const char* untrusted) : Cell(std::string(untrusted)) {}
        std::string text;
        Style style;
    };

    explicit TextTable(std::vector<Column> columns);

    /// As many cells as there are columns.
    void row(std::vector<Cell> cells);
    bool empty() const { return rows_.empty(); }

    /// `width` > 0 makes it fit that many columns by cutting the widest cells; 0 leaves everything whole.
    std::string render(const Paint& paint, std::size_t width) const;

  private:
    std::vector<std::size_t> columnWidths(std::size_t limit) const;
    std::string renderRow(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths,
                          const Paint& paint) const;

    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
};

}  // namespace gradus
