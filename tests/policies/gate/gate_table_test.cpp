#include "tests/policies/gate/gate_table.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/policies/gate/gate_fixture.h"

namespace gradus {
namespace {

std::vector<test::Row> allRows() {
    std::vector<test::Row> rows = test::consentRows();
    for (const auto& more : {test::changeRows(), test::timeRows()}) rows.insert(rows.end(), more.begin(), more.end());
    return rows;
}

void expectRow(const test::Row& row) {
    SCOPED_TRACE(row.name + "\n  policy: " + row.policy + "\n  facts: " + row.facts);
    const test::Situation now = test::situationOf(row.facts);
    const Decision decision = test::decideHere(now.facts, test::pipelineWith(row.policy), now.now, now.stage);
    EXPECT_EQ(test::differences(decision, row.expected), "");
}

TEST(GateTable, EveryRowIsDecidedAsItSays) {
    const auto rows = allRows();
    RecordProperty("rows", static_cast<int>(rows.size()));
    std::printf("%zu rows\n", rows.size());
    EXPECT_GE(rows.size(), 200U);
    std::set<std::string> names;
    for (const test::Row& row : rows) {
        EXPECT_TRUE(names.insert(row.name).second) << "twice: " << row.name;
        expectRow(row);
    }
}

TEST(GateTable, NoRowKeepsARollbackFromRunning) {
    for (const test::Row& row : allRows()) {
        const Decision decision = decideRollback(test::situationOf(row.facts).facts);
        EXPECT_EQ(decision.step, NextStep::kApply) << row.name;
        EXPECT_FALSE(decision.asks()) << row.name;
        for (const GateAnswer& answer : decision.gates) EXPECT_EQ(answer.state, GateState::kNotApplicable) << row.name;
    }
}

TEST(GateTable, WhoeverWaitsIsToldWhyWhoAndSinceWhen) {
    for (const test::Row& row : allRows()) {
        const test::Situation now = test::situationOf(row.facts);
        const Decision decision = test::decideHere(now.facts, test::pipelineWith(row.policy), now.now, now.stage);
        for (const GateAnswer& answer : decision.gates) {
            SCOPED_TRACE(row.name + ": " + std::string(nameOf(kGates, answer.gate)));
            EXPECT_FALSE(answer.reason.empty());
            EXPECT_EQ(answer.reason.find('\n'), std::string::npos);
            if (answer.state != GateState::kClosed) continue;
            EXPECT_FALSE(answer.unblock.empty());
        }
    }
}

}  // namespace
}  // namespace gradus
