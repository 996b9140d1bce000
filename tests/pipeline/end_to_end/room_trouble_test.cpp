// Sandboxes by hand where something is in the way: said at once, by name, with what to do, and with nothing half done.

#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/pipeline/end_to_end/room_program.h"
#include "tests/store/own_mounts.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class RoomTrouble : public RoomProgram {
  protected:
    Ended put(const std::string& sandbox, const fs::path& source, const std::string& inside) {
        return gradus({"sandbox", "put", sandbox, source.native(), inside});
    }
    Ended get(const std::string& sandbox, const std::string& inside, const fs::path& target) {
        return gradus({"sandbox", "get", sandbox, inside, target.native()});
    }
    void trust(const std::string& text) {
        shell("cat > gradus.toml <<'EOF'\n[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\"]\n" + text +
              "EOF\n");
        ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    }
    static constexpr const char* kPassing = "[check.unit]\nrun = \"true\"\n";
};
INSTANTIATE_TEST_SUITE_P(Users, RoomTrouble, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

TEST_P(RoomTrouble, WhatIsNeitherFileNorLinkNorDirectoryIsRefusedByName) {
    const std::string sandbox = made();
    const fs::path directory = outside("tree/f", "f\n").parent_path();
    ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0666), 0);
    for (const fs::path& source : {directory / "pipe", fs::path("/dev/null"), directory}) {
        const Ended ended = put(sandbox, source, "there");
        EXPECT_EQ(ended.exit, 2) << source << ended.out;
        EXPECT_TRUE(has(ended.err, source == "/dev/null" ? "/dev/null is a device" : "pipe is a named pipe"));
    }
    EXPECT_TRUE(diff(sandbox).empty()) << "nothing is half copied";
    ASSERT_EQ(exec(sandbox, "mkdir d; echo x > d/x; mkfifo d/pipe").exit, 0);
    for (const char* inside : {"d/pipe", "d"}) {
        const Ended ended = get(sandbox, inside, scratch / "outside/taken");
        EXPECT_EQ(ended.exit, 2) << ended.out;
        EXPECT_TRUE(has(ended.err, "d/pipe is a named pipe"));
        EXPECT_FALSE(fs::exists(scratch / "outside/taken"));
    }
    EXPECT_EQ(get(sandbox, "d/pipe", "-").exit, 2);
    EXPECT_EQ(get(sandbox, "d/x", scratch / "outside/taken").exit, 0);
}

TEST_P(RoomTrouble, TheStateDirectoryIsNotPutIntoASandboxOfItsOwn) {
    const std::string sandbox = made();
    for (const fs::path& source : {state, scratch.path(), state / "state.db", state / "sandboxes/layers"}) {
        const Ended ended = put(sandbox, source, "copy");
        EXPECT_EQ(ended.exit, 4) << source << ended.out;
        EXPECT_TRUE(has(ended.err, "Gradus")) << ended.err;
    }
    fs::create_symlink(state, scratch / "outside-link");
    EXPECT_EQ(put(sandbox, scratch / "outside-link/sandboxes", "copy").exit, 4);
    EXPECT_TRUE(diff(sandbox).empty());
}

TEST_P(RoomTrouble, WhatIsNotThereIsTheCallersMistake) {
    const std::string sandbox = made();
    for (const char* missing : {"missing", "missing/deeper"}) {
        const Ended ended = put(sandbox, scratch / missing, "there");
        EXPECT_EQ(ended.exit, 2);
        EXPECT_TRUE(has(ended.err, (scratch / "missing").native())) << ended.err;
        EXPECT_FALSE(has(ended.err, "layer")) << ended.err;
    }
    EXPECT_EQ(get(sandbox, "README.md", scratch / "missing/there").exit, 2);
}

TEST_P(RoomTrouble, AProjectWhosePathIsNotTextIsRefusedBeforeAnythingIsMade) {
    const std::string odd = (scratch / "outside/pr\xffoj").native();
    outside("pr\xffoj/f", "f\n");
    for (const Words& words : {Words{"sandbox", "new"}, Words{"try", "--keep", "--", "true"}, Words{"init"}}) {
        Words all{"-C", odd};
        all.insert(all.end(), words.begin(), words.end());
        const Ended ended = gradus(all);
        EXPECT_NE(ended.exit, 0) << ended.out;
        EXPECT_TRUE(has(ended.err, "pr\\xffoj cannot be a project: its path is not UTF-8"));
    }
    EXPECT_FALSE(fs::exists(state / "sandboxes"));
    EXPECT_FALSE(fs::exists(odd + "/gradus.toml"));
}

TEST_P(RoomTrouble, BusyIsOneExitCodeAndAdvisesOnlyWhatTheVerbKnows) {
    const std::string sandbox = made();
    const auto running = startCommand({program(), "sandbox", "exec", sandbox, "--", "sh", "-c", "echo up; sleep 100"});
    waitForUp(*running);
    for (const Words& words : {Words{"sandbox", "exec", sandbox, "--", "true"}, Words{"sandbox", "diff", sandbox},
                               Words{"sandbox", "rm", sandbox}}) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 7) << ended.err;
        EXPECT_TRUE(has(ended.err, "--wait 1m")) << ended.err;
    }
    for (const char* verb : {"apply", "diff"}) {
        const Ended ended = gradus({verb, sandbox});
        EXPECT_EQ(ended.exit, 7) << ended.err;
        EXPECT_FALSE(has(ended.err, "--wait")) << ended.err;
        EXPECT_TRUE(has(ended.err, "call again when it has ended")) << ended.err;
    }
}

TEST_P(RoomTrouble, AProjectThatWasMovedIsNamedWithTheWayBack) {
    const std::string sandbox = made();
    ASSERT_EQ(exec(sandbox, "echo x > f").exit, 0);
    fs::rename(project, scratch / "moved");
    project = scratch / "moved";
    for (const Words& words : {Words{"sandbox", "exec", sandbox, "--", "true"}, Words{"sandbox", "diff", sandbox},
                               Words{"sandbox", "get", sandbox, "f", "-"}}) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 2) << ended.err;
        EXPECT_TRUE(has(ended.err, (scratch / "shop").native() + ", which sandbox " + sandbox + " is a clone of"));
        EXPECT_TRUE(has(ended.err, "put it back there")) << ended.err;
    }
    fs::rename(scratch / "moved", scratch / "shop");
    project = scratch / "shop";
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "f", "-"}).out, "x\n") << "nothing was lost";
}

TEST_P(RoomTrouble, APathIsOfADirectoryOnlyWhereItShowsAllOfIt) {
    const std::string sandbox = made();
    ASSERT_EQ(exec(sandbox, "rm src/main.c; echo x > src/new; mkdir own; echo y > own/y").exit, 0);
    const Json merged = gradusJson({"sandbox", "path", sandbox, "src"});
    EXPECT_EQ(merged["data"]["where"], "merged") << merged.dump();
    EXPECT_TRUE(merged["data"]["path"].is_null());
    EXPECT_EQ(gradus({"sandbox", "path", sandbox, "src"}).exit, 1);
    std::string own = gradus({"sandbox", "path", sandbox, "own"}).out;
    ASSERT_FALSE(own.empty());
    own.pop_back();
    EXPECT_EQ(bytesOf(own + "/y"), "y\n");
}

// The project moves on while somebody wonders about the failure.
TEST_P(RoomTrouble, AFailedCheckIsReopenedOverWhatItSaw) {
    trust("[check.unit]\nrun = [\"sh\", \"-c\", \"cat src/main.c README.md > evidence; exit 1\"]\n");
    EXPECT_EQ(gradus({"check"}).exit, 1);
    shell("echo later > README.md; rm src/main.c; echo new > appeared");
    const Ended reopened = gradus({"reopen", "-q", "e1", "--name", "again"});
    EXPECT_EQ(reopened.exit, 0) << reopened.err;
    EXPECT_EQ(reopened.err, "");
    EXPECT_EQ(exec("again", "cat src/main.c README.md; test ! -e appeared && echo as it was").out,
              "int main(void) { return 0; }\n# Shop\nas it was\n");
    EXPECT_EQ(diff("again"), (std::map<std::string, std::string>{{"evidence", "added"}}));
    EXPECT_TRUE(has(gradus({"sandbox", "show", "again"}).out, "a copy of what the failed check saw"));
}

TEST_P(RoomTrouble, ARaceIsNotRunForNothing) {
    const Ended missing = gradus({"race", "--check", "true", "a=@missing.diff", "b=echo x > x"});
    EXPECT_EQ(missing.exit, 2);
    EXPECT_TRUE(has(missing.err, "missing.diff, the patch of a")) << missing.err;
    const Ended nowhere = gradus({"race", "--check", "true", "a=echo a > a", "b=echo b > b", "--to", "nowhere"});
    EXPECT_EQ(nowhere.exit, 2);
    EXPECT_TRUE(has(nowhere.err, "there is no stage 'nowhere'")) << nowhere.err;
    EXPECT_FALSE(has(nowhere.err, "running")) << nowhere.err;
    trust("[stage.local]\ndriver = \"release-directory\"\npath = \"../release\"\n" + std::string(kPassing));
    EXPECT_EQ(gradus({"race", "a=echo a > a", "--apply"}).exit, 4) << "no stage is the work tree";
    EXPECT_EQ(gradusJson({"race", "ls"})["data"]["races"].size(), 0);
}

TEST_P(RoomTrouble, AServiceWithoutItsDataSaysWhichAndWhatToDo) {
    trust(std::string(kPassing) +
          "[service.db]\nrun = [\"sleep\", \"100\"]\ndata = \"absent\"\n"
          "[service.made]\nrun = [\"sleep\", \"100\"]\ndata = \"made\"\nprepare = [\"sh\", \"-c\", \"exit 3\"]\n");
    const Ended missing = tried("true", {"--service", "db"});
    EXPECT_EQ(missing.exit, 2);
    EXPECT_TRUE(has(missing.err, "service 'db' is to start with the data at")) << missing.err;
    EXPECT_TRUE(has(missing.err, "make that directory")) << missing.err;
    const Ended failed = tried("true", {"--service", "made"});
    EXPECT_EQ(failed.exit, 125);
    EXPECT_TRUE(has(failed.err, "exit code 3")) << failed.err;
    EXPECT_TRUE(has(failed.err, "correct `prepare` of [service.made]")) << failed.err;
}

TEST_P(RoomTrouble, ANetworkIsNamedOnceAndNotInACopyOfTheSystem) {
    const Ended twice = tried("true", {"--network", "allow:a.test:80=127.0.0.1,a.test:80=127.0.0.2"});
    EXPECT_EQ(twice.exit, 2);
    EXPECT_TRUE(has(twice.err, "lead a.test:80 to two places")) << twice.err;
    EXPECT_EQ(tried("true", {"--network", "allow:a.test:80=127.0.0.1,a.test:80=127.0.0.1"}).exit, 0);
    const Ended system = tried("true", {"--system", "--network", "allow:a.test:80=127.0.0.1"});
    EXPECT_EQ(system.exit, 125);
    EXPECT_TRUE(has(system.err, "a copy of the system has no network by name")) << system.err;
    EXPECT_TRUE(has(gradus({"help", "try"}).out, "has no network by name"));
}

// What the rules give to the project's own commands is no reason to refuse a stranger's, nor theirs to have.
TEST_P(RoomTrouble, AnUntrustedCommandGetsNothingThatTheRulesGive) {
    trust(std::string(kPassing) + "[sandbox]\nnetwork = \"host\"\n");
    const Ended ended = tried("ls /sys/class/net; cat /proc/net/dev | wc -l", {"--untrusted"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.err, "no-network")) << ended.err;
    const Ended asked = tried("true", {"--untrusted", "--network", "host"});
    EXPECT_EQ(asked.exit, 125);
    EXPECT_TRUE(has(asked.err, "an untrusted command gets no network")) << asked.err;
}

TEST_P(RoomTrouble, AUserThatIsAddedInACopyOfTheSystemHasAHome) {
    const Ended ended = tried("useradd -m gradustest && ls -A /home", {"--system", "--discard"});
    EXPECT_EQ(ended.out, "gradustest\n") << ended.err << "the homes out here stay hidden";
    EXPECT_FALSE(fs::exists("/home/gradustest"));
}

/// A state directory on a small disk of its own.
class FullRoom : public RoomProgram {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "mounting a small disk needs root";
        enterOwnMounts();
        fs::create_directories(state);
        ASSERT_EQ(::mount("tmpfs", state.c_str(), "tmpfs", 0, "size=32m,mode=0700"), 0);
        RoomProgram::SetUp();
    }
    void TearDown() override { ::umount2(state.c_str(), MNT_DETACH); }

    /// Nothing is left, not even what is set aside for such a day.
    void fill(std::uintmax_t left = 0) {
        fs::remove(state / "ballast");
        const auto room = fs::space(state).available;
        fs::remove(state / "filler");
        const int file = ::open((state / "filler").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ASSERT_EQ(::posix_fallocate(file, 0, static_cast<off_t>(room - left)), 0);
        ::close(file);
    }
    std::uintmax_t room() const { return fs::space(state).available; }
    static constexpr std::uintmax_t kMebibyte = std::uintmax_t{1} << 20;
};
INSTANTIATE_TEST_SUITE_P(Users, FullRoom, testing::Values(As::kSelf), nameOfUser);

TEST_P(FullRoom, RemovingASandboxMakesRoom) {
    const std::string sandbox = made();
    ASSERT_EQ(exec(sandbox, "head -c 8M /dev/zero > big").exit, 0);
    fill();
    const Ended ended = gradus({"sandbox", "rm", sandbox});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_GT(room(), 7 * kMebibyte);
    EXPECT_TRUE(fs::is_empty(state / "sandboxes/trash"));
    EXPECT_EQ(gradusJson({"audit", "verify"})["data"]["kind"], "ok");
}

// The owner of a trial was killed, and its end cannot be recorded before something is deleted.
TEST_P(FullRoom, CollectingDeletesBeforeItRecords) {
    ASSERT_EQ(tried("true", {"--discard"}).exit, 0);
    const auto running = startTry("echo up; sleep 100");
    waitForUp(*running);
    running->stop(SIGKILL);
    fs::create_directories(state / "sandboxes/trash/l9.1.1.1");
    writeBytes(state / "sandboxes/trash/l9.1.1.1/big", std::string(4 * kMebibyte, 'x'));
    fs::create_directories(state / "objects/00");
    fill();
    const Ended ended = gradus({"gc"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.out, "ended 1 sandbox")) << ended.out << ended.err;
    EXPECT_GT(room(), 3 * kMebibyte);
    EXPECT_EQ(gradusJson({"audit", "verify"})["data"]["kind"], "ok");
}

// Nothing is there to delete, and the objects were cut off when they were made.
TEST_P(FullRoom, CollectingSaysWhatItCouldNotDoAndGoesOn) {
    ASSERT_EQ(tried("true", {"--discard"}).exit, 0);
    const auto running = startTry("echo up; sleep 100");
    waitForUp(*running);
    running->stop(SIGKILL);
    fs::create_directories(state / "objects/00");
    fill();
    const Ended ended = gradus({"gc"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.err, "warning: no space left")) << ended.err;
}

TEST_P(FullRoom, WhatWasDiscardedIsInNobodysWay) {
    ASSERT_EQ(tried("true", {"--discard"}).exit, 0);
    fs::create_directories(state / "sandboxes/trash/l9.1.1.1");
    writeBytes(state / "sandboxes/trash/l9.1.1.1/big", std::string(4 * kMebibyte, 'x'));
    fill();
    const Ended ended = tried("echo x > new; echo out");
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_EQ(ended.out, "out\n");
    EXPECT_TRUE(has(ended.err, "kept as s2")) << ended.err;
}

// At whatever point the room ends: the command never ran, and why is said, or its code is passed through.
TEST_P(FullRoom, ACommandThatRanIsNotLostWithTheRecordOfIt) {
    const std::string sandbox = made();
    ASSERT_EQ(exec(sandbox, "echo out").exit, 0);
    int ran = 0;
    for (const std::uintmax_t left : {0U, 4U, 8U, 12U, 16U, 20U, 24U, 28U, 32U, 40U, 48U, 64U}) {
        fs::remove(state / "filler");
        fill(left << 10);
        const Ended ended = exec(sandbox, "echo out; exit 5");
        EXPECT_EQ(ended.exit, ended.out.empty() ? 125 : 5) << left << ended.err;
        if (ended.out.empty()) {
            EXPECT_TRUE(has(ended.err, "no space left")) << ended.err;
            EXPECT_TRUE(has(ended.err, "gradus gc")) << ended.err;
        } else {
            ++ran;
        }
    }
    EXPECT_GT(ran, 0);
    fs::remove(state / "filler");
    EXPECT_EQ(exec(sandbox, "echo out").exit, 0);
    EXPECT_EQ(gradusJson({"audit", "verify"})["data"]["kind"], "ok");
}

}  // namespace
}  // namespace gradus::test
