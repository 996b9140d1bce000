// Several approaches at once, compared, the winner kept: the real program, real sandboxes, two users.

#include <stdlib.h>

#include "tests/pipeline/end_to_end/racing_program.h"

namespace gradus::test {

INSTANTIATE_TEST_SUITE_P(Users, Racing, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

TEST_P(Racing, ComparesAndAppliesTheWinner) {
    brokenSum();
    const Json answer = raced({guess, verbose, fix}, {"--check", "sh test.sh", "--apply"});
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["outcome"], "won");
    EXPECT_EQ(answer["data"]["race"]["winner"], "right");
    EXPECT_EQ(shell("cat sum.sh").out, "sum() { echo $(($1 + $2)); }\n");
    EXPECT_EQ(shell("sh test.sh; git status --porcelain").out, " M sum.sh\n");
    // The one that passes with less of a change is the better one; a no is last.
    EXPECT_EQ(answer["data"]["candidates"][1]["name"], "verbose");
    EXPECT_EQ(entry(answer, "guess")["standing"], "failed");
    EXPECT_EQ(entry(answer, "right")["lines_added"], 1);
    EXPECT_EQ(entry(answer, "right")["lines_removed"], 1);
    EXPECT_EQ(entry(answer, "right")["overlap"].size(), 2);
    expectWhole();
}

TEST_P(Racing, LosersAreKeptAsEvidenceAndTheTableCanBeAskedForAgain) {
    brokenSum();
    const std::string before = workTree();
    const Json answer = raced({guess, fix});
    EXPECT_EQ(workTree(), before) << "without --apply nothing is written";
    const std::string loser = entry(answer, "guess")["sandbox"];
    EXPECT_EQ(gradus({"sandbox", "exec", loser, "--", "cat", "sum.sh"}).out, "sum() { echo 5; }\n");
    EXPECT_EQ(gradusJson({"show", answer["data"]["race"]["change"]})["data"]["change"]["id"],
              answer["data"]["race"]["change"]);
    const Json shown = gradusJson({"race", "show"})["data"]["race"];
    EXPECT_EQ(shown["id"], answer["data"]["race"]["id"]);
    EXPECT_EQ(shown["state"], "won");
    EXPECT_EQ(shown["candidates"], answer["data"]["candidates"]);
    EXPECT_TRUE(has(gradus({"race", "ls"}).out, "right, guess"));
    // Whatever happened to the project since.
    EXPECT_EQ(gradus({"apply", answer["data"]["race"]["change"].get<std::string>()}).exit, 0);
    const Ended diff = gradus({"race", "show", "--diff", "guess"});
    EXPECT_TRUE(has(diff.out, "-sum() { echo $(($1 - $2)); }\n+sum() { echo 5; }\n")) << diff.out << diff.err;
    EXPECT_EQ(gradus({"race", "show", "r1", "--diff", "nobody"}).exit, 2);
}

TEST_P(Racing, NobodyPassingIsANoAndNothingIsSubmitted) {
    brokenSum();
    const std::string before = workTree();
    const Ended ended = gradus({"race", "--check", "sh test.sh", guess, "same=true", "broken=exit 3", "--apply"});
    EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "no candidate passed every check")) << ended.out;
    EXPECT_EQ(workTree(), before);
    EXPECT_EQ(gradusJson({"ls"})["data"]["changes"].size(), 0);
    const Json shown = gradusJson({"race", "show", "r1"})["data"]["race"];
    std::map<std::string, std::string> standings;
    for (const Json& one : shown["candidates"]) standings[one["name"]] = one["standing"];
    EXPECT_EQ(standings,
              (std::map<std::string, std::string>{{"guess", "failed"}, {"same", "empty"}, {"broken", "failed"}}));
}

TEST_P(Racing, PatchesAndChangesRaceToo) {
    brokenSum();
    const Json made = raced({verbose});
    const std::string change = made["data"]["race"]["change"];
    shell("sed -i 's/ - / + /' sum.sh && git diff > ../right.diff && git checkout -q sum.sh");
    const Json answer = raced({"patch=@../right.diff", "change=" + change, guess});
    EXPECT_EQ(answer["data"]["race"]["winner"], "patch") << answer.dump(2);
    EXPECT_EQ(entry(answer, "change")["standing"], "passed");
    EXPECT_EQ(raced({"change=" + change, guess})["data"]["race"]["change"], change) << "no second change for the same";
}

TEST_P(Racing, TheFirstToPassEndsTheOthers) {
    brokenSum();
    const auto began = std::chrono::steady_clock::now();
    const Json answer = raced({"slow=sleep 60; echo 'sum() { :; }' > sum.sh", fix},
                              {"--check", "sh test.sh", "--stop", "first-pass", "--jobs", "2"});
    EXPECT_EQ(answer["data"]["race"]["winner"], "right") << answer.dump(2);
    EXPECT_EQ(entry(answer, "slow")["standing"], "stopped");
    EXPECT_EQ(entry(answer, "slow")["reason"], "stopped, as right had passed");
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(40));
}

TEST_P(Racing, TheBudgetEndsWhatTakesTooLong) {
    brokenSum();
    const Json answer = raced({"slow=sleep 60", fix}, {"--check", "sh test.sh", "--budget", "20s", "--jobs", "2"});
    EXPECT_EQ(entry(answer, "slow")["reason"], "the time for all of them was up") << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["winner"], "right");
}

TEST_P(Racing, RanksByWhatIsAskedFor) {
    brokenSum();
    const Json answer =
        raced({"slow=sleep 1; sed -i 's/ - / + /' sum.sh", verbose}, {"--check", "sh test.sh", "--rank", "time"});
    EXPECT_EQ(answer["data"]["race"]["winner"], "verbose") << answer.dump(2);
}

// Edited, deleted, added, committed: what a person does while a race runs is nothing to those in it.
TEST_P(Racing, EveryCandidateSeesTheBytesThatWereThereWhenItBegan) {
    brokenSum();
    repository();
    edit("ignored/built", "built before\n");
    const std::string same =
        "grep -q '^v1$' app.txt && grep -q u1 lib/util.txt && test ! -e new.txt && test ! -e lib/new.txt && "
        "grep -q before ignored/built && test $(git rev-list --count HEAD) = 3 && test -z \"$(git status -s)\"";
    const auto running =
        startRace({"--json", "--jobs", "1", "--check", same.substr(0, same.find(" && test -z")), "--check",
                   "sh test.sh", "early=" + same + " && sed -i 's/ - / + /' sum.sh && sleep 4",
                   "late=" + same + " && printf '# adds\nsum() {\n  echo $(($1 + $2))\n}\n' > sum.sh", "--apply"});
    // It says nothing with --json: it has begun once it is on record.
    for (int i = 0; i < 1000 && gradusJson({"race", "ls"})["data"]["races"].empty(); ++i) ::usleep(20'000);
    edit("app.txt", "mine\n");
    edit("new.txt", "new\n");
    edit("lib/new.txt", "new\n");
    edit("ignored/built", "built by me\n");
    shell("rm lib/util.txt");
    commitAll("mine");
    const Json answer = running->wait().json();
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["base"], "copied");
    EXPECT_EQ(entry(answer, "early")["standing"], "passed") << answer.dump(2);
    EXPECT_EQ(entry(answer, "late")["standing"], "passed") << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["winner"], "early");
    // The winner went into what is there by now, and took nothing of it back.
    EXPECT_EQ(shell("sh test.sh; cat app.txt new.txt; ls lib; git status --porcelain").out,
              "mine\nnew\nnew.txt\n M sum.sh\n");
    expectWhole();
}

// A kept loser lies on the project as it is: what somebody edited after the copy was made must not look as if the
// loser had started from it.
TEST_P(Racing, WhatSomebodyEditedMeanwhileIsNotOverwrittenByAKeptLoser) {
    brokenSum();
    const auto running = startRace({"--jobs", "1", "--check", "sh test.sh", "first=sed -i 's/ - / + /' sum.sh; sleep 3",
                                    "second=echo 'sum() { echo 5; }' > sum.sh"});
    awaitSaid(*running, "first: running");
    ::usleep(300'000);
    edit("sum.sh", "sum() { echo mine; }\n");
    EXPECT_EQ(running->wait().exit, 0);
    const Json shown = gradusJson({"race", "show"})["data"]["race"];
    const Ended applied = gradus({"apply", shown["candidates"][1]["sandbox"].get<std::string>()});
    EXPECT_NE(applied.exit, 0) << applied.out;
    EXPECT_EQ(shell("cat sum.sh").out, "sum() { echo mine; }\n");
    EXPECT_NE(gradus({"apply", shown["change"].get<std::string>()}).exit, 0) << "nor by the winner";
    EXPECT_EQ(shell("cat sum.sh").out, "sum() { echo mine; }\n");
}

// Too large to be copied, ignored, and so shown as it is: node_modules.
TEST_P(Racing, AnEnvironmentThatMovesMakesTheResultsVoid) {
    brokenSum();
    shell("mkdir -p ignored/modules && cd ignored/modules && seq 5000 | xargs touch && echo one > 1");
    const std::string seen = "test \"$(cat ignored/modules/1)\" = one && ";
    const Json still = raced({"right=" + seen + "sed -i 's/ - / + /' sum.sh"});
    EXPECT_EQ(still["data"]["race"]["winner"], "right") << still.dump(2);
    const auto running =
        startRace({"--check", "sh test.sh", "right=" + seen + "sed -i 's/ - / + /' sum.sh; sleep 3", "--apply"});
    awaitSaid(*running, "right: running");
    ::usleep(300'000);
    edit("ignored/modules/1", "two\n");
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 7) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "ignored/modules/1 changed outside while it ran")) << ended.out;
    EXPECT_EQ(shell("cat sum.sh").out, "sum() { echo $(($1 - $2)); }\n") << "nothing was applied";
}

TEST_P(Racing, AProjectThatIsOnlyWatchedMayNotMove) {
    brokenSum();
    const Json still = raced({fix}, {"--check", "sh test.sh", "--base", "watched"});
    EXPECT_EQ(still["data"]["race"]["winner"], "right") << still.dump(2);
    EXPECT_EQ(still["data"]["race"]["base"], "watched");
    const auto running = startRace(
        {"--base", "watched", "--check", "sh test.sh", "right=sed -i 's/ - / + /' sum.sh; sleep 3", "--apply"});
    awaitSaid(*running, "right: running");
    ::usleep(300'000);
    edit("app.txt", "mine\n");
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 7) << ended.out << ended.err;
    EXPECT_EQ(shell("cat sum.sh").out, "sum() { echo $(($1 - $2)); }\n") << "nothing was applied";
}

TEST_P(Racing, WhatIsHiddenStaysHiddenInTheCopy) {
    brokenSum();
    edit("gradus.toml", "[pipeline]\nname = \"a\"\nstages = [\"sandbox\"]\n[sandbox]\nhide = [\".env*\"]\n");
    edit(".env", "secret\n");
    commitAll("rules");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const std::string blind = "test ! -s .env && ";
    const auto running = startRace({"--json", "--jobs", "1", "--check", "test ! -s .env", "early=sleep 3; echo a > a",
                                    "late=" + blind + "echo b > b"});
    for (int i = 0; i < 1000 && gradusJson({"race", "ls"})["data"]["races"].empty(); ++i) ::usleep(20'000);
    shell("rm .env");  // what was copied is still there
    const Json answer = running->wait().json();
    EXPECT_EQ(entry(answer, "late")["standing"], "passed") << answer.dump(2);
    EXPECT_EQ(entry(answer, "early")["standing"], "passed") << answer.dump(2);
}

// Not only yes and no: how it ended is told apart.
TEST_P(Racing, ACandidateThatCrashesOrTakesTooMuchIsSaidToHaveDoneSo) {
    brokenSum();
    const Json answer = raced({"slow=sleep 60", "crash=kill -SEGV $$", "greedy=head -c 900M /dev/zero | tail", fix},
                              {"--check", "sh test.sh", "--wall-time", "6s", "--memory", "96M", "--jobs", "4"});
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["winner"], "right") << answer.dump(2);
    EXPECT_EQ(entry(answer, "slow")["ended"], "timeout");
    EXPECT_EQ(entry(answer, "crash")["ended"], "killed");
    // Where nothing proves the limit the command is refused the memory, and fails by itself, or is found too late.
    const bool isKilled = entry(answer, "greedy")["ended"] == "oom";
    EXPECT_TRUE(isKilled || !proves("memory-limit")) << answer.dump(2);
    for (const char* name : {"slow", "crash", "greedy"}) EXPECT_EQ(entry(answer, name)["standing"], "failed") << name;
    const std::string table = gradus({"race", "show"}).out;
    for (const char* word : {"timed out", "crashed"}) EXPECT_TRUE(has(table, word)) << table;
    EXPECT_EQ(has(table, "out of memory"), isKilled) << table;
}

TEST_P(Racing, TheBudgetOfMemoryAndProcessorTimeIsForAllTogether) {
    brokenSum();
    // An endless loop gets its share and no more; the other is judged as ever.
    const Json answer = raced({"busy=while :; do :; done", fix},
                              {"--check", "sh test.sh", "--budget", "time=60s,cpu=4s", "--jobs", "2"});
    EXPECT_EQ(answer["data"]["race"]["winner"], "right") << answer.dump(2);
    EXPECT_EQ(entry(answer, "busy")["ended"], "limit") << answer.dump(2);
    EXPECT_LT(entry(answer, "busy")["cpu_ms"].get<int>(), 3500);
    const Ended more = gradus({"race", fix, "--check", "true", "--memory", "2G", "--budget", "memory=1G"});
    EXPECT_EQ(more.exit, 2) << more.out;
    EXPECT_TRUE(has(more.err, "more than the budget")) << more.err;
    EXPECT_EQ(gradus({"race", fix, "--check", "true", "--budget", "patience=1"}).exit, 2);
}

TEST_P(Racing, LosersExpireAndTheTableStays) {
    brokenSum();
    const Json answer = raced({guess, fix}, {"--check", "sh test.sh", "--keep", "1s"});
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    for (int i = 0; i < 100 && !gradusJson({"sandbox", "list"})["data"]["sandboxes"].empty(); ++i) {
        ::usleep(100'000);
        gradus({"gc"});
    }
    EXPECT_TRUE(gradusJson({"sandbox", "list"})["data"]["sandboxes"].empty());
    EXPECT_TRUE(has(gradus({"race", "show"}).out, "right won"));
    expectWhole();
}

TEST_P(Racing, TheLogHasItsBeginningItsEndAndTheWinner) {
    brokenSum();
    const std::string change = raced({guess, fix})["data"]["race"]["change"];
    const Ended log = gradus({"audit", "query", "--event", "race.*"});
    const Json events = gradusJson({"audit", "query", "--event", "race.ended"});
    ASSERT_EQ(events["ok"], true) << events.dump(2);
    EXPECT_TRUE(has(events.dump(), "won")) << events.dump(2);
    EXPECT_TRUE(has(events.dump(), change)) << events.dump(2);
    EXPECT_TRUE(has(gradusJson({"audit", "query", "--event", "race.started"}).dump(), "race.started"));
}

TEST_P(Racing, JudgedByTheChecksOfThePipelineWithoutItsOwn) {
    given();
    const Json answer = raced({"bad=echo no-sandbox > app.txt", "good=echo v2 > app.txt"}, {"--to", "local"});
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["winner"], "good");
    EXPECT_EQ(entry(answer, "bad")["checks"][0]["name"], "unit-sandbox");
    EXPECT_EQ(shell("cat app.txt").out, "v2\n");
}

// A small program in C, its failing test, and three ways to mend it: one repairs the loop, one writes the function
// anew, one makes the test agree with the fault, which the check with the original test finds.
TEST_P(Racing, ThreeApproachesToOneFailingTest) {
    if (shell("command -v make cc >/dev/null && echo there || true").out.empty()) GTEST_SKIP() << "no C compiler here";
    edit("words.h", "int countWords(const char* text);\n");
    edit("words.c",
         "#include \"words.h\"\n#include <ctype.h>\nint countWords(const char* text) {\n    int count = 0;\n"
         "    for (; *text != 0; ++text)\n        if (isspace((unsigned char)*text)) ++count;\n    return count;\n}\n");
    edit("test.c",
         "#include \"words.h\"\n#include <stdio.h>\nint main(void) {\n"
         "    if (countWords(\"\") != 0) return puts(\"nothing\"), 1;\n"
         "    if (countWords(\"one two\") != 2) return puts(\"two\"), 1;\n"
         "    if (countWords(\"  a  b \") != 2) return puts(\"spaces\"), 1;\n    return 0;\n}\n");
    edit("Makefile", "test: tests\n\t./tests\ntests: words.c test.c words.h\n\tcc -O1 -o tests words.c test.c\n");
    edit(".gitignore", "tests\n");
    commitAll("words");
    EXPECT_NE(command({"make", "-s", "test"}).exit, 0) << "the test fails";
    edit("../loop.sh",
         "sed -i 's/if (isspace((unsigned char)\\*text)) ++count;/if (!isspace((unsigned char)*text) \\&\\& "
         "(text[1] == 0 || isspace((unsigned char)text[1]))) ++count;/' words.c && make -s test\n");
    edit("../anew.sh",
         "cat > words.c <<'END'\n#include \"words.h\"\n#include <ctype.h>\nint countWords(const char* text) {\n"
         "    int count = 0;\n    int inside = 0;\n    for (; *text != 0; ++text) {\n"
         "        const int isWord = !isspace((unsigned char)*text);\n        count += isWord && !inside;\n"
         "        inside = isWord;\n    }\n    return count;\n}\nEND\nmake -s test\n");
    edit("../cheat.sh", "sed -i 's/!= 2/== 99/' test.c && make -s test\n");
    const auto script = [&](const std::string& name) { return name + "=" + shell("cat ../" + name + ".sh").out; };
    const Json answer = raced({script("anew"), script("loop"), script("cheat")},
                              {"--check", "git show HEAD:test.c > test.c && make -s test", "--jobs", "3", "--apply"});
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["winner"], "loop") << "both pass; this one is the smaller change";
    EXPECT_EQ(answer["data"]["candidates"][1]["name"], "anew");
    EXPECT_EQ(entry(answer, "cheat")["standing"], "failed");
    EXPECT_EQ(entry(answer, "cheat")["checks_passed"], 0);
    EXPECT_GT(entry(answer, "anew")["cpu_ms"].get<int>(), 0);
    shell("make -s test && git diff --stat");
    EXPECT_EQ(shell("git status --porcelain").out, " M words.c\n");
    // As long as its slowest, where three cores are free; elsewhere it is only said.
    const double pace = paceOf(answer);
    double load = 0;
    ::getloadavg(&load, 1);
    const double idle = static_cast<double>(std::thread::hardware_concurrency()) - load;
    std::cout << fmt::format("three at once took {:.2f} times as long as the slowest, {:.1f} cores idle\n", pace, idle);
    EXPECT_TRUE(idle < 3 || pace <= 1.3);
    expectWhole();
}

// Who waits takes no core, so this holds on a small machine as well.
TEST_P(Racing, ThoseThatWaitDoSoAtTheSameTime) {
    brokenSum();
    const std::string wait = "=sleep 4; sed -i 's/ - / + /' sum.sh";
    const Json answer = raced({"a" + wait, "b" + wait, "d" + wait}, {"--check", "sh test.sh", "--jobs", "3"});
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    std::cout << fmt::format("three at once took {:.2f} times as long as the slowest\n", paceOf(answer));
    EXPECT_LE(paceOf(answer), 1.3) << answer["data"]["race"].dump(2);
}

// It asserts itself whatever it shows; here it must do so for whoever plays it.
TEST_P(Racing, TheDemoPlaysForEverybody) {
    shell("mkdir -p ../played");
    variables["TMPDIR"] = (scratch / "played").native();
    const Ended ended = gradus({"demo"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "r1: strip won, submitted as c3")) << ended.out;
    EXPECT_TRUE(std::filesystem::is_empty(scratch / "played"));
}

TEST_P(Racing, WordsThatMeanNothingAreSaidBeforeAnythingRuns) {
    brokenSum();
    for (const Words& words :
         {Words{"race", "sed -i s/a/b/ x"}, Words{"race", "a=true", "a=false", "--check", "true"}, Words{"race", "a="},
          Words{"race", "a=true", "--check", "true", "--rank", "beauty"},
          Words{"race", "a=true", "--check", "true", "--rank", "size,size"}, Words{"race", "=true", "--check", "true"},
          Words{"race", "c12=true", "--check", "true"}, Words{"race", "a=true", "--check", "true", "--budget", "0s"}}) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 2) << words[1] << ": " << ended.out << ended.err;
    }
    EXPECT_EQ(gradus({"race", "a=c99", "--check", "true"}).exit, 2) << "no such change";
    EXPECT_EQ(gradus({"race", "a=@nowhere.diff", "--check", "true"}).exit, 2) << "no such file";
    const Ended unjudged = gradus({"race", "a=true"});
    EXPECT_EQ(unjudged.exit, 2);
    EXPECT_TRUE(has(unjudged.err, "--check")) << unjudged.err;
    EXPECT_TRUE(gradusJson({"race", "ls"})["data"]["races"].empty());
}

}  // namespace gradus::test
