// A machine that is not as it should be: every verb says what, where and what next, and changes nothing.

#include <sys/stat.h>

#include "tests/pipeline/end_to_end/program.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

const std::vector<Words> kReading{{"status"},         {"audit", "verify"},
                                  {"audit", "query"}, {"store", "check"},
                                  {"store", "stats"}, {"store", "backup", "../copy"},
                                  {"policy", "show"}, {"gc"}};
const std::vector<Words> kWriting{
    {"trust", "--yes"}, {"audit", "redact", "3"}, {"audit", "reanchor"}, {"store", "rebuild"}};

std::vector<Words> everyStoreVerb() {
    std::vector<Words> all = kReading;
    all.insert(all.end(), kWriting.begin(), kWriting.end());
    return all;
}

class Surroundings : public ProgramTest {
  protected:
    /// Every verb that needs the store refuses in the same manner and leaves the file alone.
    void expectRefused(int exit, std::string_view reason) {
        rules();
        const fs::path database = state / "state.db";
        const std::string before = fs::is_regular_file(database) ? bytesOf(database) : "";
        for (const Words& words : everyStoreVerb()) {
            const Ended ended = run(words);
            EXPECT_EQ(ended.exit, exit) << words.front() << ": " << ended.err;
            EXPECT_TRUE(has(ended.err, database.native())) << words.front();
            EXPECT_TRUE(has(ended.err, reason)) << words.front();
            EXPECT_TRUE(has(ended.err, "help: ")) << words.front();
            EXPECT_EQ(fs::is_regular_file(database) ? bytesOf(database) : "", before) << words.front();
        }
        EXPECT_FALSE(fs::exists(state / "objects"));
        EXPECT_FALSE(fs::exists(state / "anchor"));
        EXPECT_FALSE(fs::exists(scratch / "copy"));
    }

    void makeDatabase(std::string_view script) {
        fs::create_directories(state);
        Sql(state / "state.db", Sql::Mode::kReadWrite).script(script);
    }
};

// --- Something else where the database should be ---

TEST_F(Surroundings, ADatabaseOfAnotherProgramIsRefused) {
    makeDatabase("pragma application_id = 4711; create table note (text text); insert into note values ('precious')");
    expectRefused(6, "a database of another program");
}

TEST_F(Surroundings, ADatabaseOfAProgramThatDoesNotSignIsRefused) {
    makeDatabase("create table note (text text)");
    expectRefused(6, "a database of another program");
}

TEST_F(Surroundings, ANewerSchemaIsRefusedNamingBothVersions) {
    makeDatabase("pragma application_id = 1196572996; pragma user_version = 99; create table future (x)");
    expectRefused(6, "has schema 99, this gradus knows schemas up to ");
}

TEST_F(Surroundings, AFileOfRubbishIsRefused) {
    writeBytes(state / "state.db", std::string(10000, 'x'));
    expectRefused(6, "is not an SQLite database");
}

TEST_F(Surroundings, ADirectoryInTheDatabasesPlaceIsRefused) {
    fs::create_directories(state / "state.db");
    expectRefused(6, "is a directory");
}

TEST_F(Surroundings, ANamedPipeInTheDatabasesPlaceIsNeverWaitedFor) {
    fs::create_directories(state);
    ASSERT_EQ(::mkfifo((state / "state.db").c_str(), 0600), 0);
    expectRefused(6, "is a named pipe");
}

// --- Nowhere to keep state ---

TEST_F(Surroundings, WithoutAHomeSaysWhatToSet) {
    rules();
    variables.erase("GRADUS_HOME");
    variables.erase("HOME");
    for (const Words& words : everyStoreVerb()) {
        const Ended ended = run(words);
        EXPECT_EQ(ended.exit, 2) << words.front();
        EXPECT_TRUE(has(ended.err, "there is nowhere to keep state"));
        EXPECT_TRUE(has(ended.err, "help: set GRADUS_HOME"));
    }
}

TEST_F(Surroundings, ARelativeStateDirectoryIsRefused) {
    variables["GRADUS_HOME"] = "state";
    const Ended ended = run({"status"});
    EXPECT_EQ(ended.exit, 2);
    EXPECT_TRUE(has(ended.err, "GRADUS_HOME is 'state', which is not an absolute path"));
    EXPECT_FALSE(fs::exists(project / "state"));
}

TEST_F(Surroundings, AFileInPlaceOfTheStateDirectoryIsNamed) {
    rules();
    writeBytes(state, "kept");
    for (const Words& words : everyStoreVerb()) {
        const Ended ended = run(words);
        EXPECT_EQ(ended.exit, 6) << words.front() << ended.err << ended.out;
        EXPECT_TRUE(has(ended.err, state.native() + " is not a directory")) << words.front();
        EXPECT_TRUE(has(ended.err, "help: ")) << words.front();
    }
    EXPECT_EQ(bytesOf(state), "kept");
}

TEST_F(Surroundings, StateIsFoundThroughHomeAndXdg) {
    variables.erase("GRADUS_HOME");
    trusted();
    EXPECT_TRUE(fs::exists(home / ".local/state/gradus/state.db"));
    variables["XDG_STATE_HOME"] = scratch / "xdg";
    trusted();
    EXPECT_TRUE(fs::exists(scratch / "xdg/gradus/state.db"));
}

TEST_F(Surroundings, ADirectoryThatIsNotThereIsNamed) {
    const Ended ended = run({"-C", "no/such", "status"});
    EXPECT_EQ(ended.exit, 2);
    EXPECT_TRUE(has(ended.err, "-C 'no/such': No such file or directory"));
}

// --- Forbidden ---

class OrdinaryUser : public Surroundings {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
        // Asked from within another program: setpriv itself still has root's rights when it starts one.
        if (start({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x", GRADUS_PROGRAM})
                ->wait()
                .exit != 0)
            GTEST_SKIP() << "an ordinary user cannot reach the program";
        trusted();
        fs::permissions(scratch.path(), fs::perms(0755));
    }
    Ended runAs(const Words& words) {
        Words all{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", GRADUS_PROGRAM};
        all.insert(all.end(), words.begin(), words.end());
        fs::permissions(scratch.path(), fs::perms(0755));
        return start(all)->wait();
    }
    void setModes(unsigned directory, unsigned file) const {
        for (const auto& entry : fs::recursive_directory_iterator(state))
            fs::permissions(entry.path(), fs::perms(entry.is_directory() ? directory : file));
        fs::permissions(state, fs::perms(directory));
    }
};

TEST_F(OrdinaryUser, MayReadAStateDirectoryThatCannotBeWritten) {
    setModes(0555, 0444);
    for (const Words& words : kReading) {
        if (words.front() == "gc" || words.back() == "../copy") continue;
        const Ended ended = runAs(words);
        EXPECT_EQ(ended.exit, 0) << words.front() << " " << words.back() << ": " << ended.err;
    }
}

TEST_F(OrdinaryUser, IsToldThatAStateDirectoryCannotBeWritten) {
    setModes(0555, 0444);
    rules(std::string(kGoodRules) + "# a remark\n");
    for (const Words& words : kWriting) {
        const Ended ended = runAs(words);
        EXPECT_EQ(ended.exit, 6) << words.front() << ": " << ended.err;
        EXPECT_TRUE(has(ended.err, state.native())) << words.front();
        EXPECT_TRUE(has(ended.err, "Permission denied")) << words.front();
    }
    EXPECT_EQ(run({"audit", "verify"}).exit, 0);
}

TEST_F(OrdinaryUser, IsToldThatAStateDirectoryCannotBeEntered) {
    fs::permissions(state, fs::perms(0700));
    for (const Words& words : everyStoreVerb()) {
        const Ended ended = runAs(words);
        EXPECT_EQ(ended.exit, 6) << words.front() << " " << words.back() << ": " << ended.out << ended.err;
        EXPECT_TRUE(has(ended.err, state.native())) << words.front();
        EXPECT_TRUE(has(ended.err, "Permission denied")) << words.front();
        EXPECT_EQ(ended.err.find("bug in gradus"), std::string::npos) << ended.err;
    }
}

TEST_F(OrdinaryUser, IsToldThatABackupCannotGoThere) {
    setModes(0755, 0644);
    const Ended ended = runAs({"store", "backup", scratch / "copy"});
    EXPECT_EQ(ended.exit, 6) << ended.err;
    EXPECT_TRUE(has(ended.err, (scratch / "copy").native()));
    EXPECT_TRUE(has(ended.err, "Permission denied"));
    fs::create_directory(scratch / "locked");
    fs::permissions(scratch / "locked", fs::perms(0700));
    const Ended locked = runAs({"store", "backup", scratch / "locked/copy"});
    EXPECT_EQ(locked.exit, 6) << locked.err;
    EXPECT_EQ(locked.err.find("bug in gradus"), std::string::npos) << locked.err;
}

TEST_F(OrdinaryUser, IsToldThatRulesCannotBeRead) {
    fs::permissions(project / "gradus.toml", fs::perms(0600));
    setModes(0755, 0644);
    const Ended lint = runAs({"policy", "lint"});
    EXPECT_NE(lint.exit, 0);
    EXPECT_TRUE(has(lint.err, "gradus.toml"));
    EXPECT_TRUE(has(lint.err, "Permission denied"));
    const Ended status = runAs({"status"});
    EXPECT_TRUE(has(status.out + status.err, "Permission denied"));
}

// --- The answer ---

TEST_F(Surroundings, EveryVerbAnswersProgramsWithOneEnvelope) {
    trusted();
    std::vector<Words> all = everyStoreVerb();
    for (const Words& more : {Words{"policy", "lint"}, Words{"policy", "schema"}, Words{"version"}, Words{"help"},
                              Words{"completion", "bash"}, Words{"nonsense"}, Words{"audit", "query", "--limit", "x"},
                              Words{"audit", "redact", "77"}, Words{"-C", "/", "status"}, Words{}})
        all.push_back(more);
    for (Words words : all) {
        words.emplace_back("--json");
        const Ended ended = run(words);
        const Json answer = ended.json();
        EXPECT_EQ(answer.value("schema", "").rfind("gradus.v1/", 0), 0U) << ended.out;
        ASSERT_TRUE(answer.contains("ok") && answer["ok"].is_boolean()) << ended.out;
        EXPECT_EQ(answer["ok"].get<bool>(), ended.exit == 0) << ended.out;
        if (answer["ok"].get<bool>()) {
            EXPECT_TRUE(answer.contains("data") && answer["next"].is_array()) << ended.out;
        } else {
            for (const char* field : {"code", "message", "hint", "retryable"})
                EXPECT_TRUE(answer["error"].contains(field)) << field << ended.out;
        }
    }
}

TEST_F(Surroundings, AnAnswerThatCouldNotBeWrittenIsSaidToBeLost) {
    rules();
    givenOut = "/dev/full";
    for (const Words& words :
         {Words{"status"}, Words{"status", "--json"}, Words{"trust", "--yes"}, Words{"audit", "query"},
          Words{"audit", "query", "--ndjson"}, Words{"audit", "verify"}}) {
        const Ended ended = run(words);
        EXPECT_EQ(ended.exit, 6) << words.front() << " " << words.back();
        EXPECT_TRUE(has(ended.err, "No space left on device")) << words.front();
    }
    givenOut.reset();
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "trusted") << "only the answer was lost";
}

TEST_F(Surroundings, TheDemoRunsToItsEndAndTouchesNothing) {
    variables["TMPDIR"] = scratch / "tmp";
    fs::create_directories(scratch / "tmp");
    const Ended ended = run({"demo"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.out, "Everything above was checked while it was shown. Your turn: gradus try"));
    EXPECT_TRUE(fs::is_empty(scratch / "tmp"));
    EXPECT_FALSE(fs::exists(state));
}

}  // namespace
}  // namespace gradus::test
