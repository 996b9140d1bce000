#include "stages/changes/link_rule.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

TEST(LinkRule, UpFirstAndThenDownStaysInside) {
    for (const char* text : {"x", "./x/y/", "../x", "../../x", ".././../x", "../..", "."})
        EXPECT_TRUE(staysInside("a/b/link", text)) << text;
}

TEST(LinkRule, WhatLeavesTheTreeOrMightDoesNot) {
    for (const char* text : {"", "/", "/a/b/x", "../../../x", "../../..", "x/../y", "../x/.."})
        EXPECT_FALSE(staysInside("a/b/link", text)) << text;
    EXPECT_FALSE(staysInside("link", ".."));
    EXPECT_FALSE(staysInside("", "x")) << "a link by itself has nothing with it";
}

}  // namespace
}  // namespace gradus
