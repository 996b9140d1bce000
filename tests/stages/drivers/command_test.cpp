// Commands of the user's own.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "store/model/error.h"
#include "tests/stages/drivers/driver_rig.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
using Observed = StageDriver::Observed;

HostOutcome failing(int code) {
    HostOutcome outcome;
    outcome.exitCode = code;
    return outcome;
}

class CommandStage : public testing::Test {
  protected:
    CommandStage() : rig_("command") {
        build(rig_.project(), tree_);
        for (const char* action : {"apply", "rollback", "status", "health"}) rig_.setList(action, {"deploy", action});
        rig_.onActivate = [this](const HostCommand& command) {
            const std::string action = told(command, "GRADUS_ACTION");
            return broken_.contains(action) ? failing(broken_[action]) : deploy(rig_.base(), command);
        };
    }

    void fill() {
        StageChange first = changeTo(rig_, tree_, tree_);
        first.promotion = 1;
        first.seed = rig_.project();
        ASSERT_TRUE(rig_.driver()->apply(rig_.driver()->checkpoint(first)).applied);
        rig_.activations.clear();
    }
    StageChange change() { return changeTo(rig_, tree_, next_); }
    Tree target() const { return fs::exists(rig_.target()) ? plain(readTree(rig_.target())) : Tree(); }
    std::string actions() const {
        std::string text;
        for (const HostCommand& command : rig_.activations) text += told(command, "GRADUS_ACTION") + " ";
        return text;
    }

    Tree tree_ = {{"a", file("one\n")}, {"b", file("two\n", 0755)}};
    Tree next_ = {{"a", file("uno\n")}, {"c", file("three\n")}};
    std::map<std::string, int> broken_;
    DriverRig rig_;
};

TEST_F(CommandStage, TellsTheCommandsWhatTheyNeedForwardAndBack) {
    fill();
    const Digest before = rig_.driver()->held()->digest;
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(difference(target(), next_), "");
    EXPECT_EQ(actions(), "status apply status health ");
    const HostCommand forward = rig_.activations[1];
    EXPECT_EQ(forward.arguments, (std::vector<std::string>{"deploy", "apply"}));
    EXPECT_EQ(forward.directory, fs::canonical(rig_.project()));
    EXPECT_EQ(told(forward, "GRADUS_STAGE") + told(forward, "GRADUS_CHANGE") + told(forward, "GRADUS_PROMOTION"),
              "stagingc12.1p7");
    EXPECT_EQ(told(forward, "GRADUS_PREVIOUS_DIGEST"), before.hex());
    EXPECT_EQ(told(forward, "GRADUS_TREE_DIGEST"), rig_.driver()->held()->digest.hex());
    EXPECT_EQ(told(forward, "GRADUS_HOME"), "") << "a variable of whoever promotes is not one of the stage's";
    EXPECT_EQ(told(forward, "PATH"), "/usr/bin:/bin");
    rig_.activations.clear();
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(actions(), "status rollback status health ");
    EXPECT_EQ(told(rig_.activations[1], "GRADUS_TREE"), told(forward, "GRADUS_PREVIOUS"));
    EXPECT_EQ(told(rig_.activations[1], "GRADUS_PREVIOUS_DIGEST"), told(forward, "GRADUS_TREE_DIGEST"));
    EXPECT_EQ(difference(target(), tree_), "");
}

TEST_F(CommandStage, TheRequestSaysAllOfItWhateverTheTitleHolds) {
    fill();
    StageChange one = change();
    one.title = "'; rm -rf / #\n$(reboot) \xff \"";
    nlohmann::json request;
    rig_.onActivate = [&](const HostCommand& command) {
        if (told(command, "GRADUS_ACTION") == "apply")
            request = nlohmann::json::parse(read(told(command, "GRADUS_REQUEST")));
        for (const std::string& entry : command.environment) EXPECT_EQ(entry.find("reboot"), std::string::npos);
        for (const std::string& word : command.arguments) EXPECT_EQ(word.find("reboot"), std::string::npos);
        return deploy(rig_.base(), command);
    };
    EXPECT_TRUE(rig_.driver()->apply(rig_.driver()->checkpoint(one)).applied);
    EXPECT_EQ(request["title"], "'; rm -rf / #\n$(reboot) \xef\xbf\xbd \"");
    EXPECT_EQ(request["change"], "c12.1");
    EXPECT_EQ(request["is_rollback"], false);
    EXPECT_EQ(request["trailers"]["Gradus-Change"], "c12.1");
    EXPECT_EQ(request["changes"].size(), 3U);
    EXPECT_EQ(request["changes"][1]["kind"], "deleted");
    EXPECT_EQ(request["tree_digest"], rig_.driver()->held()->digest.hex());
}

// With the real runner: each word is an argument, whatever a shell would make of it.
TEST_F(CommandStage, NoShellReadsTheWords) {
    const fs::path script = rig_.base() / "state" / "print";
    const fs::path printed = rig_.base() / "state" / "printed";
    std::ofstream(script) << "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$GRADUS_TREE\" > '" << printed.native() << "'\n";
    fs::permissions(script, fs::perms::owner_all);
    rig_.setList("apply", {script.native(), "$HOME; touch x", "a b", "`id`", "*"});
    rig_.setList("status", {});
    rig_.setList("health", {});
    rig_.onActivate = [](const HostCommand& command) { return runOnHost(command); };
    StageChange first = change();
    first.seed = rig_.project();
    const ApplyOutcome outcome = rig_.driver()->apply(rig_.driver()->checkpoint(first));
    EXPECT_TRUE(outcome.applied) << outcome.failure;
    EXPECT_EQ(read(printed), "$HOME; touch x\na b\n`id`\n*\n" + rig_.driver()->held()->directory.native() + "\n");
}

TEST_F(CommandStage, AnApplyThatSaysNoIsTakenBack) {
    fill();
    broken_["apply"] = 3;
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    const ApplyOutcome outcome = rig_.driver()->apply(checkpoint);
    EXPECT_FALSE(outcome.applied);
    EXPECT_EQ(outcome.failure, "apply: exit code 3");
    EXPECT_NE(actions().find("rollback"), std::string::npos);
    EXPECT_EQ(difference(target(), tree_), "");
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kBefore);
    EXPECT_EQ(difference(plain(readTree(rig_.driver()->held()->directory)), tree_), "");
}

TEST_F(CommandStage, AFailedHealthIsTakenBackAndAskedAgain) {
    fill();
    int asked = 0;
    rig_.onActivate = [&](const HostCommand& command) {
        if (told(command, "GRADUS_ACTION") == "health" && ++asked == 1) return failing(1);
        return deploy(rig_.base(), command);
    };
    const ApplyOutcome outcome = rig_.driver()->apply(rig_.driver()->checkpoint(change()));
    EXPECT_FALSE(outcome.applied);
    EXPECT_EQ(outcome.failure, "health: exit code 1");
    EXPECT_EQ(asked, 2);
    EXPECT_TRUE(outcome.notes.empty());
    EXPECT_EQ(difference(target(), tree_), "");
}

TEST_F(CommandStage, AnApplyThatTakesTooLongIsTakenBack) {
    fill();
    rig_.setNumber("timeout", 200);
    rig_.onActivate = [&](const HostCommand& command) {
        if (told(command, "GRADUS_ACTION") != "apply") return deploy(rig_.base(), command);
        HostCommand slow = command;
        slow.arguments = {"sleep", "60"};
        slow.grace = Milliseconds(100);
        return runOnHost(slow);
    };
    const ApplyOutcome outcome = rig_.driver()->apply(rig_.driver()->checkpoint(change()));
    EXPECT_FALSE(outcome.applied);
    EXPECT_NE(outcome.failure.find("timed out"), std::string::npos) << outcome.failure;
    EXPECT_EQ(difference(target(), tree_), "");
}

TEST_F(CommandStage, ARollbackThatSaysNoIsAProblemAndMayBeTriedAgain) {
    fill();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    broken_["rollback"] = 9;
    const RollbackOutcome stuck = rig_.driver()->rollback(checkpoint);
    EXPECT_FALSE(stuck.complete);
    EXPECT_EQ(stuck.problems, std::vector<std::string>{"going back: rollback: exit code 9"});
    broken_.clear();
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(difference(target(), tree_), "");
}

TEST_F(CommandStage, AHealthThatSaysNoAfterGoingBackIsAProblem) {
    fill();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    broken_["health"] = 1;
    EXPECT_EQ(rig_.driver()->rollback(checkpoint).problems,
              std::vector<std::string>{"going back: health: exit code 1"});
}

TEST_F(CommandStage, AnApplyThatDoesNothingIsNotBelieved) {
    fill();
    rig_.onActivate = [&](const HostCommand& command) {
        return told(command, "GRADUS_ACTION") == "apply" ? failing(0) : deploy(rig_.base(), command);
    };
    const ApplyOutcome outcome = rig_.driver()->apply(rig_.driver()->checkpoint(change()));
    EXPECT_FALSE(outcome.applied);
    EXPECT_TRUE(outcome.failure.starts_with("status: ")) << outcome.failure;
}

TEST_F(CommandStage, AStatusThatCannotTellHasNotSeenItArrive) {
    fill();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    broken_["status"] = 9;
    const ApplyOutcome outcome = rig_.driver()->apply(checkpoint);
    EXPECT_FALSE(outcome.applied);
    EXPECT_EQ(outcome.failure, "status: it cannot tell: exit code 9");
    EXPECT_EQ(rig_.driver()->rollback(checkpoint).problems,
              std::vector<std::string>{"going back: status: it cannot tell: exit code 9"});
    broken_.clear();
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(difference(target(), tree_), "");
}

TEST_F(CommandStage, WhatSomebodyElseBroughtThereIsNoticedAndKept) {
    fill();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    std::ofstream(rig_.base() / "state" / "deployed") << "by hand\n";
    EXPECT_EQ(rig_.driver()->conflicts(changeTo(rig_, next_, tree_)).size(), 1U);
    EXPECT_THROW(rig_.driver()->checkpoint(changeTo(rig_, next_, tree_)), Error);
    rig_.activations.clear();
    const RollbackOutcome back = rig_.driver()->rollback(checkpoint);
    EXPECT_FALSE(back.complete);
    EXPECT_EQ(back.kept.size(), 1U);
    EXPECT_EQ(actions(), "status ");
    EXPECT_EQ(difference(target(), next_), "");
}

TEST_F(CommandStage, WhatWasNeverBroughtIsThereOnlyIfStatusSaysSo) {
    fill();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    const Digest prepared = *rig_.driver()->treeAfter(checkpoint);
    broken_["status"] = 9;
    try {
        rig_.driver()->vouchedFor(prepared, StageDriver::Adopting::kTake);
        ADD_FAILURE() << "nothing of it can be there";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kNotAllowed);
        EXPECT_NE(std::string(e.what()).find("`apply` never ran for"), std::string::npos) << e.what();
    }
    broken_.clear();
    std::ofstream(rig_.base() / "state" / "deployed") << prepared.hex();
    EXPECT_EQ(rig_.driver()->vouchedFor(prepared, StageDriver::Adopting::kTake)->digest, prepared);
}

TEST_F(CommandStage, WhatWasBroughtOnceMayBeVouchedForAgain) {
    fill();
    const Digest first = rig_.driver()->held()->digest;
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    const Digest second = *rig_.driver()->treeAfter(checkpoint);
    broken_ = {{"apply", 1}, {"rollback", 1}, {"status", 9}};
    EXPECT_FALSE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(rig_.driver()->vouchedFor(first, StageDriver::Adopting::kTake)->digest, first);
    EXPECT_EQ(rig_.driver()->vouchedFor(second, StageDriver::Adopting::kTake)->digest, second)
        << "whoever looked again knows better";
}

/// The process ends in the middle of a command: something is there, and nobody wrote down how far it came.
class CommandStageKilled : public CommandStage {
  protected:
    Observed afterDeathIn(bool isDone) {
        const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
        EXPECT_EQ(inChild([&] {
                      rig_.onActivate = [&](const HostCommand& command) -> HostOutcome {
                          if (told(command, "GRADUS_ACTION") != "apply") return deploy(rig_.base(), command);
                          if (isDone) deploy(rig_.base(), command);
                          if (!isDone) std::ofstream(rig_.target() / "half") << "written\n";
                          if (!isDone) fs::remove(rig_.base() / "state" / "deployed");
                          dieNow();
                      };
                      rig_.driver()->apply(checkpoint);
                  }),
                  SIGKILL);
        const Observed seen = rig_.driver()->observe(checkpoint);
        if (seen == Observed::kAfter) {
            rig_.activations.clear();
            EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
            EXPECT_EQ(actions().find("apply"), std::string::npos) << "what is there is not brought again";
            EXPECT_EQ(difference(plain(readTree(rig_.driver()->held()->directory)), next_), "");
        }
        EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
        EXPECT_EQ(difference(target(), tree_), "");
        return seen;
    }
};

TEST_F(CommandStageKilled, StatusTellsHowFarItCame) {
    fill();
    EXPECT_EQ(afterDeathIn(true), Observed::kAfter);
    EXPECT_EQ(afterDeathIn(false), Observed::kBetween);
}

TEST_F(CommandStageKilled, WithoutStatusItCannotBeToldAndGoesBack) {
    rig_.setList("status", {});
    fill();
    EXPECT_EQ(afterDeathIn(true), Observed::kBetween);
    EXPECT_EQ(afterDeathIn(false), Observed::kBetween);
}

TEST_F(CommandStage, GoingBackToNothingGivesNoTree) {
    StageChange first = change();
    first.seed = rig_.project();
    EXPECT_FALSE(rig_.driver()->held());
    const Checkpoint checkpoint = rig_.driver()->checkpoint(first);
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(difference(target(), next_), "");
    rig_.activations.clear();
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(actions(), "status rollback status ");
    EXPECT_EQ(told(rig_.activations[1], "GRADUS_TREE"), "");
    EXPECT_FALSE(rig_.driver()->held());
    EXPECT_TRUE(target().empty());
}

TEST_F(CommandStage, EachStageOfAProjectIsATargetOfItsOwn) {
    const TargetIdentity first = rig_.driver()->identity();
    rig_.stage().name = "production";
    EXPECT_NE(rig_.driver()->identity().canonical, first.canonical);
    EXPECT_NE(rig_.driver()->identity().marker, first.marker);
    EXPECT_THROW(rig_.driver()->adopt(StageDriver::Adopting::kTake), Error);
}

TEST_F(CommandStage, WhatSomebodyElseBroughtIsSaidBeforeGoingBack) {
    fill();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_FALSE(rig_.driver()->foreignTree());
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint));
    const auto deployed = rig_.onActivate;
    for (const std::string said : {"other", ""}) {
        rig_.onActivate = [&](const HostCommand&) {
            HostOutcome outcome = failing(0);
            outcome.out.head = said;
            return outcome;
        };
        EXPECT_TRUE(rig_.driver()->foreignTree()) << said;
        const auto found = rig_.driver()->obstruction(checkpoint);
        ASSERT_TRUE(found) << said;
        EXPECT_NE(found->reason.find("somebody else has brought '" + said + "' there since"), std::string::npos)
            << found->reason;
    }
    rig_.onActivate = deployed;
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
}

}  // namespace
}  // namespace gradus::test
