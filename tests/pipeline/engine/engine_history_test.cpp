// What a promotion asks the store, counted in SQLite's own steps: as much after many promotions as after a few.
#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>

#include "store/model/error.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/error_of.h"

namespace gradus::test {
namespace {

/// By statement: the steps since it was asked last.
using Steps = std::map<std::string, std::int64_t>;

Steps stepsSince(Sql& sql) {
    Steps steps;
    sqlite3* database = sql.database().getHandle();
    for (sqlite3_stmt* each = sqlite3_next_stmt(database, nullptr); each; each = sqlite3_next_stmt(database, each))
        steps[sqlite3_sql(each)] += sqlite3_stmt_status(each, SQLITE_STMTSTATUS_VM_STEP, 1);
    return steps;
}

TEST(EngineHistory, WhatAPromotionAsksTheStoreDoesNotGrowWithIt) {
    constexpr int kFew = 25;  // as many as a stage keeps a way back for, and some
    constexpr int kMany = 150;
    EngineRig rig;
    build(rig.project(), sampleBefore());
    rig.engine();
    const auto promoteOne = [&](int number) {
        const std::string name = "new" + std::to_string(number);
        const auto change = rig.submitChanges(changesBetween({}, {{name, file(name)}}, rig.objects()));
        ASSERT_TRUE(rig.promote(change).succeeded());
    };
    int made = 0;
    const auto costAfter = [&](int count) {
        while (made < count) promoteOne(++made);
        stepsSince(rig.store().sql());
        promoteOne(++made);
        return stepsSince(rig.store().sql());
    };
    Steps few = costAfter(kFew);
    for (const auto& [statement, steps] : costAfter(kMany))
        // Half as much again leaves room for trees of an index that are one level deeper.
        EXPECT_LE(steps, few[statement] * 3 / 2 + 20) << statement;
}

// What is older than the newest twenty has no way back any more: that is said before anything is touched.
TEST(EngineHistory, GoingBackEndsWithARefusalThatTouchesNothing) {
    constexpr int kMade = 23;
    EngineRig rig;
    build(rig.project(), sampleBefore());
    for (int i = 0; i < kMade; ++i) {
        const std::string name = "new" + std::to_string(i);
        const auto change = rig.submitChanges(changesBetween({}, {{name, file(name)}}, rig.objects()));
        ASSERT_TRUE(rig.promote(change).succeeded());
    }
    for (const std::string stage : {"local", "production"}) {
        SCOPED_TRACE(stage);
        const auto holds = [&] { return rig.store().records().stageState(1, stage); };
        int taken = 0;
        std::optional<Error> refused;
        while (!refused && taken < kMade) try {
                ASSERT_TRUE(rig.engine()->rollBack(*holds().promotion, rig.progress, {}).isOut()) << taken;
                ++taken;
            } catch (const Error& fault) {
                refused = fault;
            }
        ASSERT_TRUE(refused);
        EXPECT_GE(taken, 20);
        EXPECT_EQ(refused->code(), ErrorCode::kNotAllowed) << refused->what();
        EXPECT_TRUE(mentions(*refused, "nothing was touched")) << refused->what();
        EXPECT_FALSE(holds().stuck);
        EXPECT_TRUE(rig.engine()->recover(rig.progress, {}).empty());
    }
}

// Those that wait behind it are nobody's business when the first of them goes in, nor when one more comes.
TEST(EngineHistory, WhatAPromotionAsksTheStoreDoesNotGrowWithTheLine) {
    constexpr int kFew = 10;
    constexpr int kMany = 90;
    const auto costsOf = [](int waiting) {
        EngineRig rig;
        rig.productionPolicy = "approvals = [{ count = 1 }]";
        build(rig.project(), sampleBefore());
        rig.engine();
        std::vector<std::int64_t> line;
        const auto oneMore = [&] {
            const std::string name = "new" + std::to_string(line.size());
            line.push_back(rig.submitChanges(changesBetween({}, {{name, file(name)}}, rig.objects())));
            EXPECT_EQ(rig.promote(line.back()).stages.back().promotion.state, PromotionState::kWaiting);
        };
        const auto hold = [&](bool isHeld) {
            rig.store().write([&](Writer& writer) {
                WordWriter words(writer, writer.actor({ActorKind::kPerson, "ben"}), 0);
                if (isHeld) words.hold({.project = 1, .stage = "production", .reason = "an audit"});
                if (!isHeld) words.release(1, std::nullopt, "production");
            });
        };
        hold(true);
        while (std::cmp_less(line.size(), waiting)) oneMore();
        stepsSince(rig.store().sql());
        oneMore();
        Steps steps = stepsSince(rig.store().sql());
        hold(false);
        rig.productionPolicy.clear();
        EXPECT_TRUE(rig.promote(line.front()).succeeded());
        for (const auto& [statement, more] : stepsSince(rig.store().sql())) steps[statement] += more;
        return steps;
    };
    Steps few = costsOf(kFew);
    // A look at each that waits too long, and how many there are: as cheap as counting.
    constexpr std::int64_t kToCount = 120;
    for (const auto& [statement, steps] : costsOf(kMany))
        EXPECT_LE(steps, few[statement] * 3 / 2 + 20 + kToCount * (kMany - kFew)) << statement;
}

}  // namespace
}  // namespace gradus::test
