#include "store/past_state.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "store/model/error.h"
#include "store/word_writer.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someDigest;
using test::someSubmission;

/// What is asked of a state, now and later.
struct Picture {
    std::vector<std::int64_t> unfinished;
    std::vector<PromotionState> states;
    std::vector<std::string> titles;
    std::optional<Digest> rules;
    std::size_t holds = 0;
    bool operator==(const Picture&) const = default;
};

Picture pictureOf(const Records& records, std::int64_t project) {
    Picture picture;
    for (const Promotion& promotion : records.unfinished(project)) picture.unfinished.push_back(promotion.id);
    for (const Promotion& promotion : records.promotionsIn(project, std::nullopt, 1000))
        picture.states.push_back(promotion.state);
    for (const Change& change : records.changes(project, 1000)) picture.titles.push_back(change.title.value_or("?"));
    if (const auto trusted = records.trustedRules(project)) picture.rules = trusted->rules;
    picture.holds = records.words().holds(project).size();
    return picture;
}

class PastStateTest : public testing::Test {
  protected:
    std::int64_t head() { return store_.records().counts().events; }
    void write(const std::function<void(Writer&)>& work) {
        store_.write(work);
        pictures_[head()] = pictureOf(store_.records(), climb_.project);
    }
    void history() {
        write([&](Writer& w) { w.trustRules(climb_.project, climb_.actor, someDigest("r1"), someDigest("f1")); });
        write([&](Writer& w) { w.submit(climb_.project, climb_.actor, someSubmission("one")); });
        write([&](Writer& w) {
            w.openPromotion({climb_.project, 1, 1, "staging", someDigest("r"), {}}, climb_.actor);
        });
        write([&](Writer& w) { climb_.whole(w, "two"); });
        write([&](Writer& w) {
            WordWriter(w, climb_.actor, 0).hold({.project = climb_.project, .stage = "staging", .reason = "an audit"});
        });
        write([&](Writer& w) { w.trustRules(climb_.project, climb_.actor, someDigest("r2"), someDigest("f2")); });
        write([&](Writer& w) { WordWriter(w, climb_.actor, 0).release(climb_.project, std::nullopt, "staging"); });
    }

    SampleStore sample_;
    Store store_ = sample_.open();
    Climb climb_ = Climb::begin(store_);
    std::map<std::int64_t, Picture> pictures_;
};

TEST_F(PastStateTest, IsWhatTheTablesSaidAfterEveryCommit) {
    history();
    for (const auto& [seq, picture] : pictures_) {
        PastState past(store_.sql());
        past.advance(seq);
        EXPECT_TRUE(pictureOf(past.records(), climb_.project) == picture) << "as of event " << seq;
    }
}

TEST_F(PastStateTest, GoesOnFromOneMomentToTheNext) {
    history();
    PastState past(store_.sql());
    for (const auto& [seq, picture] : pictures_) {
        past.advance(seq);
        EXPECT_TRUE(pictureOf(past.records(), climb_.project) == picture) << "as of event " << seq;
    }
    EXPECT_EQ(past.seq(), head());
}

TEST_F(PastStateTest, TouchesNothingOfTheRealTables) {
    history();
    const Picture before = pictureOf(store_.records(), climb_.project);
    PastState past(store_.sql());
    past.advance(5);
    EXPECT_TRUE(pictureOf(store_.records(), climb_.project) == before);
}

TEST_F(PastStateTest, TextsThatWereTakenAwaySinceAreGone) {
    write([&](Writer& w) { w.submit(climb_.project, climb_.actor, someSubmission("a secret")); });
    const std::int64_t submitted = head();
    write([&](Writer& w) { w.redact(submitted, climb_.actor); });
    PastState past(store_.sql());
    past.advance(submitted);
    ASSERT_TRUE(past.records().change(1));
    EXPECT_FALSE(past.records().change(1)->title);
}

TEST_F(PastStateTest, AnOverrideIsThereFromItsMomentOnWithWhatItIsAbout) {
    history();
    const std::int64_t before = head();
    write([&](Writer& w) {
        WordWriter(w, climb_.actor, 0)
            .overrideGate(
                {.promotion = 1, .gate = "window", .roles = {"override"}, .reason = "fire", .about = "these steps"});
    });
    PastState past(store_.sql());
    past.advance(before);
    EXPECT_TRUE(past.records().words().overrides(1).empty());
    past.advance(head());
    const auto words = past.records().words().overrides(1);
    ASSERT_EQ(words.size(), 1U);
    EXPECT_EQ(words.front().gate, "window");
    EXPECT_EQ(words.front().reason, "fire");
    EXPECT_EQ(words.front().about, "these steps");
}

TEST_F(PastStateTest, AnEventInTheMiddleOfACommitMeansAllOfIt) {
    const std::int64_t first = head() + 1;
    write([&](Writer& w) { climb_.whole(w, "one"); });
    const PastMoment moment = momentOf(store_.sql(), first + 3);
    EXPECT_EQ(moment.seq, head());
    EXPECT_TRUE(moment.isNewest);
    EXPECT_EQ(momentOf(store_.sql(), first - 1).seq, first - 1);
    EXPECT_FALSE(momentOf(store_.sql(), first - 1).isNewest);
}

TEST_F(PastStateTest, AMomentIsTheLastCommitThatWasRecordedByThen) {
    sample_.clock.advance(std::chrono::hours(1));
    write([&](Writer& w) { w.submit(climb_.project, climb_.actor, someSubmission("one")); });
    const std::int64_t one = head();
    const Time then = sample_.clock.now();
    sample_.clock.advance(std::chrono::hours(1));
    write([&](Writer& w) { w.submit(climb_.project, climb_.actor, someSubmission("two")); });
    EXPECT_EQ(momentAt(store_.sql(), then).seq, one);
    EXPECT_EQ(momentAt(store_.sql(), then + Milliseconds(1)).seq, one);
    EXPECT_EQ(momentAt(store_.sql(), then - Milliseconds(1)).seq, one - 1);
    EXPECT_EQ(momentAt(store_.sql(), sample_.clock.now() + std::chrono::hours(9)).seq, head());
    EXPECT_TRUE(momentAt(store_.sql(), then).otherwise.empty());
}

// 12:00 one, then the clock goes back to 10:00 two, 11:00 three: what was recorded is cut by number, never by time.
TEST_F(PastStateTest, AClockThatWentBackNeverLeavesAnythingOut) {
    sample_.clock.advance(std::chrono::hours(12));
    write([&](Writer& w) { w.submit(climb_.project, climb_.actor, someSubmission("one")); });
    const std::int64_t one = head();
    sample_.clock.advance(std::chrono::hours(-2));
    write([&](Writer& w) { w.submit(climb_.project, climb_.actor, someSubmission("two")); });
    const std::int64_t two = head();
    const Time atTwo = sample_.clock.now();
    sample_.clock.advance(std::chrono::hours(1));
    write([&](Writer& w) { w.submit(climb_.project, climb_.actor, someSubmission("three")); });

    const PastMoment moment = momentAt(store_.sql(), atTwo);
    EXPECT_EQ(moment.seq, two);
    ASSERT_EQ(moment.otherwise.size(), 1U);
    EXPECT_EQ(moment.otherwise.front(), one - 1) << "the clock showed ten for the first time then";
    PastState past(store_.sql());
    past.advance(moment.seq);
    EXPECT_TRUE(pictureOf(past.records(), climb_.project) == pictures_[two]);
    EXPECT_EQ(past.records().changes(climb_.project, 9).size(), 2U) << "one, which says twelve, is in it";
    EXPECT_TRUE(momentAt(store_.sql(), atTwo + std::chrono::hours(5)).otherwise.empty());
}

TEST_F(PastStateTest, RefusesMomentsThatAreNotInTheLog) {
    const auto code = [&](const std::function<void()>& ask) {
        try {
            ask();
        } catch (const Error& e) {
            EXPECT_NE(e.hint(), "");
            return std::optional(e.code());
        }
        return std::optional<ErrorCode>();
    };
    EXPECT_EQ(code([&] { momentOf(store_.sql(), head() + 1); }), ErrorCode::kNotFound);
    EXPECT_EQ(code([&] { momentOf(store_.sql(), 0); }), ErrorCode::kNotFound);
    EXPECT_EQ(code([&] { momentAt(store_.sql(), sample_.clock.now() - std::chrono::hours(99)); }),
              ErrorCode::kNotFound);
}

TEST_F(PastStateTest, NamesTheEventThatLeadsNowhere) {
    history();
    store_.sql().script(
        "drop trigger event_is_never_updated; update event set body = '{}' where kind = 'rules.trusted'");
    PastState past(store_.sql());
    try {
        past.advance(head());
        FAIL();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kDamaged);
        EXPECT_NE(std::string(e.what()).find("event 4 cannot be projected"), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace gradus
