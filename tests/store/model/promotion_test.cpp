#include "store/model/promotion.h"
#include "tests/support/case.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace gradus {
namespace {

using Edge = std::pair<std::string, std::string>;

// The drawing, once more and by hand: an edge added to the table by mistake must not pass by being read from it.
const std::set<Edge> kDrawing{
    {"queued", "waiting"},     {"waiting", "checking"},         {"waiting", "rejected"},   {"waiting", "superseded"},
    {"waiting", "stale"},      {"waiting", "expired"},          {"waiting", "cancelled"},  {"checking", "waiting"},
    {"checking", "rejected"},  {"checking", "applying"},        {"applying", "verifying"}, {"applying", "rolling-back"},
    {"verifying", "soaking"},  {"verifying", "rolling-back"},   {"soaking", "promoted"},   {"soaking", "rolling-back"},
    {"rolling-back", "stuck"}, {"rolling-back", "rolled-back"},
};

TEST(Transitions, AreExactlyTheDrawnOnes) {
    for (const auto& from : kPromotionStates)
        for (const auto& to : kPromotionStates)
            EXPECT_EQ(isLegal(from.value, to.value), kDrawing.contains({std::string(from.word), std::string(to.word)}))
                << from.word << " -> " << to.word;
    EXPECT_EQ(kTransitions.size(), kDrawing.size()) << "no edge is listed twice";
}

TEST(Transitions, LeadOutOfNoEnd) {
    GRADUS_CASES("I2");
    const std::set<std::string> ends{"promoted", "rejected",  "superseded",  "stale",
                                     "expired",  "cancelled", "rolled-back", "stuck"};
    for (const auto& state : kPromotionStates)
        EXPECT_EQ(isFinal(state.value), ends.contains(std::string(state.word))) << state.word;
}

TEST(Transitions, ReachEveryStateFromTheFirst) {
    std::set<PromotionState> reached{PromotionState::kQueued};
    for (std::size_t round = 0; round < kPromotionStates.size(); ++round)
        for (const Transition& edge : kTransitions)
            if (reached.contains(edge.from)) reached.insert(edge.to);
    EXPECT_EQ(reached.size(), kPromotionStates.size());
}

TEST(Transitions, NeverRejectWhatHasTouchedATarget) {
    for (const Transition& edge : kTransitions) {
        if (edge.to != PromotionState::kRejected) continue;
        EXPECT_TRUE(edge.from == PromotionState::kWaiting || edge.from == PromotionState::kChecking);
    }
}

// The page that people read has every step, and no other: rows "| waiting | checking | …" of docs/states.md.
TEST(Transitions, AreThoseOfThePage) {
    std::ifstream page(std::string(GRADUS_SOURCE_DIR) + "/docs/states.md");
    std::set<Edge> written;
    for (std::string line; std::getline(page, line);) {
        std::istringstream words(line);
        std::string bar, from, middle, to;
        if (!(words >> bar >> from >> middle >> to) || bar != "|" || middle != "|") continue;
        if (fromName(kPromotionStates, from)) written.insert({from, to});
    }
    EXPECT_EQ(written, kDrawing);
}

template <typename Table>
void expectEveryWordOnce(const Table& table) {
    std::set<std::string_view> words;
    for (const auto& row : table) {
        EXPECT_TRUE(words.insert(row.word).second) << row.word;
        EXPECT_EQ(fromName(table, row.word), row.value);
        EXPECT_EQ(nameOf(table, row.value), row.word);
    }
    EXPECT_EQ(fromName(table, "no-such-word"), std::nullopt);
    EXPECT_EQ(fromName(table, ""), std::nullopt);
}

TEST(Names, AreTheSameInBothDirections) {
    expectEveryWordOnce(kPromotionStates);
    expectEveryWordOnce(kCauses);
}

}  // namespace
}  // namespace gradus
