#include "pipeline/service/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "store/word_writer.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someDigest;
using test::someSubmission;
using S = PromotionState;

class TimelineTest : public testing::Test {
  protected:
    TimelineTest() {
        store_.write([&](Writer& w) {
            ben_ = w.actor({ActorKind::kPerson, "ben"});
            w.submit(climb_.project, climb_.actor, someSubmission("Fix the login"));
        });
    }
    std::vector<TimelineEntry> told() {
        return tellStory(store_.records(),
                         queryEvents(store_.sql(), {.limit = std::numeric_limits<std::int64_t>::max()}));
    }
    std::vector<std::string> texts() {
        std::vector<std::string> all;
        for (const TimelineEntry& entry : told()) all.push_back(entry.text);
        return all;
    }
    /// The sentences since the last call.
    std::vector<std::string> news() {
        std::vector<std::string> all = texts();
        std::vector<std::string> fresh(all.begin() + static_cast<std::ptrdiff_t>(seen_), all.end());
        seen_ = all.size();
        return fresh;
    }
    std::int64_t open(Writer& w, const std::string& stage = "production") {
        return w.openPromotion({climb_.project, 1, 1, stage, someDigest("rules"), std::nullopt}, climb_.actor);
    }
    void words(const std::function<void(WordWriter&)>& say) {
        store_.write([&](Writer& w) {
            WordWriter speaker(w, ben_, 1000);
            say(speaker);
        });
    }
    using Texts = std::vector<std::string>;

    SampleStore sample_;
    Store store_ = sample_.open();
    Climb climb_ = Climb::begin(store_);
    ActorId ben_ = 0;
    std::size_t seen_ = 0;
};

TEST_F(TimelineTest, ACommitIsToldOnceAndStepsThatOnlyLeadOnAreNot) {
    news();
    store_.write([&](Writer& w) { climb_.stage(w, 1, "staging", S::kPromoted); });
    EXPECT_EQ(news(), (Texts{"c1.1 is to enter staging", "unit passed in 1.2 s", "c1.1 entered staging"}));
    const auto all = told();
    const auto& last = all.back();
    EXPECT_TRUE(last.continues);
    EXPECT_EQ(last.tone, Tone::kGood);
    EXPECT_FALSE(all[all.size() - 3].continues);
    EXPECT_EQ(all[all.size() - 3].about, "p1");
    EXPECT_EQ(all[all.size() - 3].by, "agent:fixer");
}

TEST_F(TimelineTest, WhatWentWrongIsToldWithItsReason) {
    news();
    std::int64_t id = 0;
    store_.write([&](Writer& w) {
        id = open(w);
        w.movePromotion({.promotion = id, .from = S::kQueued, .to = S::kWaiting}, climb_.actor);
        w.movePromotion({.promotion = id, .from = S::kWaiting, .to = S::kChecking}, climb_.actor);
    });
    EXPECT_EQ(news(), (Texts{"c1.1 is to enter production", "its checks run"}));
    store_.write([&](Writer& w) {
        w.movePromotion({.promotion = id, .from = S::kChecking, .to = S::kApplying, .cause = Cause::kPassed},
                        climb_.actor);
    });
    store_.write([&](Writer& w) {
        w.movePromotion({.promotion = id, .from = S::kApplying, .to = S::kVerifying}, climb_.actor);
    });
    EXPECT_EQ(news(), (Texts{"the checks passed, it is being applied", "it is applied, and looked at"}));
    store_.write([&](Writer& w) {
        CheckResult health{id, "health", Cause::kFailed, someDigest("e"), std::nullopt, 15, std::nullopt};
        health.phase = CheckPhase::kAfter;
        health.reason = "503";
        w.recordCheck(health, climb_.actor);
        w.movePromotion({.promotion = id,
                         .from = S::kVerifying,
                         .to = S::kRollingBack,
                         .cause = Cause::kFailed,
                         .reason = "health: 503"},
                        climb_.actor);
        w.movePromotion({.promotion = id, .from = S::kRollingBack, .to = S::kRolledBack}, climb_.actor);
        WordWriter(w, climb_.actor, 0)
            .hold({.project = climb_.project,
                   .stage = "production",
                   .change = 1,
                   .promotion = id,
                   .reason = "it failed"});
    });
    EXPECT_EQ(news(), (Texts{"health, asked of production itself, failed in 15 ms: 503",
                             "it is being taken back (failed): health: 503",
                             "it was rolled back: the stage is as it was before",
                             "c1 in production is held for machines from here on: it failed"}));
}

TEST_F(TimelineTest, WhatWasKeptIsCountedAndSaidToBeSomebodyElses) {
    for (const auto& row :
         {std::pair{0, ""},
          std::pair{1, ", but for 1 path: edited there after it came, not by gradus, and kept as it is"},
          std::pair{2, ", but for 2 paths: edited there after it came, not by gradus, and kept as they are"}}) {
        store_.write([&](Writer& w) {
            const std::int64_t id = open(w);
            S from = S::kQueued;
            for (const S to : {S::kWaiting, S::kChecking, S::kApplying, S::kRollingBack})
                w.movePromotion({.promotion = id, .from = std::exchange(from, to), .to = to}, climb_.actor);
            w.movePromotion({.promotion = id,
                             .from = S::kRollingBack,
                             .to = S::kRolledBack,
                             .reason = "kept: app.txt",
                             .attention = true,
                             .kept = row.first},
                            climb_.actor);
        });
        EXPECT_EQ(news().back(),
                  fmt::format("it was rolled back: the stage is as it was before{}: kept: app.txt", row.second));
    }
}

TEST_F(TimelineTest, WordsAreSentencesWithWhoSaidThem) {
    news();
    std::int64_t id = 0;
    store_.write([&](Writer& w) {
        id = open(w);
        w.movePromotion({.promotion = id, .from = S::kQueued, .to = S::kWaiting, .reason = "it needs a yes"},
                        climb_.actor);
    });
    std::int64_t approval = 0;
    words([&](WordWriter& say) {
        approval = say.approve({.project = climb_.project,
                                .change = 1,
                                .stage = "production",
                                .rules = someDigest("r"),
                                .base = someDigest("b"),
                                .roles = {"sre"},
                                .reason = "looks right"});
    });
    EXPECT_EQ(told().back().by, "person:ben");
    words([&](WordWriter& say) {
        Approval used;
        used.id = approval;
        used.project = climb_.project;
        used.change = 1;
        used.stage = "production";
        say.use(used, id);
    });
    words([&](WordWriter& say) { say.overrideGate({.promotion = id, .gate = "window", .reason = "urgent"}); });
    words([&](WordWriter& say) { say.hold({.project = climb_.project, .stage = "production", .reason = "an audit"}); });
    words([&](WordWriter& say) { say.release(climb_.project, std::nullopt, "production"); });
    words([&](WordWriter& say) { say.pin({.project = climb_.project, .stage = "production", .change = 1}); });
    words([&](WordWriter& say) {
        say.veto({.project = climb_.project, .change = 1, .changeSet = someDigest("s"), .patch = someDigest("p")});
    });
    words([&](WordWriter& say) { say.halt(std::nullopt, "a fire"); });
    words([&](WordWriter& say) { say.resume(std::nullopt); });
    EXPECT_EQ(news(),
              (Texts{"c1.1 is to enter production", "it waits: it needs a yes",
                     "approved c1.1 for production as sre: looks right", "it goes ahead on the approval of person:ben",
                     "overrode the gate 'window': urgent", "held production: an audit", "released production",
                     "pinned production to c1", "vetoed c1", "halted everything: a fire", "let everything go on"}));
}

TEST_F(TimelineTest, WhatWasTakenAwayIsSaidToBeGone) {
    words([&](WordWriter& say) { say.halt(climb_.project, "a secret"); });
    const std::int64_t halt = store_.records().counts().events;
    store_.write([&](Writer& w) { w.redact(halt, ben_); });
    const auto all = told();
    EXPECT_EQ(all[all.size() - 2].text, "halted this project: [redacted]");
    EXPECT_TRUE(all[all.size() - 2].redacted);
    EXPECT_EQ(all.back().text, fmt::format("took the text of event {} away", halt));
    store_.write([&](Writer& w) { w.redact(5, ben_); });
    EXPECT_EQ(texts()[2], "submitted c1: [redacted]");
}

TEST_F(TimelineTest, ANameThatIsGoneIsNoName) {
    const auto registered = queryEvents(store_.sql(), {.kind = EventKind::kActorRegistered, .limit = 9});
    store_.write([&](Writer& w) { w.redact(registered.front().seq, ben_); });
    const auto all = told();
    const auto submitted =
        std::ranges::find(all, EventKind::kChangeSubmitted, [](const TimelineEntry& entry) { return entry.kind; });
    ASSERT_NE(submitted, all.end());
    EXPECT_EQ(submitted->by, "[redacted]");
}

TEST_F(TimelineTest, AClockThatWentBackIsALine) {
    sample_.clock.advance(std::chrono::hours(-3));
    news();
    store_.write([&](Writer& w) { w.submit(climb_.project, climb_.actor, someSubmission("later")); });
    EXPECT_EQ(news(), (Texts{"the clock went back by 3h: times before this line are later than those after it",
                             "submitted c2: later"}));
}

}  // namespace
}  // namespace gradus
