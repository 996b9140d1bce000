#include "policies/language/rule_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "policies/language/document.h"
#include "store/model/error.h"
#include "tests/policies/language/loading.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class RuleFilesOnDisk : public testing::Test {
  protected:
    RuleFilesOnDisk() {
        std::string pattern = (fs::temp_directory_path() / "gradus-rules-XXXXXX").native();
        project_ = ::mkdtemp(pattern.data());
    }
    ~RuleFilesOnDisk() override { fs::remove_all(project_); }

    void write(const std::string& path, const std::string& bytes) {
        fs::create_directories((project_ / path).parent_path());
        std::ofstream(project_ / path, std::ios::binary) << bytes;
    }

    /// The message and hint of the fault that reading gives.
    std::string fault() {
        try {
            readRuleFiles(project_);
        } catch (const Error& error) {
            EXPECT_FALSE(error.hint().empty()) << error.what();
            return error.what();
        }
        return "no fault";
    }

    fs::path project_;
};

TEST_F(RuleFilesOnDisk, AreThePipelineFileAndItsPoliciesAndNothingElse) {
    write("gradus.toml", "a");
    write(".gradus/policies/team.toml", "b");
    write(".gradus/policies/notes.txt", "c");
    write(".gradus/state", "d");
    const RuleFiles files = readRuleFiles(project_);
    ASSERT_EQ(files.files.size(), 2U);
    EXPECT_EQ(files.files[0], (RuleFile{".gradus/policies/team.toml", "b"}));
    EXPECT_EQ(files.files[1], (RuleFile{"gradus.toml", "a"}));
}

TEST_F(RuleFilesOnDisk, LoadFromMemoryAsTheyWereWhenPinned) {  // PF8
    write("gradus.toml", smallFile());
    const RuleFiles pinned = readRuleFiles(project_);
    write("gradus.toml", smallFile("# edited\n"));
    EXPECT_NE(readRuleFiles(project_).digest(), pinned.digest()) << "any edit asks for trust again";
    EXPECT_TRUE(load(pinned, builtinVocabulary(), {}).pipeline);
}

TEST(RuleFiles, DigestCoversPathsAndBytes) {
    const RuleFiles a{{{"gradus.toml", "x"}}};
    EXPECT_NE(a.digest(), (RuleFiles{{{"gradus.toml", "y"}}}).digest());
    EXPECT_NE(a.digest(), (RuleFiles{{{"gradus.tom", "lx"}}}).digest());
    EXPECT_NE(a.digest(), (RuleFiles{{{"gradus.toml", "x"}, {"z", ""}}}).digest());
}

TEST(RuleFiles, KnowWhichPathsAreRules) {
    EXPECT_TRUE(isRulePath("gradus.toml"));
    EXPECT_TRUE(isRulePath(".gradus/policies/x.toml"));
    EXPECT_TRUE(isRulePath(".gradus"));
    EXPECT_FALSE(isRulePath("sub/gradus.toml"));
    EXPECT_FALSE(isRulePath(".gradus/state"));
}

TEST_F(RuleFilesOnDisk, RefuseToBeMissing) { EXPECT_EQ(fault(), "there is no gradus.toml in " + project_.native()); }

TEST_F(RuleFilesOnDisk, RefuseWhatIsNoFile) {
    const fs::path file = project_ / "gradus.toml";
    fs::create_directory(file);
    EXPECT_EQ(fault(), "the pipeline file " + file.native() + " is a directory, not a file");
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_EQ(fault(), "the pipeline file " + file.native() + " is a named pipe, not a file");
    fs::remove(file);
    fs::create_symlink("/dev/zero", file);
    EXPECT_EQ(fault(), "the pipeline file " + file.native() + " is a device, not a file");
}

TEST_F(RuleFilesOnDisk, RefuseLinksThatLeadNowhere) {
    const fs::path file = project_ / "gradus.toml";
    fs::create_symlink("gradus.toml", file);
    EXPECT_NE(fault().find("symbolic links"), std::string::npos) << fault();
    fs::remove(file);
    fs::create_symlink("nowhere", file);
    EXPECT_NE(fault().find("No such file"), std::string::npos) << fault();
}

TEST_F(RuleFilesOnDisk, RefuseLinksThatLeadOutOfTheProject) {
    const fs::path outside = project_.native() + "-outside";
    fs::create_directories(outside);
    std::ofstream(outside / "rules.toml") << "x";
    fs::create_symlink(outside / "rules.toml", project_ / "gradus.toml");
    EXPECT_NE(fault().find("leads out of the project"), std::string::npos) << fault();
    fs::remove(project_ / "gradus.toml");
    write("real.toml", "x");
    fs::create_symlink("real.toml", project_ / "gradus.toml");
    EXPECT_EQ(fault(), "no fault") << "one within the project is a file of the project";
    fs::create_directories(project_ / ".gradus");
    fs::create_symlink(outside, project_ / ".gradus/policies");
    EXPECT_NE(fault().find("leads out of the project"), std::string::npos) << fault();
    fs::remove(project_ / ".gradus/policies");
    fs::create_directories(project_ / ".gradus/policies");
    fs::create_symlink("../../../" + outside.filename().native() + "/rules.toml", project_ / ".gradus/policies/a.toml");
    EXPECT_NE(fault().find("leads out of the project"), std::string::npos) << fault();
    fs::remove_all(outside);
}

TEST_F(RuleFilesOnDisk, RefuseWhatMayNotBeRead) {
    write("gradus.toml", "x");
    fs::permissions(project_, fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
    fs::permissions(project_ / "gradus.toml", fs::perms::none);
    // Root may read everything, so root looks at it as nobody.
    constexpr uid_t kNobody = 65'534;
    const bool root = ::geteuid() == 0;
    if (root) {
        ASSERT_EQ(::seteuid(kNobody), 0);
    }
    const std::string message = fault();
    if (root) {
        ASSERT_EQ(::seteuid(0), 0);
    }
    EXPECT_NE(message.find("Permission denied"), std::string::npos) << message;
}

TEST_F(RuleFilesOnDisk, RefuseAFileThatIsTooLargeAndAPolicyDirectoryThatIsNone) {
    write("gradus.toml", std::string(kLargestRuleFile + 1, '#'));
    EXPECT_NE(fault().find("larger than 256 KiB"), std::string::npos);
    write("gradus.toml", "x");
    write(".gradus/policies", "a file");
    EXPECT_NE(fault().find("cannot list"), std::string::npos) << fault();
}

TEST_F(RuleFilesOnDisk, ACeilingBelowWhatIsNoDirectoryIsNeverSkipped) {
    std::filesystem::create_symlink("nowhere", project_ / "link");
    std::ofstream(project_ / "file") << "text";
    std::filesystem::create_symlink("file", project_ / "to-file");
    for (const char* parent : {"link", "file", "to-file"}) {
        EXPECT_THROW(readCeiling(project_ / parent / "ceiling.toml"), Error) << parent;
        EXPECT_THROW(readCeiling(project_ / parent / "below/ceiling.toml"), Error) << parent;
    }
}

TEST_F(RuleFilesOnDisk, TheCeilingIsOptionalButNeverSkipped) {
    EXPECT_TRUE(readCeiling(project_ / "ceiling.toml").file.empty());
    EXPECT_TRUE(readCeiling(project_ / "absent/ceiling.toml").file.empty());
    write("ceiling.toml", "soak = \"1m\"\n");
    EXPECT_EQ(readCeiling(project_ / "ceiling.toml").bytes, "soak = \"1m\"\n");
    fs::remove(project_ / "ceiling.toml");
    fs::create_symlink("nowhere", project_ / "ceiling.toml");
    EXPECT_THROW(readCeiling(project_ / "ceiling.toml"), Error);
}

}  // namespace
}  // namespace gradus
