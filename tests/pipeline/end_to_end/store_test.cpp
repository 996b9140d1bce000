// The verbs that look after the store: check, stats, backup, gc.

#include <fcntl.h>
#include <sys/stat.h>

#include "store/objects.h"
#include "tests/pipeline/end_to_end/program.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class StoreVerbs : public ProgramTest {
  protected:
    StoreVerbs() { trusted(); }

    Objects objects() { return {stateDirectory().objects(), clock}; }

    std::vector<fs::path> objectFiles() const {
        std::vector<fs::path> files;
        for (const auto& entry : fs::recursive_directory_iterator(stateDirectory().objects()))
            if (entry.is_regular_file() && entry.path().filename().native().size() > 40) files.push_back(entry.path());
        return files;
    }

    /// Makes every object look as if it had been put in 1970.
    void ageObjects() const {
        const timespec times[2] = {{1, 0}, {1, 0}};
        for (const fs::path& file : objectFiles()) ::utimensat(AT_FDCWD, file.c_str(), times, 0);
    }

    /// Everything in a directory but what a reader may touch.
    static std::map<std::string, std::string> contentOf(const fs::path& root) {
        std::map<std::string, std::string> content;
        for (const auto& entry : fs::recursive_directory_iterator(root))
            if (entry.is_regular_file()) content[fs::relative(entry.path(), root)] = bytesOf(entry.path());
        return content;
    }

    SystemClock clock;
};

// --- check ---

TEST_F(StoreVerbs, CheckOfAWholeStoreIsOk) {
    const Ended ended = run({"store", "check"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.out, "ok  4 events, 1 object"));
}

TEST_F(StoreVerbs, CheckNamesADamagedObject) {
    ASSERT_EQ(objectFiles().size(), 1U);
    const fs::path file = objectFiles().front();
    std::string bytes = bytesOf(file);
    bytes[bytes.size() / 2] ^= 1;
    ::chmod(file.c_str(), 0600);
    writeBytes(file, bytes);
    const Ended ended = run({"store", "check", "--json"});
    EXPECT_EQ(ended.exit, 1);
    EXPECT_EQ(ended.json()["error"]["code"], "damaged");
    EXPECT_TRUE(has(ended.json()["data"]["problems"].dump(), file.filename().native()));
    const Ended status = run({"status"});
    EXPECT_TRUE(has(status.out, "not trusted yet")) << "damaged rules are never in force";
    EXPECT_TRUE(has(status.out, file.filename().native())) << status.out;
    EXPECT_EQ(run({"trust", "--yes"}).exit, 0);
    EXPECT_EQ(run({"store", "check"}).exit, 0) << "trusting again stored them anew";
}

TEST_F(StoreVerbs, CheckNamesAnObjectThatIsGone) {
    fs::remove(objectFiles().front());
    const Ended ended = run({"store", "check"});
    EXPECT_EQ(ended.exit, 1) << ended.out;
    EXPECT_TRUE(has(ended.out + ended.err, "missing"));
    const Ended status = run({"status"});
    EXPECT_TRUE(has(status.out, "the rules that were trusted are gone")) << status.out;
    EXPECT_EQ(run({"trust", "--yes"}).exit, 0);
    EXPECT_EQ(run({"store", "check"}).exit, 0) << "trusting again stored them anew";
}

TEST_F(StoreVerbs, AnOlderSchemaIsBroughtUpToDateByTheFirstVerbThatWrites) {
    {
        Sql sql(state / "state.db", Sql::Mode::kReadWrite);
        std::string script = "pragma foreign_keys = off; pragma user_version = 1;";
        {
            auto rows =
                sql("select name from sqlite_schema where type = 'table' and name not in ('event', 'event_index', "
                    "'clock_step', 'payload', 'redaction', 'signed_checkpoint') and name not like 'sqlite_%'");
            while (rows.step()) script += "drop table " + rows.text(0) + ";";
        }
        sql.script(script);
    }
    EXPECT_EQ(run({"status"}).exit, 6) << "reading changes nothing";
    EXPECT_EQ(run({"store", "rebuild"}).exit, 0);
    EXPECT_EQ(run({"audit", "verify"}).exit, 0);
}

TEST_F(StoreVerbs, NothingIsRebuiltFromAnAlteredLog) {
    edit("update event set body = replace(body, 'person', 'agent') where seq = 2");
    const Ended ended = run({"store", "rebuild"});
    EXPECT_EQ(ended.exit, 4);
    EXPECT_TRUE(has(ended.err, "altered at event 2")) << ended.err;
}

TEST_F(StoreVerbs, CheckNamesADamagedPage) {
    GRADUS_CASES("DL3");
    { Sql(state / "state.db", Sql::Mode::kReadWrite).script("pragma wal_checkpoint(truncate)"); }
    std::string bytes = bytesOf(state / "state.db");
    ASSERT_GT(bytes.size(), 3 * 4096U);
    for (std::size_t at = 2 * 4096; at < 3 * 4096; ++at) bytes[at] = '\x55';
    writeBytes(state / "state.db", bytes);
    const Ended ended = run({"store", "check"});
    EXPECT_TRUE(ended.exit == 1 || ended.exit == 6) << ended.exit << ended.err;
    EXPECT_TRUE(has(ended.out + ended.err, "state.db"));
    EXPECT_TRUE(has(ended.err, "help: "));
}

// --- stats ---

TEST_F(StoreVerbs, StatsCountWhatIsThere) {
    const Json data = runJson({"store", "stats"})["data"];
    EXPECT_EQ(data["home"], state.native());
    EXPECT_EQ(data["counts"]["events"], 4);
    EXPECT_EQ(data["counts"]["projects"], 1);
    EXPECT_EQ(data["objects"], 1);
    EXPECT_GT(data["object_bytes"], 0);
    EXPECT_GT(data["anchor_bytes"], 0);
    EXPECT_TRUE(has(run({"store", "stats"}).out, "events        4"));
}

// --- backup ---

TEST_F(StoreVerbs, ABackupIsAStateDirectoryThatVerifiesAndGoesOn) {
    GRADUS_CASES("DL4");
    const fs::path copy = scratch / "copy";
    ASSERT_EQ(run({"store", "backup", copy}).exit, 0);
    variables["GRADUS_HOME"] = copy;
    EXPECT_EQ(run({"audit", "verify"}).exit, 0);
    EXPECT_EQ(run({"store", "check"}).exit, 0);
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "trusted");
    rules(std::string(kGoodRules) + "# a remark\n");
    EXPECT_EQ(run({"trust", "--yes"}).exit, 0);
    EXPECT_EQ(run({"audit", "verify"}).exit, 0);
    variables["GRADUS_HOME"] = state;
    EXPECT_EQ(events(), 4) << "the original is another one";
}

TEST_F(StoreVerbs, ABackupMayBeNamedRelativelyAndWithASlash) {
    ASSERT_EQ(run({"store", "backup", "../plain"}).exit, 0);
    const Ended ended = run({"store", "backup", "../slash/"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    variables["GRADUS_HOME"] = scratch / "slash";
    EXPECT_EQ(run({"audit", "verify"}).exit, 0);
    EXPECT_EQ(events(), 4);
}

TEST_F(StoreVerbs, ABackupReplacesNothing) {
    fs::create_directories(scratch / "taken");
    writeBytes(scratch / "file", "kept");
    fs::create_symlink("nowhere", scratch / "link");
    for (const char* name : {"taken", "taken/", "file", "link"}) {
        const Ended ended = run({"store", "backup", (scratch / name).native()});
        EXPECT_EQ(ended.exit, 2) << name << ended.err;
        EXPECT_TRUE(has(ended.err, "is there already"));
    }
    EXPECT_TRUE(fs::is_empty(scratch / "taken"));
    EXPECT_EQ(bytesOf(scratch / "file"), "kept");
    EXPECT_EQ(run({"store", "backup", ""}).exit, 2);
    EXPECT_EQ(run({"store", "backup"}).exit, 2);
}

TEST_F(StoreVerbs, ABackupIsNotPutIntoWhatItCopies) {
    fs::create_symlink(state, scratch / "alias");
    fs::create_directory(scratch / "state-elsewhere");
    for (const fs::path& target : {state / "copy", state / "objects/copy", state / "../state/copy", state / "copy/",
                                   scratch / "alias/copy", scratch / "alias/objects/copy"}) {
        const Ended ended = run({"store", "backup", target.native()});
        EXPECT_EQ(ended.exit, 2) << target << ended.err;
        EXPECT_TRUE(has(ended.err, "inside of " + state.native())) << ended.err;
    }
    for (const auto& entry : fs::recursive_directory_iterator(state))
        EXPECT_EQ(entry.path().filename().native().find("copy"), std::string::npos) << entry.path();
    EXPECT_EQ(run({"store", "backup", scratch / "state-elsewhere/copy"}).exit, 0) << "only its name begins alike";
}

TEST_F(StoreVerbs, TheNextStepCanBeTypedWhateverTheBackupIsCalled) {
    const fs::path odd = scratch / "it's a $(touch copy)";
    const Json answer = runJson({"store", "backup", odd.native()});
    const std::string next = answer["next"][0];
    EXPECT_TRUE(has(next, "it'\\''s a $(touch copy)' gradus audit verify"));
    std::string typed = next;
    typed.replace(typed.find(" gradus "), 8, " " GRADUS_PROGRAM " ");
    const Ended ended = start({"sh", "-c", typed})->wait();
    EXPECT_EQ(ended.exit, 0) << typed << ended.err;
    EXPECT_TRUE(has(ended.out, "4 events")) << ended.out;
    EXPECT_FALSE(fs::exists(project / "copy"));
}

TEST_F(StoreVerbs, ANewlineInAPathStaysInItsLine) {
    const fs::path odd = scratch / "two\nerror: lines";
    const Ended made = run({"store", "backup", odd.native()});
    EXPECT_EQ(made.exit, 0) << made.err;
    EXPECT_TRUE(has(made.out, "two\\nerror: lines")) << made.out;
    for (const Words& words : {Words{"store", "backup", odd.native()}, Words{"policy", "lint", odd / "none"}}) {
        const Ended ended = run(words);
        EXPECT_EQ(ended.exit, 2);
        EXPECT_TRUE(has(ended.err, "two\\nerror: lines")) << ended.err;
        EXPECT_EQ(ended.err.find("\nerror: lines"), std::string::npos) << ended.err;
    }
    fs::rename(project, odd / "shop");
    project = odd / "shop";
    const Ended status = run({"status"});
    EXPECT_TRUE(has(status.out, "two\\nerror: lines")) << status.out;
    EXPECT_EQ(runJson({"status"})["data"]["project"], fs::canonical(project).native()) << "exact where it is quoted";
}

TEST_F(StoreVerbs, WhatIsRecordedIsForItsOwnerAlone) {
    run({"audit", "query"});
    for (const char* name : {"state.db", "state.db-wal", "state.db-shm", "audit.key"}) {
        struct stat info {};
        ASSERT_EQ(::stat((state / name).c_str(), &info), 0) << name;
        EXPECT_EQ(info.st_mode & 07777U, 0600U) << name;
    }
}

TEST_F(StoreVerbs, ABackupLeavesAloneWhatOnlyLooksLikeItsOwn) {
    writeBytes(scratch / "copy.part/precious", "kept");
    EXPECT_EQ(run({"store", "backup", scratch / "copy"}).exit, 0);
    EXPECT_EQ(bytesOf(scratch / "copy.part/precious"), "kept");
}

TEST_F(StoreVerbs, ABackupThatCannotBeWrittenLeavesNothing) {
    writeBytes(scratch / "file", "kept");
    const auto before = std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator());
    for (const std::string& target :
         {(scratch / "file/below").native(), std::string("/proc/copy"), std::string("/dev/null/x")}) {
        const Ended ended = run({"store", "backup", target});
        EXPECT_NE(ended.exit, 0) << target << ended.err;
        EXPECT_TRUE(has(ended.err, fs::path(target).parent_path().native())) << ended.err;
        EXPECT_EQ(ended.err.find("bug in gradus"), std::string::npos) << ended.err;
    }
    const auto after = std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator());
    EXPECT_EQ(after - before, 6) << "the outputs of three runs, two files each";
}

TEST_F(StoreVerbs, ABackupOfADamagedDatabaseSaysSo) {
    { Sql(state / "state.db", Sql::Mode::kReadWrite).script("pragma wal_checkpoint(truncate)"); }
    fs::resize_file(state / "state.db", 2 * 4096);
    const Ended ended = run({"store", "backup", scratch / "copy"});
    EXPECT_NE(ended.exit, 0);
    EXPECT_TRUE(has(ended.err, "state.db"));
    EXPECT_FALSE(fs::exists(scratch / "copy"));
}

// --- rebuild, gc ---

TEST_F(StoreVerbs, RebuildOfAWholeStoreChangesNoAnswer) {
    GRADUS_CASES("I13");
    const Json before = runJson({"status"});
    EXPECT_EQ(run({"store", "rebuild"}).exit, 0);
    EXPECT_EQ(runJson({"status"}), before);
    EXPECT_EQ(events(), 4);
}

TEST_F(StoreVerbs, GarbageCollectionKeepsTrustedRulesHoweverOld) {
    const Digest stray = objects().put("nobody refers to this");
    ageObjects();
    const Json data = runJson({"gc"})["data"];
    EXPECT_EQ(data["removed"], 1);
    EXPECT_EQ(data["kept"], 1);
    EXPECT_FALSE(objects().contains(stray));
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "trusted");
    EXPECT_EQ(run({"store", "check"}).exit, 0);
}

TEST_F(StoreVerbs, GarbageCollectionKeepsRulesThatOthersReplaced) {
    rules(std::string(kGoodRules) + "# a remark\n");
    ASSERT_EQ(run({"trust", "--yes"}).exit, 0);
    const Json events = runJson({"audit", "query", "--event", "rules.trusted"})["data"]["events"];
    ASSERT_EQ(events.size(), 2U);
    const fs::path first = objects().pathOf(Digest::fromHex(events[0]["body"]["files"].get<std::string>()).value());
    ageObjects();
    EXPECT_EQ(runJson({"gc"})["data"]["kept"], 2);
    EXPECT_TRUE(fs::exists(first));
    fs::remove(first);
    EXPECT_TRUE(has(run({"store", "check"}).out, first.filename().native())) << "and their loss is seen";
}

TEST_F(StoreVerbs, GarbageCollectionSparesWhatIsYoung) {
    const Digest stray = objects().put("somebody may be about to refer to this");
    EXPECT_EQ(runJson({"gc"})["data"]["removed"], 0);
    EXPECT_TRUE(objects().contains(stray));
}

TEST_F(StoreVerbs, GarbageCollectionRemovesNothingWhileTheDatabaseCannotBeRead) {
    ageObjects();
    writeBytes(state / "state.db", "not a database any more, but long enough to be looked at");
    fs::remove(state / "state.db-wal");
    EXPECT_NE(run({"gc"}).exit, 0);
    EXPECT_EQ(objectFiles().size(), 1U);
}

TEST_F(StoreVerbs, ReadingVerbsLeaveTheStoreAsItIs) {
    const auto before = contentOf(state);
    for (const Words& words :
         {Words{"status"}, Words{"audit", "verify"}, Words{"audit", "query"}, Words{"store", "check"},
          Words{"store", "stats"}, Words{"policy", "show"}, Words{"policy", "lint"}})
        EXPECT_EQ(run(words).exit, 0) << words.front();
    auto after = contentOf(state);
    after["state.db-shm"] = before.contains("state.db-shm") ? before.at("state.db-shm") : "";
    if (!before.contains("state.db-shm")) after.erase("state.db-shm");
    EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace gradus::test
