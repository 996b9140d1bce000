#include "tests/pipeline/end_to_end/sandbox_program.h"
#include "tests/support/case.h"

namespace gradus::test {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMebibyte = 1U << 20;

}  // namespace

class DiskLimitTest : public SandboxProgramTest {
  protected:
    bool isOrdinary() const { return GetParam() == As::kOrdinaryUser || ::geteuid() != 0; }

    std::string made() { return gradusJson({"sandbox", "new"})["data"]["sandbox"]["id"]; }
    Json exec(const std::string& sandbox, const std::string& script, Words options = {}) {
        Words words{"sandbox", "exec", "--json", sandbox};
        words.insert(words.end(), options.begin(), options.end());
        for (const char* word : {"--", "sh", "-c"}) words.emplace_back(word);
        words.push_back(script);
        const Ended ended = gradus(words);
        const Json json = ended.json();
        EXPECT_TRUE(json.value("ok", false)) << ended.out << ended.err;
        return json.contains("data") ? json["data"]["execution"] : Json::object();
    }
    static Json diskOf(const Json& execution) {
        for (const Json& limit : execution["limits"])
            if (limit["name"] == "disk") return limit;
        return Json::object();
    }
    std::uint64_t diskBytes(const std::string& sandbox) {
        return gradusJson({"sandbox", "stats", sandbox})["data"]["disk_bytes"];
    }
    static bool holds(const Json& execution) {
        const Json& all = execution["guarantees"];
        return std::find(all.begin(), all.end(), "disk-limit") != all.end();
    }

    /// What the kernel has of ours: loop devices over files of the state directory, and mounts below it.
    std::size_t left() const {
        std::size_t count = 0;
        for (const auto& entry : fs::directory_iterator("/sys/block"))
            if (bytesOf(entry.path() / "loop/backing_file").starts_with(state.native())) ++count;
        std::istringstream mounts(bytesOf("/proc/self/mountinfo"));
        for (std::string line; std::getline(mounts, line);)
            if (line.find(state.native()) != std::string::npos) ++count;
        return count;
    }
    void expectNothingLeft() const {
        for (int i = 0; i < 500 && left() > 0; ++i) ::usleep(10'000);
        EXPECT_EQ(left(), 0U);
    }
    std::uint64_t onDisk() const {
        std::uint64_t bytes = 0;
        for (const auto& entry : fs::recursive_directory_iterator(state / "sandboxes/layers")) {
            struct stat info {};
            if (::lstat(entry.path().c_str(), &info) == 0) bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
        }
        return bytes;
    }
};

TEST_P(DiskLimitTest, AFullSandboxIsFullInsideOnly) {
    GRADUS_CASES("RE5", "R4");
    const std::string sandbox = made();
    const Json run = exec(sandbox, "head -c 40000000 /dev/zero > big", {"--disk", "8M"});
    const Json disk = diskOf(run);
    EXPECT_EQ(run["verdict"], "limit") << run.dump(1);
    EXPECT_EQ(disk["value"], 8 * kMebibyte);
    EXPECT_EQ(disk["tripped"], true);
    if (isOrdinary()) {
        EXPECT_EQ(disk["enforced_by"], "watch");
        EXPECT_FALSE(holds(run));
    } else {
        EXPECT_EQ(disk["enforced_by"], "backing");
        EXPECT_TRUE(holds(run)) << run.dump(1);
        EXPECT_TRUE(has(run["stderr"], "No space left")) << run.dump(1);
        EXPECT_LE(disk["peak"], 8 * kMebibyte);
        EXPECT_GE(disk["peak"], 7 * kMebibyte);
        EXPECT_LE(onDisk(), 9 * kMebibyte);
    }
    expectNothingLeft();
    EXPECT_EQ(gradus({"sandbox", "rm", sandbox}).exit, 0);
    EXPECT_EQ(gradus({"gc"}).exit, 0);
    EXPECT_EQ(onDisk(), 0U);
}

TEST_P(DiskLimitTest, WhatFitsIsKeptAndTold) {
    const std::string sandbox = made();
    const Json run = exec(sandbox, "echo small > file; mkdir d; echo x > d/y; rm README.md", {"--disk", "8M"});
    EXPECT_EQ(run["verdict"], "ok") << run.dump(1);
    EXPECT_EQ(diskOf(run)["tripped"], false);
    EXPECT_EQ(exec(sandbox, "cat file d/y; test ! -e README.md")["stdout"], "small\nx\n");
    const auto kinds = kindsOf(gradusJson({"sandbox", "diff", sandbox})["data"]);
    EXPECT_EQ(kinds, (std::map<std::string, std::string>{
                         {"README.md", "deleted"}, {"d", "added"}, {"d/y", "added"}, {"file", "added"}}));
    EXPECT_EQ(gradus({"apply", sandbox}).exit, 0);
    EXPECT_EQ(bytesOf(project / "d/y"), "x\n");
    expectNothingLeft();
}

TEST_P(DiskLimitTest, SnapshotsAndForksStayWithinIt) {
    if (isOrdinary()) GTEST_SKIP() << "only root's layers are bounded";
    const std::string sandbox = made();
    const Words limit{"--disk", "12M"};
    EXPECT_EQ(exec(sandbox, "head -c 4000000 /dev/zero > first", limit)["verdict"], "ok");
    EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "one"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "head -c 20000000 /dev/zero > second", limit)["verdict"], "limit");
    EXPECT_LE(onDisk(), 13 * kMebibyte);
    EXPECT_EQ(gradus({"sandbox", "restore", sandbox, "one"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "ls; head -c 3000000 /dev/zero > third", limit)["stdout"],
              "README.md\nfirst\nlink\nrun.sh\nsrc\n");
    const std::string fork = gradusJson({"sandbox", "fork", sandbox})["data"]["sandboxes"][0]["id"];
    // The limit stays with the sandbox: nobody says it again.
    EXPECT_EQ(exec(fork, "stat -c %s first third; head -c 20000000 /dev/zero > fourth", limit)["verdict"], "limit");
    EXPECT_EQ(exec(fork, "head -c 20000000 /dev/zero > fifth")["verdict"], "limit");
    const Json both = exec(sandbox, "stat -c %s first third");
    EXPECT_EQ(both["stdout"], "4000000\n3000000\n") << both.dump(1);
    // More room for one that is full.
    EXPECT_EQ(exec(fork, "rm -f fourth fifth; head -c 14000000 /dev/zero > sixth", {"--disk", "40M"})["verdict"], "ok");
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(exec(sandbox, "echo " + std::to_string(i) + " > round", limit)["verdict"], "ok") << i;
        EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "round-" + std::to_string(i)}).exit, 0);
    }
    EXPECT_EQ(exec(sandbox, "cat round; stat -c %s first third")["stdout"], "9\n4000000\n3000000\n");
    expectNothingLeft();
}

TEST_P(DiskLimitTest, GivenOnceItStays) {
    if (isOrdinary()) GTEST_SKIP() << "only root's layers are bounded";
    const std::string sandbox = made();
    const std::string tooMuch = "head -c 20000000 /dev/zero > much";
    EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "before"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "head -c 2000000 /dev/zero > first", {"--disk", "12M"})["verdict"], "ok");
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(exec(sandbox, "echo " + std::to_string(i) + " > round")["verdict"], "ok");
        EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "round-" + std::to_string(i)}).exit, 0);
    }
    const std::string fork = gradusJson({"sandbox", "fork", sandbox})["data"]["sandboxes"][0]["id"];
    EXPECT_EQ(gradus({"sandbox", "restore", sandbox, "before"}).exit, 0);
    for (const std::string& one : {sandbox, fork}) {
        const Json run = exec(one, tooMuch);
        EXPECT_EQ(run["verdict"], "limit") << run.dump(1);
        EXPECT_EQ(diskOf(run)["value"], 12 * kMebibyte) << one;
        EXPECT_EQ(diskOf(run)["enforced_by"], "backing") << one;
    }
    EXPECT_EQ(exec(sandbox, tooMuch, {"--disk", "40M"})["verdict"], "ok");
    EXPECT_EQ(diskOf(exec(sandbox, "true"))["value"], 40 * kMebibyte) << "until another is given";
    expectNothingLeft();
}

TEST_P(DiskLimitTest, GivenToWhatIsKeptItStaysAsWell) {
    ASSERT_EQ(tried("echo 1 > one", {"--disk", "5M", "--name", "kept"}).exit, 0);
    const Json run = exec("kept", "head -c 20000000 /dev/zero > much");
    EXPECT_EQ(run["verdict"], "limit") << run.dump(1);
    EXPECT_EQ(diskOf(run)["value"], 5 * kMebibyte);
    EXPECT_EQ(exec("kept", "cat one; rm -f much", {"--disk", isOrdinary() ? "64M" : "5M"})["stdout"], "1\n");
    EXPECT_EQ(exec("kept", "true", {"--disk", "5M"})["verdict"], "ok");
    const std::string fork = gradusJson({"sandbox", "fork", "kept"})["data"]["sandboxes"][0]["id"];
    EXPECT_EQ(diskOf(exec(fork, "true"))["value"], 5 * kMebibyte);
    const Ended demanded = gradus({"sandbox", "exec", fork, "--require", "disk-limit", "--", "echo", "ran"});
    EXPECT_EQ(demanded.out, isOrdinary() ? "" : "ran\n") << demanded.err;
    EXPECT_FALSE(has(demanded.err, "nothing says how much"));
    expectNothingLeft();
}

TEST_P(DiskLimitTest, ManyTinyFilesMeetItToo) {
    GRADUS_CASES("FS20");
    if (isOrdinary()) GTEST_SKIP() << "only root's layers are bounded";
    const std::string sandbox = made();
    const Json run =
        exec(sandbox, "i=0; while [ $i -lt 20000 ]; do : > f$i || exit 1; i=$((i+1)); done", {"--disk", "4M"});
    EXPECT_EQ(run["verdict"], "limit") << run.dump(1);
    EXPECT_EQ(diskOf(run)["tripped"], true);
    expectNothingLeft();
}

TEST_P(DiskLimitTest, KilledAtAnyTimeItLeavesNothingBehind) {
    GRADUS_CASES("CR14");
    if (isOrdinary()) GTEST_SKIP() << "only root's layers are bounded";
    const std::string sandbox = made();
    EXPECT_EQ(exec(sandbox, "echo before > kept", {"--disk", "8M"})["verdict"], "ok");
    for (int i = 0; i < 8; ++i) {
        const auto running = startCommand({GRADUS_PROGRAM, "sandbox", "exec", sandbox, "--disk", "8M", "--wait", "20s",
                                           "--", "sh", "-c", "echo up; while :; do echo x >> more; done"});
        if (i % 2 == 0)
            waitForUp(*running);
        else
            ::usleep(static_cast<useconds_t>(3000 * i));
        running->stop(SIGKILL);
    }
    expectNothingLeft();
    EXPECT_EQ(gradus({"gc"}).exit, 0);
    const Json after = exec(sandbox, "cat kept", {"--wait", "20s"});
    EXPECT_EQ(after["stdout"], "before\n") << after.dump(1);
    EXPECT_EQ(gradus({"sandbox", "rm", sandbox}).exit, 0);
    EXPECT_EQ(gradus({"gc"}).exit, 0);
    EXPECT_EQ(onDisk(), 0U);
    expectNothingLeft();
}

TEST_P(DiskLimitTest, ADemandForTheProofIsMetOrRefused) {
    const std::string sandbox = made();
    const Ended ended =
        gradus({"sandbox", "exec", sandbox, "--disk", "8M", "--require", "disk-limit", "--", "sh", "-c", "echo ran"});
    if (isOrdinary()) {
        EXPECT_EQ(ended.exit, 125) << ended.err;
        EXPECT_EQ(ended.out, "");
        EXPECT_TRUE(has(ended.err, "would only be watched")) << ended.err;
        EXPECT_TRUE(has(ended.err, "call as root")) << ended.err;
    } else {
        EXPECT_EQ(ended.exit, 0) << ended.err;
        EXPECT_EQ(ended.out, "ran\n");
    }
    // In memory it is held for everybody.
    EXPECT_EQ(tried("echo ran", {"--discard", "--disk", "8M", "--require", "disk-limit"}).out, "ran\n");
}

TEST_P(DiskLimitTest, FilesGoInAndOutWhetherItLiesInAnImageOrNot) {
    const std::string before = fingerprint();
    const std::string sandbox = made();
    EXPECT_EQ(exec(sandbox, "mkdir d; echo inside > d/f; rm -r src", {"--disk", "8M"})["verdict"], "ok");
    const fs::path file = outside("fixture", "from outside\n");
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "d/put"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "src/again"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "README.md"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "d/f", "-"}).out, "inside\n");
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "run.sh", "-"}).out, "#!/bin/sh\necho ran\n");
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "src/main.c", "-"}).exit, 2) << "deleted inside";
    EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "one"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "cat d/put README.md; ls src; rm d/f", {"--disk", "8M"})["stdout"],
              "from outside\nfrom outside\nagain\n");
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "d", (scratch / "outside/d").native()}).exit, 0);
    EXPECT_EQ(shell("ls " + (scratch / "outside/d").native()).out, "put\n");
    EXPECT_EQ(kindsOf(gradusJson({"sandbox", "diff", sandbox})["data"]),
              (std::map<std::string, std::string>{{"README.md", "modified"},
                                                  {"d", "added"},
                                                  {"d/put", "added"},
                                                  {"src/again", "added"},
                                                  {"src/main.c", "deleted"}}));
    EXPECT_EQ(fingerprint(), before);
    expectNothingLeft();
}

TEST_P(DiskLimitTest, WhatIsPutStaysWithinIt) {
    if (isOrdinary()) GTEST_SKIP() << "only root's layers are bounded";
    const std::string sandbox = made();
    EXPECT_EQ(exec(sandbox, "echo mine > kept", {"--disk", "4M"})["verdict"], "ok");
    const fs::path big = outside("big", std::string(6 * kMebibyte, 'x'));
    const Ended refused = gradus({"sandbox", "put", sandbox, big.native(), "kept"});
    EXPECT_EQ(refused.exit, 6) << refused.err;
    EXPECT_TRUE(has(refused.err, "no more room within its disk limit")) << refused.err;
    EXPECT_TRUE(has(refused.err, "gradus sandbox exec " + sandbox + " --disk SIZE")) << refused.err;
    EXPECT_EQ(exec(sandbox, "cat kept")["stdout"], "mine\n") << "whole, or not at all";
    EXPECT_EQ(exec(sandbox, "true", {"--disk", "20M"})["verdict"], "ok");
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, big.native(), "kept"}).exit, 0) << "as it was told";
    // In a layer that has no image yet.
    ASSERT_EQ(tried("echo 1 > one", {"--disk", "4M", "--name", "small"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "put", "small", big.native(), "one"}).exit, 6);
    EXPECT_EQ(gradus({"sandbox", "get", "small", "one", "-"}).out, "1\n");
    expectNothingLeft();
}

TEST_P(DiskLimitTest, StatsTellWhatTheSandboxHoldsAndNotItsImage) {
    const std::string sandbox = made();
    EXPECT_EQ(exec(sandbox, "true", {"--disk", "64M"})["verdict"], "ok");
    EXPECT_LE(diskBytes(sandbox), 8192U);
    EXPECT_EQ(exec(sandbox, "head -c 3000000 /dev/urandom > big")["verdict"], "ok");
    EXPECT_GE(diskBytes(sandbox), 3'000'000U);
    EXPECT_LE(diskBytes(sandbox), 3'100'000U);
    EXPECT_EQ(exec(sandbox, "rm big")["verdict"], "ok");
    EXPECT_LE(diskBytes(sandbox), 8192U) << "an image keeps what was written to it";
    EXPECT_EQ(exec(sandbox, "head -c 3000000 /dev/urandom > big")["verdict"], "ok");
    EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "one"}).exit, 0);
    EXPECT_GE(diskBytes(sandbox), 3'000'000U) << "its snapshots are its own, too";
    expectNothingLeft();
}

TEST_P(DiskLimitTest, ARunningSandboxIsLookedIntoWithoutDisturbingIt) {
    const std::string sandbox = made();
    const auto running = startCommand(
        {GRADUS_PROGRAM, "sandbox", "exec", sandbox, "--disk", "64M", "--", "sh", "-c",
         "head -c 3000000 /dev/urandom > big; echo up; sleep 6; echo changed > README.md; stat -c %s big"});
    waitForUp(*running);
    const auto asked = std::chrono::steady_clock::now();
    EXPECT_GE(diskBytes(sandbox), 3'000'000U);
    const Ended own = gradus({"sandbox", "path", "--json", sandbox, "big"});
    if (isOrdinary())
        EXPECT_EQ(own.json()["data"]["where"], "own") << own.out << own.err;
    else
        EXPECT_EQ(own.json()["error"]["code"], "image") << own.out << own.err;
    EXPECT_EQ(gradusJson({"sandbox", "path", sandbox, "run.sh"})["data"]["where"], "base");
    EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(5)) << "nobody waits for the image";
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, (project / "run.sh").native(), "go"}).exit, 7);
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.out, "3000000")) << ended.out;
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "README.md", "-"}).out, "changed\n");
    expectNothingLeft();
}

TEST_P(DiskLimitTest, WhatHasNoPathOutHereIsToldHowToGet) {
    if (isOrdinary()) GTEST_SKIP() << "only root's layers lie in images";
    const std::string sandbox = made();
    EXPECT_EQ(exec(sandbox, "echo x > 'a file'", {"--disk", "8M"})["verdict"], "ok");
    const Ended own = gradus({"sandbox", "path", sandbox, "a file"});
    EXPECT_EQ(own.exit, 1);
    EXPECT_TRUE(has(own.err, "the image that holds the sandbox to its disk limit")) << own.err;
    const std::string cure = "gradus sandbox get " + sandbox + " 'a file' -";
    EXPECT_TRUE(has(own.err, cure)) << own.err;
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "a file", "-"}).out, "x\n");
    EXPECT_EQ(gradus({"sandbox", "path", sandbox, "src/main.c"}).out, (project / "src/main.c").native() + "\n");
    EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "one"}).exit, 0);
    EXPECT_TRUE(has(gradus({"sandbox", "path", sandbox, "a file"}).err, cure));
    expectNothingLeft();
}

TEST_P(DiskLimitTest, ACopyOfTheSystemIsBoundedAsAWhole) {
    if (isOrdinary()) GTEST_SKIP() << "only root's layers are bounded";
    const std::string sandbox = gradusJson({"sandbox", "new", "--system"})["data"]["sandbox"]["id"];
    const Json run = exec(sandbox, "head -c 40000000 /dev/zero > /usr/share/big", {"--disk", "8M"});
    EXPECT_EQ(run["verdict"], "limit") << run.dump(1);
    EXPECT_EQ(diskOf(run)["enforced_by"], "backing");
    EXPECT_LE(onDisk(), 9 * kMebibyte);
    expectNothingLeft();
}

INSTANTIATE_TEST_SUITE_P(, DiskLimitTest, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

}  // namespace gradus::test
