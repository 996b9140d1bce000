#include "pipeline/cli/ci_filter.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

std::string filtered(const std::string& text) {
    CiFilter filter;
    std::string whole = filter.pass(text);
    whole += filter.finish();
    std::string byByte;
    CiFilter other;
    for (const char c : text) byByte += other.pass(std::string(1, c));
    byByte += other.finish();
    EXPECT_EQ(byByte, whole) << "wherever it breaks";
    return whole;
}

TEST(CiFilter, LeavesOrdinaryLinesAlone) {
    for (const char* text : {"", "one\n", "a::b\n", "std::string x;\n", "# [1]\n", "without an end", "\r\n"})
        EXPECT_EQ(filtered(text), text);
}

TEST(CiFilter, EscapesWhatTheRunnerObeys) {
    EXPECT_EQ(filtered("::set-env name=A::b\n"), "\\::set-env name=A::b\n");
    EXPECT_EQ(filtered("x\n  \t::add-mask::y"), "x\n  \t\\::add-mask::y");
    EXPECT_EQ(filtered("\u00a0\u3000::stop-commands::x\n"), "\u00a0\u3000\\::stop-commands::x\n");
    EXPECT_EQ(filtered("\u200b::warning::x\n"), "\u200b\\::warning::x\n") << "to some rules nothing";
    EXPECT_EQ(filtered("\x1b[31m::error::x\n"), "\x1b[31m\\::error::x\n");
    EXPECT_EQ(filtered("see ##[add-path]/tmp ##[x]\n"), "see ##\\[add-path]/tmp ##\\[x]\n");
}

TEST(CiFilter, DoesNotHoldALineWithoutAnEndForEver) {
    CiFilter filter;
    std::string text;
    for (int i = 0; i < 100; ++i) text += filter.pass(std::string(1000, 'x'));
    EXPECT_GT(text.size(), 60'000U);
    EXPECT_EQ(filter.pass("\n::x\n").find("\n::x"), std::string::npos);
}

}  // namespace
}  // namespace gradus
