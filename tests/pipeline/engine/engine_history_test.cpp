// What a promotion asks the store, counted in SQLite's own steps: as much after many promotions as after a few.
#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>

#include "tests/pipeline/engine/engine_rig.h"

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

}  // namespace
}  // namespace gradus::test
