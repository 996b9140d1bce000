// The journal's bytes: what counts when they are cut off, changed, or somebody else's.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "stages/changes/tree_writer.h"
#include "store/model/canonical.h"
#include "store/model/error.h"
#include "tests/stages/changes/tree_rig.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class TreeWriterJournal : public testing::Test {
  protected:
    void SetUp() override {
        rig_.reset({{"f", file("old")}});
        TreeWriter writer = rig_.writer();
        ref_ = writer.seal(writer.plan(rig_.changesTo({{"f", file("new")}, {"g", file("new")}})));
    }
    fs::path journalFile() const { return rig_.journals() / (ref_.name + ".journal"); }
    std::string bytes() const {
        std::ifstream in(journalFile(), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write(const std::string& bytes) const { std::ofstream(journalFile(), std::ios::binary) << bytes; }
    ErrorCode codeOf(const JournalRef& ref) {
        try {
            static_cast<void>(rig_.writer().stateOf(ref));
        } catch (const Error& error) {
            return error.code();
        }
        return ErrorCode::kUsage;
    }

    TreeRig rig_;
    JournalRef ref_;
};

TEST_F(TreeWriterJournal, SaysWhereTheChangeStands) {
    EXPECT_EQ(rig_.writer().stateOf(ref_), WriteState::kSealed);
    rig_.writer().apply(ref_);
    EXPECT_EQ(rig_.writer().stateOf(ref_), WriteState::kApplied);
    rig_.writer().undo(ref_);
    EXPECT_EQ(rig_.writer().stateOf(ref_), WriteState::kUndone);
}

// The format of docs/writing.md, read by hand.
TEST_F(TreeWriterJournal, IsAChainOfCanonicalRecords) {
    std::string rest = bytes();
    Digest chain;
    for (const std::string kind : {"planned", "sealed"}) {
        std::size_t length = 0;
        for (std::size_t i = 4; i-- > 0;) length = length << 8 | static_cast<unsigned char>(rest[i]);
        const std::string record = rest.substr(4, length);
        EXPECT_TRUE(record.starts_with(Canonical("gradus.journal.1").text(kind).bytes()));
        chain = sha256(std::string(chain.view()) + record);
        EXPECT_EQ(rest.substr(4 + length, 32), chain.view());
        rest.erase(0, 4 + length + 32);
    }
    EXPECT_TRUE(rest.empty());
    EXPECT_EQ(ref_.seal, chain);
}

TEST_F(TreeWriterJournal, TakesARecordThatWasCutOffForNoneAndWritesOverIt) {
    const std::size_t sealed = bytes().size();
    rig_.writer().apply(ref_);
    const std::string whole = bytes();
    for (std::size_t length = sealed; length < whole.size(); ++length) {
        write(whole.substr(0, length));
        EXPECT_EQ(rig_.writer().stateOf(ref_), WriteState::kSealed) << length;
    }
    rig_.writer().recover(ref_);
    EXPECT_EQ(rig_.writer().stateOf(ref_), WriteState::kUndone);
    EXPECT_EQ(plain(rig_.now()), (Tree{{"f", file("old")}}));
}

TEST_F(TreeWriterJournal, WithoutASealNothingWasTouchedAndNothingIsUndone) {
    const std::string whole = bytes();
    const JournalRef unknown{ref_.name, std::nullopt};
    const Tree before = rig_.now();
    for (std::size_t length = 0; length < whole.size(); ++length) {
        write(whole.substr(0, length));
        EXPECT_EQ(rig_.writer().stateOf(unknown), WriteState::kPlanned) << length;
    }
    EXPECT_TRUE(rig_.writer().recover(unknown).kept.empty());
    EXPECT_EQ(rig_.now(), before);
    EXPECT_EQ(codeOf(ref_), ErrorCode::kDamaged);
}

TEST_F(TreeWriterJournal, NoticesEveryChangedByteForWhoRemembersTheSeal) {
    const std::string whole = bytes();
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::string hurt = whole;
        hurt[at] ^= 1;
        write(hurt);
        EXPECT_EQ(codeOf(ref_), ErrorCode::kDamaged) << at;
    }
}

TEST_F(TreeWriterJournal, BelongsToOneDirectory) {
    RealFileOperations files;
    SystemRandom random;
    TreeWriter other(rig_.outside(), rig_.journals(), rig_.objects(), files, random);
    EXPECT_THROW(other.undo(ref_), Error);
    EXPECT_EQ(codeOf({"no-such", std::nullopt}), ErrorCode::kNotFound);
    EXPECT_EQ(codeOf({"../" + ref_.name, std::nullopt}), ErrorCode::kNotFound);
}

TEST_F(TreeWriterJournal, IsFoundAgainAndCanBeForgotten) {
    RealFileOperations files;
    JournalDirectory journals(rig_.journals(), files);
    ASSERT_EQ(journals.list().size(), 1U);
    EXPECT_EQ(journals.read(journals.list().front()).ref(), ref_);
    journals.remove(ref_);
    EXPECT_TRUE(journals.list().empty());
}

// The very files that were taken out are still there after a crash, so that even without the undo object all comes
// back.
TEST_F(TreeWriterJournal, NeedsTheUndoObjectOnlyWhenTheTemporariesAreGone) {
    const Tree before = rig_.now();
    WatchedOperations files([](std::size_t, std::string_view call, std::string_view) {
        if (call == "exchange") dieNow();
        return 0;
    });
    inChild([&] { rig_.writer(files).apply(ref_); });
    RealFileOperations real;
    const Digest undo = JournalDirectory(rig_.journals(), real).read(ref_).undo;
    fs::remove(rig_.objects().pathOf(undo));
    EXPECT_TRUE(rig_.writer().recover(ref_).kept.empty());
    EXPECT_EQ(rig_.now(), before);
}

}  // namespace
}  // namespace gradus::test
