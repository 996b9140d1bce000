// Past a step that cannot be undone: what is proposed is accepted, and leads on.
#include "tests/pipeline/end_to_end/troubled_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::Ended;
using test::has;
using test::Json;

/// Production with a step that cannot be undone, and an after check that says no as long as a file is there.
class PastUndoing : public test::TroubledProgram {
  protected:
    void begin(const std::string& stage = {}, const std::string& policy = {}) {
        outside("it", "");
        rules("\"local\", \"production\"",
              release("checks = [\"after\"]\n" + stage) +
                  afterCheck("test ! -e '" + (scratch / "outside/ill").native() + "'") +
                  "interval = \"100ms\"\n[[stage.production.step]]\nname = \"migrate\"\nrun = [\"true\"]\n"
                  "irreversible = true\n",
              policy);
        expectPromoted(changed("echo v2 > app.txt"), 0);
    }
    void fallIll() { outside("ill", ""); }
    void getWell() { fs::remove(scratch / "outside/ill"); }
    Ended expectPromoted(const std::string& change, int exit) {
        Ended ended = gradus({"promote", change, "--irreversible", "a backup was made", "--json"});
        EXPECT_EQ(ended.exit, exit) << ended.out << ended.err;
        return ended;
    }
    static std::string hint(const Ended& ended) { return ended.json()["error"].value("hint", ""); }
    static constexpr const char* kOn =
        "`gradus adopt production` takes what is there for what production holds, then bring a change that mends it";
    static constexpr const char* kInsist = "gradus rollback production --insist REASON";
};

INSTANTIATE_TEST_SUITE_P(Users, PastUndoing, testing::Values(test::As::kSelf), test::nameOfUser);

TEST_P(PastUndoing, AClosedStageIsAdoptedBeforeAChangeCanMendIt) {
    begin();
    fallIll();
    const Ended stuck = expectPromoted(changed("echo u2 > lib/util.txt"), 6);
    EXPECT_TRUE(has(hint(stuck), "`gradus adopt production` takes what is there")) << stuck.out;
    const Ended recovered = gradus({"recover"});
    EXPECT_TRUE(has(recovered.out, kOn)) << recovered.out;
    EXPECT_TRUE(has(recovered.out, "gradus rollback p4 --insist REASON")) << recovered.out;
    for (const char* what : {"p4", "production", "c2"}) {
        const Json told = gradusJson({"why", what});
        EXPECT_TRUE(has(told["data"].value("way_out", ""), kOn)) << what << told.dump(2);
        EXPECT_TRUE(has(told["next"].dump(), "gradus adopt production")) << what << told.dump(2);
    }
    getWell();
    const std::string mending = changed("echo n > new.txt");
    const Ended waits = expectPromoted(mending, 8);
    EXPECT_TRUE(has(hint(waits), std::string("production is closed by p4: ") + kOn)) << waits.out;
    EXPECT_TRUE(has(waits.json()["next"].dump(), "\"gradus adopt production\"")) << waits.out;
    EXPECT_TRUE(has(waits.json()["next"].dump(), kInsist)) << waits.out;
    ASSERT_EQ(gradus({"adopt", "production"}).exit, 0);
    expectPromoted(mending, 0);
    EXPECT_EQ(bytesOf(production / "current/lib/util.txt"), "u2\n");
    EXPECT_EQ(bytesOf(production / "current/new.txt"), "n\n");
    expectWhole();
}

TEST_P(PastUndoing, WhatAMonitorLeavesIsProposedToBeTakenBackAsThatIsAccepted) {
    begin("monitor = \"24h\"\n");
    fallIll();
    const Ended failed = gradus({"monitor", "--json"});
    EXPECT_EQ(failed.exit, 8) << failed.out << failed.err;
    EXPECT_EQ(failed.json()["next"][0], kInsist) << failed.out;
    EXPECT_TRUE(has(hint(failed), "bring a change that mends it; or")) << failed.out;
    EXPECT_TRUE(has(hint(failed), "gradus rollback p2 --insist REASON")) << failed.out;
    EXPECT_FALSE(has(hint(failed), "adopt")) << "it is not closed: " << failed.out;
    EXPECT_EQ(gradus({"rollback", "production"}).exit, 4);
    EXPECT_EQ(gradus({"rollback", "production", "--insist", "the data was restored"}).exit, 0);
    expectWhole();
}

TEST_P(PastUndoing, WhatStandsThereAfterANoIsTakenBackByInsistingOrRecovered) {
    begin({}, "rollback = \"manual\"\n");
    fallIll();
    const Ended no = expectPromoted(changed("echo u2 > lib/util.txt"), 8);
    EXPECT_EQ(no.json()["next"][0], kInsist) << no.out;
    EXPECT_TRUE(has(gradusJson({"status"})["next"].dump(), kInsist));
    const Ended refused = gradus({"rollback", "production", "--json"});
    EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
    EXPECT_FALSE(has(hint(refused), "mends it")) << "that would wait behind it: " << refused.out;
    EXPECT_TRUE(has(hint(refused), "`gradus recover` goes on with it; or")) << refused.out;
    getWell();
    EXPECT_EQ(gradus({"recover"}).exit, 0);
    EXPECT_EQ(stateOf("p4"), "promoted");
    expectWhole();
}

}  // namespace
}  // namespace gradus
