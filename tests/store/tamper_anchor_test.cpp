// The anchor file alone: what a crash leaves of it, and what is not an anchor at all.
#include <sys/stat.h>

#include "store/model/error.h"
#include "tests/store/tamper_rig.h"

namespace gradus {
namespace {

using enum Tampering;
using test::Climb;
using test::SampleStore;

TEST(Tamper, AnAnchorThatLagsByTheLastCommitIsWhatACrashLeaves) {
    const TamperedStore store(shortLog());
    const AuditVerdict verdict = store.tamperAndVerify([](Tamperer& t) { t.forgetNewestAnchorLines(1); });
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 1);
}

TEST(Tamper, AnAnchorThatLagsByACommitOfSeveralEventsIsWhatACrashLeaves) {
    SampleStore sample;
    Store store = sample.open();
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) { climb.whole(w, "Fix the login"); });
    Tamperer(sample.state).forgetNewestAnchorLines(1);
    const AuditVerdict verdict = verifyAudit(store.sql(), store.anchor());
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 33);
}

TEST(Tamper, ALineTornByACrashOnlyMakesTheAnchorLag) {
    const TamperedStore store(shortLog());
    fs::resize_file(store.state.anchor(), fs::file_size(store.state.anchor()) - 5);
    const AuditVerdict verdict = store.verify();
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 1);
}

TEST(Tamper, ZerosLeftAtTheAnchorsEndByAPowerCutAreCutOff) {
    SampleStore sample;
    Climb::begin(*std::make_unique<Store>(sample.open()));
    std::ofstream(sample.state.anchor(), std::ios::app) << std::string(4000, '\0');
    Store store = sample.open();
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) { climb.whole(w, "Fix the login"); });
    const AuditVerdict verdict = verifyAudit(store.sql(), store.anchor());
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 0);
}

struct BadAnchor {
    std::string name;
    std::function<void(const fs::path&)> make;
    std::string message;  ///< after the path
};
std::ostream& operator<<(std::ostream& out, const BadAnchor& row) { return out << row.name; }

std::function<void(const fs::path&)> appendToAnchor(const std::string& text) {
    return [=](const fs::path& path) { std::ofstream(path, std::ios::app) << text; };
}

const std::vector<BadAnchor>& badAnchors() {
    static const std::vector<BadAnchor> kRows{
        {"Garbage",
         [](const fs::path& path) {
             writeLines(path, {"hello", "world"});
         },
         ":1: this is not an anchor file of gradus"},
        {"Empty", [](const fs::path& path) { writeLines(path, {}); }, ":1: the anchor file has no header"},
        {"GarbageLine", appendToAnchor("hello world\n"), ":19: the line is not an anchor point"},
        {"NumberTooLarge", appendToAnchor("99999999999999999999 " + std::string(64, 'a') + "\n"), ":19: "},
        {"NegativeNumber", appendToAnchor("-4 " + std::string(64, 'a') + "\n"), ":19: "},
        {"ShortHash", appendToAnchor("26 abcdef\n"), ":19: "},
        {"UpperCaseHash", appendToAnchor("26 " + std::string(64, 'A') + "\n"), ":19: "},
        {"GoesBack", appendToAnchor("20 " + std::string(64, 'a') + "\n"),
         ":19: the line is not an anchor point, or goes back"},
        {"ShortSignature", appendToAnchor("signed 25 " + std::string(64, 'a') + " ab cd\n"), ":19: "},
        {"Directory",
         [](const fs::path& path) {
             fs::remove(path);
             fs::create_directory(path);
         },
         " is a directory, not a file"},
        {"NamedPipe",
         [](const fs::path& path) {
             fs::remove(path);
             ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
         },
         " is a named pipe, not a file"},
        {"LinkToItself",
         [](const fs::path& path) {
             fs::remove(path);
             fs::create_symlink(path, path);
         },
         ": Too many levels of symbolic links"},
    };
    return kRows;
}

class TamperedAnchor : public testing::TestWithParam<BadAnchor> {};

TEST_P(TamperedAnchor, IsAnErrorThatNamesTheFileAndTheLine) {
    const TamperedStore store(shortLog());
    GetParam().make(store.state.anchor());
    try {
        store.verify();
        FAIL() << "verified";
    } catch (const Error& e) {
        const std::string text = e.what();
        EXPECT_NE(text.find(store.state.anchor().native() + GetParam().message), std::string::npos) << text;
    }
}

INSTANTIATE_TEST_SUITE_P(Bad, TamperedAnchor, testing::ValuesIn(badAnchors()),
                         [](const testing::TestParamInfo<BadAnchor>& row) { return row.param.name; });

}  // namespace
}  // namespace gradus
