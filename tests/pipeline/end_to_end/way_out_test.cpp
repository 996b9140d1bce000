// Where a promotion stops half-way: what is known is said, and the words that are said next lead out of it.
#include <sys/mount.h>

#include "tests/pipeline/end_to_end/troubled_program.h"
#include "tests/store/own_mounts.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::Ended;
using test::has;
using test::Json;

/// A disk of its own for a directory, gone with this.
class SmallDisk {
  public:
    SmallDisk(fs::path where, const std::string& size, uid_t owner) : where_(std::move(where)) {
        test::enterOwnMounts();
        fs::create_directories(where_);
        const std::string options = fmt::format("size={},mode=0700,uid={},gid={}", size, owner, owner);
        EXPECT_EQ(::mount("tmpfs", where_.c_str(), "tmpfs", 0, options.c_str()), 0);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    ~SmallDisk() { ::umount2(where_.c_str(), MNT_DETACH); }
    void grow(const std::string& size) const {
        EXPECT_EQ(::mount("tmpfs", where_.c_str(), "tmpfs", MS_REMOUNT, ("size=" + size).c_str()), 0);
    }

  private:
    fs::path where_;
};

class WayOut : public test::TroubledProgram {
  protected:
    std::unique_ptr<SmallDisk> disk(const fs::path& where, const std::string& size) {
        if (::geteuid() != 0) return nullptr;
        return std::make_unique<SmallDisk>(where, size, GetParam() == test::As::kSelf ? 0 : test::kOrdinaryUid);
    }
    /// Leaves no byte where the program remembers, once.
    std::string fillsState() {
        outside("it", "");
        return fmt::format(
            "test -e '{0}' || {{ touch '{0}'; dd if=/dev/zero of='{1}' bs=64k 2>/dev/null; "
            "dd if=/dev/zero of='{1}2' bs=1 2>/dev/null; }}; ",
            (scratch / "outside/once").native(), (state / "filler").native());
    }
    static std::string hint(const Ended& ended) { return ended.json()["error"].value("hint", ""); }
    static std::string message(const Ended& ended) { return ended.json()["error"].value("message", ""); }
};

INSTANTIATE_TEST_SUITE_P(Users, WayOut, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(WayOut, AFullStateDirectoryAfterTheSwitchSaysThatItWasSwitched) {
    const auto small = disk(state, "64m");
    if (!small) GTEST_SKIP() << "mounting a small disk needs root";
    rules("\"local\", \"production\"", release("checks = [\"after\"]\n") + afterCheck(fillsState() + "true"));
    const Ended full = gradus({"promote", changed("echo v2 > app.txt"), "--json"});
    EXPECT_EQ(full.exit, 6) << full.out << full.err;
    EXPECT_TRUE(has(message(full), "stands at verifying in production, whose target was switched: no space left for"));
    EXPECT_TRUE(has(hint(full), "gradus recover")) << full.out;
    EXPECT_FALSE(has(full.out + full.err, "nothing was changed")) << full.out;
    EXPECT_EQ(full.json()["next"][0], "gradus recover") << full.out;
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
    shell("rm '" + (state / "filler").native() + "'*");
    const Ended recovered = gradus({"recover"});
    EXPECT_EQ(recovered.exit, 0) << recovered.out << recovered.err;
    EXPECT_EQ(stateOf("p2"), "promoted");
    expectWhole();
}

TEST_P(WayOut, ANoIsTakenBackOnAFullStateDirectoryToo) {
    const auto small = disk(state, "64m");
    if (!small) GTEST_SKIP() << "mounting a small disk needs root";
    rules("\"local\", \"production\"", release("checks = [\"after\"]\n") + afterCheck(fillsState() + "false"));
    const Ended back = gradus({"promote", changed("echo v2 > app.txt"), "--json"});
    EXPECT_EQ(back.exit, 5) << back.out << back.err;
    EXPECT_FALSE(fs::exists(production / "current"));
    shell("rm '" + (state / "filler").native() + "'*");
    expectWhole();
}

TEST_P(WayOut, ATargetWithoutRoomIsNobodysNo) {
    const auto small = disk(scratch / "small", "1m");
    if (!small) GTEST_SKIP() << "mounting a small disk needs root";
    production = scratch / "small/production";
    rules("\"local\", \"production\"", release());
    const std::string change = changed("echo v2 > app.txt");
    const Ended full = gradus({"promote", change, "--json"});
    EXPECT_EQ(full.exit, 6) << full.out << full.err;
    EXPECT_EQ(full.json()["error"]["retryable"], true) << full.out;
    EXPECT_TRUE(has(message(full), "not enough space")) << full.out;
    EXPECT_TRUE(has(message(full), (scratch / "small").native())) << full.out;
    EXPECT_TRUE(has(hint(full), "free space there")) << full.out;
    EXPECT_EQ(full.json()["next"][0], "gradus retry p2") << full.out;
    small->grow("16m");
    ASSERT_EQ(gradus({"retry", "p2"}).exit, 0);
    // The same where a release is there already.
    small->grow("1m");
    const Ended again = gradus({"promote", changed("echo v3 > app.txt"), "--json"});
    EXPECT_EQ(again.exit, 6) << again.out << again.err;
    EXPECT_EQ(again.json()["error"]["retryable"], true) << again.out;
    EXPECT_TRUE(has(hint(again), "free space there, then `gradus retry")) << again.out;
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
}

TEST_P(WayOut, ActivateHasTheTimeThatTheStageGivesIt) {
    rules("\"local\", \"production\"",
          release("timeout = \"1s\"\nactivate = [\"sh\", \"-c\", \"test ! -e SLOW || exec sleep 60\"]\n"));
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const auto began = std::chrono::steady_clock::now();
    const Ended slow = gradus({"promote", changed("touch SLOW")});
    EXPECT_EQ(slow.exit, 5) << slow.out << slow.err;
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(45));
    EXPECT_FALSE(fs::exists(production / "current/SLOW"));
}

TEST_P(WayOut, AWayBackThatWasStuckIsGoneToItsEndAndNoFurther) {
    const fs::path shut = scratch / "outside/shut";
    outside("it", "");
    rules("\"local\", \"production\"",
          release(fmt::format("activate = [\"sh\", \"-c\", \"! test -e '{}'\"]\n", shut.native())));
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    for (const bool byStage : {true, false}) {
        ASSERT_EQ(gradus({"promote", changed(byStage ? "echo 1 > once" : "echo 2 > twice")}).exit, 0);
        outside("shut", "");
        const Ended stuck = gradus({"rollback", "production", "--json"});
        EXPECT_EQ(stuck.exit, 6) << "it cannot be activated: " << stuck.out;
        fs::remove(shut);
        const Ended again =
            gradus({"rollback", byStage ? "production" : stuck.json()["data"]["promotion"]["id"].get<std::string>()});
        EXPECT_EQ(again.exit, 0) << again.out << again.err;
        EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n") << again.out;
        EXPECT_FALSE(fs::exists(production / "current" / (byStage ? "once" : "twice")));
    }
}

TEST_P(WayOut, TakingBackBesideAPromotionIsBusy) {
    const fs::path up = scratch / "outside/up";
    outside("it", "");
    rules("\"local\", \"production\"",
          release(fmt::format("activate = [\"sh\", \"-c\", \"test -e '{0}' || {{ touch '{0}'; exec sleep 20; }}\"]\n",
                              up.native())));
    const std::string change = changed("echo v2 > app.txt");
    const auto running = startCommand({test::program(), "promote", change});
    for (int i = 0; i < 2000 && !fs::exists(up); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (const char* what : {"production", "p2"}) {
        const Ended busy = gradus({"rollback", what});
        EXPECT_EQ(busy.exit, 7) << what << busy.out << busy.err;
        EXPECT_TRUE(has(busy.err, "p2 is applying in production, and another process drives it")) << busy.err;
        EXPECT_TRUE(has(busy.err, "gradus cancel p2")) << busy.err;
    }
    for (const std::vector<std::string>& words : {std::vector<std::string>{"promote", change}, {"retry", "p2"}}) {
        std::vector<std::string> asked = words;
        asked.emplace_back("--json");
        const Ended again = gradus(asked);
        EXPECT_EQ(again.exit, 7) << words.front() << again.out << again.err;
        EXPECT_EQ(again.json()["error"]["code"], "busy") << again.out;
        EXPECT_EQ(again.json()["error"]["retryable"], true) << again.out;
    }
    EXPECT_EQ(gradus({"cancel", "p2"}).exit, 0);
    EXPECT_EQ(running->wait().exit, 5);
    EXPECT_FALSE(fs::exists(production / "current"));
}

/// A stage of commands that could not go back.
class ShutTarget : public WayOut {
  protected:
    void expectOpen() {
        const Ended ended = gradus({"promote", changed("echo done > done.txt"), "--json"});
        EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
        expectWhole();
    }
};

INSTANTIATE_TEST_SUITE_P(Users, ShutTarget, testing::Values(test::As::kSelf, test::As::kOrdinaryUser),
                         test::nameOfUser);

TEST_P(ShutTarget, AdoptTakesWhatStatusSays) {
    stuck(true);
    const std::string now = bytesOf(scratch / "outside/digest");
    variables["GRADUS_ACTOR"] = "agent:fixer";
    EXPECT_EQ(gradus({"adopt", "production"}).exit, 4);
    variables.erase("GRADUS_ACTOR");
    const Ended against = gradus({"adopt", "production", "--holds", "p2"});
    EXPECT_EQ(against.exit, 4) << against.out << against.err;
    EXPECT_TRUE(has(against.err, "`status` prints '" + now + "'")) << against.err;
    EXPECT_EQ(gradus({"adopt", "production", "--holds", "nothing"}).exit, 4) << "it prints what it holds";
    const Json adopted = gradusJson({"adopt", "production"});
    EXPECT_EQ(adopted["data"]["tree"], now) << adopted.dump(2);
    EXPECT_TRUE(has(gradus({"audit", "timeline"}).out, "took what is in production for what it holds"));
    expectOpen();
}

TEST_P(ShutTarget, WhatStatusSaysMustBeATreeThatIsKept) {
    stuck(true);
    outside("digest", "something else");
    const Ended refused = gradus({"adopt", "production"});
    EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "--holds nothing")) << refused.err;
    const Ended nothing = gradus({"adopt", "production", "--holds", "nothing"});
    EXPECT_EQ(nothing.exit, 0) << nothing.out << nothing.err;
    EXPECT_TRUE(has(nothing.out, "production holds nothing from now on: a promotion that fails")) << nothing.out;
    expectOpen();
}

TEST_P(ShutTarget, WithoutStatusAPersonVouches) {
    stuck(false);
    const Ended refused = gradus({"adopt", "production"});
    EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "--holds PROMOTION")) << refused.err;
    variables["GRADUS_ACTOR"] = "agent:fixer";
    EXPECT_EQ(gradus({"adopt", "production", "--holds", "p2"}).exit, 4);
    variables.erase("GRADUS_ACTOR");
    EXPECT_EQ(gradus({"adopt", "production", "--holds", "p1"}).exit, 2) << "that one went into the work tree";
    const Ended vouched = gradus({"adopt", "production", "--holds", "p2"});
    EXPECT_EQ(vouched.exit, 0) << vouched.out << vouched.err;
    expectOpen();
}

/// A stage of commands with a step before them that nobody sees the end of.
class DoubtedStep : public ShutTarget {
  protected:
    void doubt(bool withStatus) {
        outside("slow", "");
        const std::string slow = (scratch / "outside/slow").native();
        fs::remove(slow);
        outside("deploy",
                "#!/bin/sh\ncd \"$(dirname \"$0\")\"\ncase $GRADUS_ACTION in\nstatus) cat digest ;;\n"
                "*) printf %s \"$GRADUS_TREE_DIGEST\" > digest ;;\nesac\n");
        const std::string words = fmt::format("[\"sh\", \"{}\"]\n", (scratch / "outside/deploy").native());
        rules("\"local\", \"production\"",
              "[stage.production]\ndriver = \"command\"\napply = " + words + "rollback = " + words +
                  (withStatus ? "status = " + words : "") +
                  fmt::format(
                      "[[stage.production.step]]\nname = \"migrate\"\nidempotence = \"no\"\nrun = [\"sh\", \"-c\", "
                      "\"while test -e '{}'; do sleep 0.1; done\"]\nundo = [\"true\"]\n",
                      slow));
        ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
        const std::string next = changed("echo v3 > app.txt");
        outside("slow", "");
        const auto running = startCommand({GRADUS_PROGRAM, "promote", next});
        awaitState("p4", "applying");
        for (int i = 0; i < 200 && !has(gradus({"status"}).out, "step migrate of production"); ++i) ::usleep(20'000);
        running->stop(SIGKILL);
        fs::remove(slow);
        for (int i = 0; i < 100 && stateOf("p4") != "stuck"; ++i) gradus({"recover"});
        ASSERT_EQ(stateOf("p4"), "stuck");
    }
};

INSTANTIATE_TEST_SUITE_P(Users, DoubtedStep, testing::Values(test::As::kSelf, test::As::kOrdinaryUser),
                         test::nameOfUser);

TEST_P(DoubtedStep, WhatWasNeverBroughtThereIsNotVouchedFor) {
    doubt(false);
    const std::string before = bytesOf(scratch / "outside/digest");
    const Ended refused = gradus({"adopt", "production", "--holds", "p4"});
    EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "`apply` never ran for")) << refused.err;
    EXPECT_TRUE(has(refused.err, "gradus adopt production --holds nothing")) << refused.err;
    EXPECT_EQ(bytesOf(scratch / "outside/digest"), before);
    const Ended vouched = gradus({"adopt", "production", "--holds", "p2"});
    EXPECT_EQ(vouched.exit, 0) << vouched.out << vouched.err;
    expectOpen();
}

TEST_P(DoubtedStep, AStatusThatCannotTellDoesNotVouchForItEither) {
    doubt(true);
    EXPECT_EQ(gradus({"adopt", "production", "--holds", "p4"}).exit, 4) << "status prints another";
    outside("deploy", "#!/bin/sh\nexit 1\n");
    const Ended unknown = gradus({"adopt", "production", "--holds", "p4"});
    EXPECT_EQ(unknown.exit, 4) << unknown.out << unknown.err;
    EXPECT_TRUE(has(unknown.err, "`apply` never ran for")) << unknown.err;
}

TEST_P(DoubtedStep, RecoverSaysTheWholeCommandAndWhatComesAfterIt) {
    doubt(false);
    const Ended told = gradus({"recover"});
    EXPECT_EQ(told.exit, 0) << told.out << told.err;
    EXPECT_TRUE(has(told.out, "production is stuck")) << told.out;
    EXPECT_TRUE(has(told.out, "gradus rollback p4 --not-done migrate")) << told.out;
    EXPECT_TRUE(has(told.out, "gradus rollback p4 --done migrate")) << told.out;
    const Json json = gradusJson({"recover"});
    EXPECT_EQ(json["data"]["stuck"][0]["promotion"], "p4") << json.dump(2);
    const Json freed = gradusJson({"rollback", "p4", "--not-done", "migrate"});
    ASSERT_EQ(freed["ok"], true) << freed.dump(2);
    EXPECT_EQ(freed["next"].back(), "gradus retry p4") << freed.dump(2);
    const Ended again = gradus({"retry", "p4"});
    EXPECT_EQ(again.exit, 0) << again.out << again.err;
    expectWhole();
}

TEST_P(WayOut, TakingBackIsPossibleOnAFullStateDirectory) {
    const auto small = disk(state, "64m");
    if (!small) GTEST_SKIP() << "mounting a small disk needs root";
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    shell(fillsState() + "true");
    const Ended back = gradus({"rollback", "production"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_FALSE(fs::exists(production / "current"));
    shell("rm '" + (state / "filler").native() + "'*");
    expectWhole();
}

TEST_P(WayOut, TakingBackIsPossibleOnAFullTarget) {
    const auto small = disk(scratch / "small", "16m");
    if (!small) GTEST_SKIP() << "mounting a small disk needs root";
    production = scratch / "small/production";
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    ASSERT_EQ(gradus({"promote", changed("echo v3 > app.txt")}).exit, 0);
    shell(fmt::format("cat /dev/zero > '{}' 2>/dev/null; true", (scratch / "small/filler").native()));
    const Ended back = gradus({"rollback", "production"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
    expectWhole();
}

// What is not lost and cannot be done now is refused as it is of the rehearsal: the stage stays as it is, and open.
TEST_P(WayOut, ADryRunOfGoingBackIsRefusedAsTheRealOneIs) {
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const fs::path ours = fs::read_symlink(production / "current");
    fs::remove(production / "current");
    fs::create_symlink("elsewhere", production / "current");
    for (const bool onlyTry : {true, false}) {
        const Ended refused = onlyTry ? gradus({"rollback", "production", "--dry-run", "--json"})
                                      : gradus({"rollback", "production", "--json"});
        EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
        EXPECT_TRUE(has(message(refused), "nothing was touched")) << refused.out;
        EXPECT_TRUE(has(message(refused), "switched it to 'elsewhere'")) << refused.out;
        EXPECT_TRUE(has(hint(refused), "gradus adopt production")) << refused.out;
    }
    fs::remove(production / "current");
    fs::create_symlink(ours, production / "current");
    EXPECT_EQ(gradus({"rollback", "production"}).exit, 0);
    EXPECT_FALSE(fs::exists(production / "current"));
    expectWhole();
}

TEST_P(WayOut, AFullStateDirectoryIsWhatIsSaidOfWhatStaysHalfWay) {
    const auto small = disk(state, "64m");
    if (!small) GTEST_SKIP() << "mounting a small disk needs root";
    // Not even what is kept for going back, once.
    outside("activate", "#!/bin/sh\ntest ! -e '" + (scratch / "outside/once").native() + "' || exit 0\n" +
                            fillsState() +
                            fmt::format("rm -f '{}'; dd if=/dev/zero of='{}3' bs=4k 2>/dev/null; true\n",
                                        (state / "ballast").native(), (state / "filler").native()));
    rules("\"local\", \"production\"",
          release(fmt::format("activate = [\"sh\", \"{}\"]\n", (scratch / "outside/activate").native())));
    EXPECT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 6);
    ASSERT_EQ(stateOf("p2"), "applying");
    const Ended full = gradus({"rollback", "production", "--json"});
    EXPECT_EQ(full.exit, 6) << full.out << full.err;
    EXPECT_TRUE(has(message(full), "no space left for " + (state / "state.db").native())) << full.out;
    EXPECT_TRUE(has(message(full), "bytes free of 67108864")) << full.out;
    EXPECT_TRUE(has(hint(full), "gradus gc")) << full.out;
    EXPECT_TRUE(has(hint(full), "gradus recover")) << full.out;
    shell("rm '" + (state / "filler").native() + "'*");
    EXPECT_EQ(gradus({"rollback", "production"}).exit, 0);
    EXPECT_FALSE(fs::exists(production / "current"));
    expectWhole();
}

TEST_P(WayOut, WhatIsNotInTheCommitIsNamed) {
    rules("\"local\"", "[stage.local]\ncommit = true\n");
    const std::string change = changed("echo 1 > one.txt; echo 2 > two.txt");
    edit("one.txt", "1\n");
    edit("lib/util.txt", "of mine\n");
    const Ended ended = gradus({"promote", change});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "note: not in its commit: one.txt, which the work tree had before it came"))
        << ended.out;
    EXPECT_EQ(shell("git show --format= --name-only HEAD").out, "two.txt\n");
    EXPECT_EQ(shell("git status --short").out, " M lib/util.txt\n?? one.txt\n");
}

TEST_P(WayOut, NobodySaysWhatAStageHoldsWhileSomethingIsHalfWayIn) {
    rules("\"local\", \"production\"", release("checks = [\"after\"]\n") + afterCheck("sleep 60"));
    const auto running = startCommand({GRADUS_PROGRAM, "promote", changed("echo v2 > app.txt")});
    awaitState("p2", "verifying");
    running->stop(SIGKILL);
    const Ended refused = gradus({"adopt", "production"});
    EXPECT_EQ(refused.exit, 7) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "in production")) << refused.err;
    EXPECT_TRUE(has(refused.err, "gradus recover")) << refused.err;
}

TEST_P(WayOut, WhatIsHalfWayInIsWhatAStageIsRolledBackFrom) {
    outside("slow", "");
    const std::string slow = (scratch / "outside/slow").native();
    fs::remove(slow);
    rules("\"local\", \"production\"",
          release(fmt::format("activate = [\"sh\", \"-c\", \"while test -e '{}'; do sleep 0.1; done\"]\n", slow)));
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::string next = changed("echo v3 > app.txt");
    outside("slow", "");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", next});
    awaitState("p4", "applying");
    for (int i = 0; i < 200 && bytesOf(production / "current/app.txt") != "v3\n"; ++i) ::usleep(20'000);
    running->stop(SIGKILL);
    fs::remove(slow);
    const Ended back = gradus({"rollback", "production"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_TRUE(has(back.out, "p4 (c2) was half-way in, and is taken back out of production")) << back.out;
    EXPECT_EQ(stateOf("p4"), "rolled-back");
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n") << "the one before it stays";
    expectWhole();
}

TEST_P(WayOut, WhatWasAskedAgainIsTakenOutAsOne) {
    rules("\"local\", \"production\"", release());
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 0);
    ASSERT_EQ(gradus({"promote", change, "--recheck"}).exit, 0);
    const Json dry = gradusJson({"rollback", "production", "--dry-run"});
    EXPECT_EQ(dry["data"]["taken_out"], Json({"p4", "p2"})) << dry.dump(2);
    const Ended back = gradus({"rollback", "production", "--json"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_EQ(back.json()["data"]["taken_out"], Json({"p4", "p2"})) << back.out;
    EXPECT_FALSE(fs::exists(production / "current")) << back.out;
    const Ended undone = gradus({"undo"});
    EXPECT_EQ(undone.exit, 0) << undone.out << undone.err;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
    expectWhole();
}

TEST_P(WayOut, TheMonitorTakesWhatWasAskedAgainOutAsOne) {
    outside("well", "");
    const fs::path well = scratch / "outside/well";
    rules("\"local\", \"production\"", release("checks = [\"after\"]\nmonitor = \"24h\"\n") +
                                           afterCheck("test -e '" + well.native() + "'") + "interval = \"1s\"\n");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 0);
    ASSERT_EQ(gradus({"promote", change, "--recheck"}).exit, 0);
    fs::remove(well);
    const Ended looked = gradus({"monitor", "production", "--for", "10s", "--json"});
    EXPECT_EQ(looked.exit, 5) << looked.out << looked.err;
    EXPECT_EQ(looked.json()["data"]["taken_back"][0]["taken_out"], Json({"p4", "p2"})) << looked.out;
    EXPECT_FALSE(fs::exists(production / "current")) << looked.out;
    expectWhole();
}

TEST_P(WayOut, AHoldThatEndsSoonerTakesNoPersonsPlace) {
    rules("\"local\"", "");
    ASSERT_EQ(gradus({"hold", "local"}).exit, 0);
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const Ended refused = gradus({"hold", "local", "--for", "1s"});
    EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "held already, by person:")) << refused.err;
    variables.erase("GRADUS_ACTOR");
    EXPECT_EQ(gradus({"hold", "local", "--for", "1h"}).exit, 0) << "a person may";
}

TEST_P(WayOut, WhereOneCanLookNobodyVouches) {
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    EXPECT_EQ(gradus({"adopt", "production", "--holds", "nothing"}).exit, 2);
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
}

}  // namespace
}  // namespace gradus
