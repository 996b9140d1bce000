#include "pipeline/cli/style.h"

#include <gtest/gtest.h>

namespace gradus {

namespace {

TEST(Colour, IsForTerminalsThatWantIt) {
    EXPECT_TRUE(wantsColour({.isTerminal = true}));
    EXPECT_FALSE(wantsColour({.isTerminal = false}));
    EXPECT_FALSE(wantsColour({.isTerminal = true, .noColor = true}));
    EXPECT_FALSE(wantsColour({.isTerminal = true, .dumbTerminal = true}));
}

TEST(Colour, FollowsTheCommandLineBeforeTheEnvironment) {
    EXPECT_TRUE(wantsColour({.choice = ColourChoice::kAlways, .noColor = true}));
    EXPECT_FALSE(wantsColour({.choice = ColourChoice::kNever, .isTerminal = true}));
}

TEST(Paint, EscapesWhatItIsGiven) {
    EXPECT_EQ(Paint(true)(Style::kRed, "\x1b[2J"), "\x1b[31m\\x1b[2J\x1b[0m");
    EXPECT_EQ(Paint(false)(Style::kRed, "\x1b[2J"), "\\x1b[2J");
}

}  // namespace

}  // namespace gradus
