// Who is the better one: declared, changeable, and the same every time.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pipeline/experiment/race.h"

namespace gradus {
namespace {

RaceEntry entry(const std::string& name, RaceStanding standing, std::size_t passed, std::size_t failed) {
    RaceEntry made;
    made.name = name;
    made.standing = standing;
    for (std::size_t i = 0; i < passed; ++i) made.checks.push_back({.name = "yes", .verdict = Cause::kPassed});
    for (std::size_t i = 0; i < failed; ++i) made.checks.push_back({.name = "no", .verdict = Cause::kFailed});
    return made;
}

std::string orderOf(std::vector<RaceEntry> entries, const std::vector<RankBy>& by) {
    rank(entries, by);
    std::string names;
    for (const RaceEntry& one : entries) names += one.name;
    return names;
}

const std::vector<RankBy> kUsual{RankBy::kFailures, RankBy::kPassed, RankBy::kSize, RankBy::kTime};

TEST(Ranking, PassedComesBeforeEverythingElse) {
    const auto a = entry("a", RaceStanding::kFailed, 5, 1);
    const auto b = entry("b", RaceStanding::kPassed, 1, 0);
    EXPECT_EQ(orderOf({a, b}, kUsual), "ba");
    EXPECT_EQ(orderOf({a, b}, {RankBy::kMemory}), "ba") << "whatever they are ranked by";
}

TEST(Ranking, FewerFailuresThenMorePassedThenSmallerThenFaster) {
    auto one = entry("1", RaceStanding::kFailed, 3, 1);
    auto two = entry("2", RaceStanding::kFailed, 2, 1);
    auto three = entry("3", RaceStanding::kFailed, 2, 1);
    auto four = entry("4", RaceStanding::kFailed, 2, 1);
    auto five = entry("5", RaceStanding::kFailed, 9, 2);
    two.added = 3;
    three.added = 3;
    three.removed = 1;
    four.added = 4;
    three.wallMs = 10;
    four.wallMs = 20;
    EXPECT_EQ(orderOf({five, four, three, two, one}, kUsual), "12345");
}

TEST(Ranking, TiesStayInTheOrderTheyWereGiven) {
    const auto a = entry("a", RaceStanding::kPassed, 1, 0);
    const auto b = entry("b", RaceStanding::kPassed, 1, 0);
    const auto c = entry("c", RaceStanding::kPassed, 1, 0);
    EXPECT_EQ(orderOf({b, a, c}, kUsual), "bac");
    EXPECT_EQ(orderOf({c, b, a}, {}), "cba");
}

TEST(Ranking, OneThatNeverCameToItsChecksIsLast) {
    const auto empty = entry("e", RaceStanding::kEmpty, 0, 0);
    const auto stopped = entry("s", RaceStanding::kStopped, 0, 0);
    const auto failed = entry("f", RaceStanding::kFailed, 0, 3);
    EXPECT_EQ(orderOf({empty, stopped, failed}, kUsual), "fes");
}

TEST(Ranking, WhatItIsBySaysTheCaller) {
    auto small = entry("s", RaceStanding::kPassed, 1, 0);
    auto frugal = entry("f", RaceStanding::kPassed, 1, 0);
    small.added = 1;
    frugal.added = 9;
    small.peakMemoryBytes = 9000;
    small.cpuMs = 90;
    EXPECT_EQ(orderOf({frugal, small}, {RankBy::kSize}), "sf");
    EXPECT_EQ(orderOf({small, frugal}, {RankBy::kMemory, RankBy::kSize}), "fs");
    EXPECT_EQ(orderOf({small, frugal}, {RankBy::kCpu}), "fs");
}

}  // namespace
}  // namespace gradus
