// Races that are ended in the middle, in words or with kill -9.

#include "tests/pipeline/end_to_end/racing_program.h"

namespace gradus::test {

TEST_P(Racing, KilledInTheMiddleItLeavesNothingAndCanBeRepeated) {
    brokenSum();
    EXPECT_EQ(gradus({"status"}).exit, 0);
    const HostCounts counts = countHost();
    const std::string before = fingerprint();
    const auto running =
        startRace({"--check", "sh test.sh", fix, "slow=sleep " + lasting(61), "other=sleep " + lasting(61), "-j3"});
    awaitSaid(*running, "right: passed");
    EXPECT_GT(layersLeft(), 0U) << "the copy that they stand on";
    running->stop(SIGKILL);
    EXPECT_EQ(gradusJson({"race", "show"})["data"]["race"]["state"], "lost");
    EXPECT_TRUE(has(gradus({"race", "show"}).out, "it can be run again"));
    // The next command that makes sandboxes takes away what is left.
    const Json answer = raced({fix, guess});
    EXPECT_EQ(answer["data"]["race"]["winner"], "right") << answer.dump(2);
    expectEnded(lasting(61));
    EXPECT_EQ(gradusJson({"sandbox", "list"})["data"]["sandboxes"].size(), 2) << "only those of the second race";
    EXPECT_EQ(layersLeft(), 2U) << "the layers of those two";
    expectSameHost(counts);
    EXPECT_EQ(fingerprint(), before);
    expectWhole();
}

// From the first moments, in which the project is copied and the sandboxes are built, to those in which some have
// passed, some still run and one is being judged.
TEST_P(Racing, KilledAtAnyMomentGcFindsAllThatIsLeft) {
    brokenSum();
    EXPECT_EQ(gradus({"status"}).exit, 0);
    const HostCounts counts = countHost();
    const std::string before = fingerprint();
    std::map<std::string, int> killed;
    for (const int millis : {0, 5, 15, 30, 60, 100, 160, 250, 400, 700, 1500, 2500}) {
        const auto running =
            startRace({"--check", "sleep 0.1; sh test.sh", fix, "soon=sleep 0.2; sed -i 's/ - / + /' sum.sh",
                       "slow=sleep " + lasting(61), "-j3"});
        ::usleep(static_cast<useconds_t>(millis) * 1000);
        running->stop(SIGKILL);
        const std::string said = running->errSoFar();
        ++killed[said.empty() ? "before it said anything" : has(said, "passed") ? "after the first passed" : "between"];
        EXPECT_EQ(gradus({"gc"}).exit, 0) << millis;
        expectEnded(lasting(61));
        EXPECT_EQ(gradus({"gc"}).exit, 0) << "what was still ending the first time";
        EXPECT_EQ(layersLeft(), 0U) << millis << said;
        EXPECT_TRUE(gradusJson({"sandbox", "list"})["data"]["sandboxes"].empty()) << millis;
        EXPECT_TRUE(gradusJson({"ls"})["data"]["changes"].empty()) << millis;
        expectSameHost(counts);
    }
    for (const auto& [moment, times] : killed) std::cout << fmt::format("killed {}: {}\n", moment, times);
    EXPECT_EQ(fingerprint(), before);
    for (const Json& race : gradusJson({"race", "ls"})["data"]["races"])
        EXPECT_EQ(race["state"], "lost") << race.dump();
    EXPECT_EQ(raced({fix, guess})["data"]["race"]["winner"], "right") << "it can be repeated";
    expectWhole();
}

TEST_P(Racing, InterruptedItEndsAllOfThemAndKeepsNothing) {
    brokenSum();
    const HostCounts counts = countHost();
    const std::string before = workTree();
    const auto running = startRace({"--check", "sh test.sh", fix, "slow=sleep " + lasting(62), "-j2"});
    awaitSaid(*running, "right: passed");
    running->send(SIGINT);
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 130) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "cancelled: nothing was kept")) << ended.out;
    EXPECT_EQ(processesCalledWith(lasting(62)), 0);
    EXPECT_EQ(layersLeft(), 0U);
    EXPECT_TRUE(gradusJson({"sandbox", "list"})["data"]["sandboxes"].empty());
    EXPECT_EQ(gradusJson({"race", "show"})["data"]["race"]["state"], "cancelled");
    EXPECT_TRUE(gradusJson({"ls"})["data"]["changes"].empty());
    EXPECT_EQ(countHost().cgroups, counts.cgroups);
    EXPECT_EQ(countHost().processes, counts.processes);
    EXPECT_EQ(workTree(), before);
    expectWhole();
}

}  // namespace gradus::test
