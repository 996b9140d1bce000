#include "pipeline/cli/text_table.h"

#include <gtest/gtest.h>

namespace gradus {

namespace {

TextTable people() {
    TextTable table({{"name"}, {"age", TextTable::Align::kRight}, {"city"}});
    table.row({"Zoë", "7", "Köln"});
    table.row({"李小龙", "32", "San Francisco"});
    return table;
}

TEST(TextTable, AlignsByWhatIsSeen) {
    EXPECT_EQ(people().render(Paint(false), 0),
              "name    age  city\n"
              "Zoë       7  Köln\n"
              "李小龙   32  San Francisco\n");
}

TEST(TextTable, CutsTheWidestColumnToFitATerminal) {
    EXPECT_EQ(people().render(Paint(false), 22),
              "name    age  city\n"
              "Zoë       7  Köln\n"
              "李小龙   32  San Fran…\n");
}

TEST(TextTable, EscapesItsCells) {
    TextTable table({{"title"}});
    table.row({"\x1b[2Jtwo\nlines"});
    EXPECT_EQ(table.render(Paint(false), 0), "title\n\\x1b[2Jtwo\\nlines\n");
}

TEST(TextTable, ColoursWithoutMovingColumns) {
    TextTable table({{"a"}, {"b"}});
    table.row({TextTable::Cell("ok", Style::kGreen), "x"});
    EXPECT_EQ(table.render(Paint(true), 0), "\x1b[1ma\x1b[0m   \x1b[1mb\x1b[0m\n\x1b[32mok\x1b[0m  x\n");
}

TEST(TextTable, TreatsARowOfTheWrongLengthAsABug) {
    TextTable table({{"a"}, {"b"}});
    EXPECT_THROW(table.row({"only one"}), std::logic_error);
}

}  // namespace

}  // namespace gradus
