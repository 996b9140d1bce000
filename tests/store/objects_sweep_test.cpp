#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/store/objects_rig.h"

namespace gradus {
namespace {

using ObjectsSweep = ObjectsTest;

TEST_F(ObjectsSweep, ASweepTakesWhatIsOldAndUnreferencedAndNothingElse) {
    const Digest referenced = objects_.put("referenced");
    const Digest forgotten = objects_.put("forgotten");
    clock_.advance(2h);
    const Digest young = objects_.put("young");
    const auto isReferenced = [&](const Digest& digest) { return digest == referenced; };
    const SweepReport report = objects_.sweep(isReferenced, clock_.now(), 1h);
    EXPECT_TRUE(objects_.contains(referenced));
    EXPECT_FALSE(objects_.contains(forgotten));
    EXPECT_TRUE(objects_.contains(young));
    EXPECT_EQ(report.referenced, 1u);
    EXPECT_EQ(report.young, 1u);
    EXPECT_EQ(report.removed, 1u);
    EXPECT_EQ(report.removedBytes, 96u + 9);
}

TEST_F(ObjectsSweep, AnObjectIsYoungForExactlyTheGrace) {
    const Digest digest = objects_.put("x");
    const Time put = clock_.now();
    EXPECT_EQ(objects_.sweep(kNothingIsReferenced, put + 60s, 60s).removed, 0u);
    EXPECT_EQ(objects_.sweep(kNothingIsReferenced, put - 1h, 60s).removed, 0u);
    EXPECT_TRUE(objects_.contains(digest));
    EXPECT_EQ(objects_.sweep(kNothingIsReferenced, put + 60s + 1ms, 60s).removed, 1u);
    EXPECT_FALSE(objects_.contains(digest));
}

TEST_F(ObjectsSweep, PuttingAgainOrRefreshingMakesAnObjectYoung) {
    const Digest again = objects_.put("put again");
    const Digest refreshed = objects_.put("refreshed");
    const Digest large = objects_.put(prose(15, 400'000));
    clock_.advance(2h);
    objects_.put("put again");
    EXPECT_TRUE(objects_.refresh(refreshed));
    Pieces source({prose(15, 400'000)});
    objects_.put(source);
    EXPECT_EQ(objects_.sweep(kNothingIsReferenced, clock_.now(), 1h).removed, 0u);
    EXPECT_TRUE(objects_.contains(again) && objects_.contains(refreshed) && objects_.contains(large));
}

TEST_F(ObjectsSweep, AFailingQuestionForReferencesRemovesNothingUnasked) {
    const Digest digest = objects_.put("x");
    const auto fail = [](const Digest&) -> bool { throw Error(ErrorCode::kInfrastructure, "no database"); };
    EXPECT_TRUE(mentions(errorOf([&] { objects_.sweep(fail, clock_.now() + 1h, 0ms); }), "no database"));
    EXPECT_TRUE(objects_.contains(digest));
    EXPECT_EQ(objects_.put("x"), digest);
}

TEST_F(ObjectsSweep, AReaderThatIsUnderWayOutlivesTheSweep) {
    const std::string content = noise(16, 400'000);
    ObjectReader reader = objects_.open(objects_.put(content));
    EXPECT_EQ(objects_.sweep(kNothingIsReferenced, clock_.now() + 1h, 0ms).removed, 1u);
    std::string got(content.size(), '\0');
    for (std::size_t at = 0; at < got.size();) at += reader.read(std::span(got).subspan(at));
    EXPECT_EQ(got, content);
}

TEST_F(ObjectsSweep, ASweepRemovesTheTemporariesOfTheDeadAndSparesThoseOfTheLiving) {
    writeBytes(directory() / "tmp" / "4711.dead", "half an obj");
    struct Sweeping final : ByteSource {
        Sweeping(Objects& store, Time time) : objects(store), now(time) {}
        std::size_t read(std::span<char> space) override {
            if (++calls == 2) report = objects.sweep(kNothingIsReferenced, now + 24h, 0ms);
            std::ranges::fill(space, 's');
            return calls > 3 ? 0 : space.size();
        }
        Objects& objects;
        Time now;
        int calls = 0;
        SweepReport report;
    } source(objects_, clock_.now());
    const Digest digest = objects_.put(source);
    EXPECT_EQ(source.report.temporaries, 1u);
    EXPECT_EQ(source.report.writers, 1u);
    EXPECT_EQ(source.report.removedBytes, 11u);
    EXPECT_EQ(read(digest).size(), 3u * 128 * 1024);
    EXPECT_EQ(temporaries(), 0u);
}

/// Acts when the store asks for the time, which it does between finding an object and making it young.
class ActingClock final : public Clock {
  public:
    Time now() const override {
        if (act) std::exchange(act, nullptr)();
        return time;
    }
    mutable std::function<void()> act;
    Time time = fromMillis(1'700'000'000'000);
};

TEST_F(ObjectsSweep, ASweepThatHasChosenAnObjectWaitsForTheWriterThatFindsIt) {
    ActingClock clock;
    Objects objects(directory(), clock);
    const Digest digest = objects.put("wanted again");
    clock.time += 2h;
    std::future<SweepReport> sweeping;
    clock.act = [&] {
        sweeping = std::async(std::launch::async,
                              [&, now = clock.time] { return objects.sweep(kNothingIsReferenced, now, 1h); });
        // It cannot end before the writer is done; without the lock it does, long before this.
        EXPECT_EQ(sweeping.wait_for(300ms), std::future_status::timeout);
    };
    objects.put("wanted again");
    EXPECT_EQ(sweeping.get().removed, 0u);
    EXPECT_TRUE(objects.contains(digest));
}

TEST(ObjectsRace, WhatWasJustPutIsThereWhileASweepRuns) {
    const Scratch scratch;
    StandingClock clock;
    Objects objects(scratch.path(), clock);
    std::atomic<bool> isOver = false;
    std::atomic<int> lost = 0;
    const auto putAndLook = [&](unsigned seed) {
        for (unsigned i = 0; i < 400; ++i) {
            const Time before = clock.now();
            const Digest digest = objects.put(prose(i % 3, 100 + seed % 2));
            const bool isThere = objects.contains(digest);
            // Every sweep is a minute later and spares what is a minute old: two must pass before it may be gone.
            if (!isThere && clock.now() < before + 2min) ++lost;
        }
    };
    std::thread sweeper([&] {
        while (!isOver) {
            clock.advance(1min);
            objects.sweep(kNothingIsReferenced, clock.now(), 1min);
        }
    });
    std::vector<std::thread> writers;
    for (unsigned seed = 0; seed < 4; ++seed) writers.emplace_back(putAndLook, seed);
    for (std::thread& writer : writers) writer.join();
    isOver = true;
    sweeper.join();
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(objects.check().damaged, 0u);
    EXPECT_EQ(countIn(scratch.path() / "tmp"), 0u);
}

TEST_F(ObjectsSweep, ManyThreadsMayPutTheSameContents) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 8; ++thread)
        threads.emplace_back([&] {
            for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(read(objects_.put(prose(i, 2000))), prose(i, 2000));
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(objects_.check().objects, 20u);
    EXPECT_EQ(temporaries(), 0u);
}

TEST_F(ObjectsSweep, ManyMayOpenANewStoreAtOnce) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 8; ++thread)
        threads.emplace_back([&] { EXPECT_NO_THROW(Objects(scratch_.path() / "new" / "store", clock_).put("x")); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(Objects(scratch_.path() / "new" / "store", clock_).check().objects, 1u);
}

}  // namespace
}  // namespace gradus
