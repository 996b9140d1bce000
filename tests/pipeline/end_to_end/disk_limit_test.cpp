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
