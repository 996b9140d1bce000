// What stopped half-way in a target, for whichever project, is finished or undone before anything else comes in.
#include <gtest/gtest.h>

#include "store/model/error.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/stages/changes/tree_rig.h"

namespace gradus::test {
namespace {

using S = PromotionState;

class HalfWay : public testing::Test {
  protected:
    void SetUp() override { build(rig_.project(), sampleBefore()); }

    /// A promotion of another project that got that far, as the marker of this one's work tree names it.
    void marked(const std::vector<PromotionState>& path) {
        std::int64_t promotion = 0;
        rig_.store().write([&](Writer& w) {
            const ActorId ada = w.actor(kAda);
            const std::int64_t other = w.project({"/srv/original", 1, 2}, ada);
            const Submission submission{sha256("set"), sha256("base"), sha256("patch"), "theirs", {}, std::nullopt};
            const std::int64_t change = w.submit(other, ada, submission);
            promotion = w.openPromotion({other, change, 1, "local", sha256("rules"), std::nullopt}, ada);
            PromotionState from = PromotionState::kQueued;
            for (const PromotionState to : path)
                w.movePromotion({promotion, std::exchange(from, to), to, Cause::kPassed}, ada);
        });
        rig_.lockTarget("local", promotion);
    }
    std::string refusal() {
        const std::int64_t change = rig_.submit(sampleAfter());
        try {
            const Climb climb = rig_.promote(change, "local");
            return climb.succeeded() ? "" : climb.stages.back().reason;
        } catch (const Error& error) {
            return std::string(error.what()) + " -- " + error.hint();
        }
    }

    EngineRig rig_;
};

TEST_F(HalfWay, AnotherProjectsPromotionKeepsOthersOut) {
    marked({S::kWaiting, S::kChecking, S::kApplying});
    const Tree before = rig_.projectTree();
    const std::string said = refusal();
    EXPECT_NE(said.find("stopped half-way"), std::string::npos) << said;
    EXPECT_NE(said.find("/srv/original"), std::string::npos) << said;
    EXPECT_EQ(difference(rig_.projectTree(), before), "");
}

TEST_F(HalfWay, WhatCameToItsEndKeepsNobodyOut) {
    marked({S::kWaiting, S::kChecking, S::kApplying, S::kVerifying});
    EXPECT_EQ(refusal(), "");
}

}  // namespace
}  // namespace gradus::test
