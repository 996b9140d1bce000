// An export proves itself: both verifiers, ours and the one in Python, must find what was done to the file, and say
// that a file is whole which nobody touched.

#include "store/audit_export.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "store/audit_log.h"
#include "store/export_line.h"
#include "store/export_verify.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/signing.h"
#include "tests/store/tamper_rig.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someSubmission;
using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

struct Said {
    int exit = 0;
    std::string text;
};

Said shell(const std::string& command) {
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return {127, "popen failed"};
    Said said;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said.text += static_cast<char>(c);
    const int status = ::pclose(pipe);
    said.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    return said;
}

/// A log that was made once: 1 log.started | 2 actor, 3 project | 4 "a secret" | 5 redacts 4 | 6.. changes that climb,
/// 33 events a commit, 1028 in all, signed once.
struct LongLog {
    SampleStore sample;
    Store store = sample.open();
    Climb climb = Climb::begin(store);

    LongLog() {
        store.write([&](Writer& w) { w.submit(climb.project, climb.actor, someSubmission("a secret")); });
        store.write([&](Writer& w) { w.redact(4, climb.actor); });
        for (int i = 0; i < 31; ++i) {
            sample.clock.advance(std::chrono::minutes(1));
            store.write([&](Writer& w) { climb.whole(w, "größer " + std::to_string(i)); });
        }
    }
};
LongLog& longLog() {
    static LongLog log;
    return log;
}

class ExportTest : public testing::Test {
  protected:
    AuditExport exported(const ExportSelection& selection = {}) {
        LongLog& log = longLog();
        return exportAudit(log.store.sql(), log.store.anchor(), selection, log.sample.clock.now(), file_, {});
    }
    Lines lines() const { return linesOf(file_); }
    void lines(const Lines& all) const { writeLines(file_, all); }
    ExportVerdict verdict(const ExportWitness& witness = {}) const { return verifyExport(file_, witness); }
    Said independently(const std::string& more = "") const {
        return shell(fmt::format("python3 -I -B '{}/tests/store/verify_independently.py' --export '{}' {}",
                                 GRADUS_SOURCE_DIR, file_.native(), more));
    }
    static bool hasPython() {
        static const bool kHas = shell("python3 -I -c 'import hashlib'").exit == 0;
        return kHas;
    }

    void expectPythonSays(int exit) const {
        if (!hasPython()) return;
        const Said said = independently();
        EXPECT_EQ(said.exit, exit) << said.text;
    }
    void expectWhole() const {
        EXPECT_EQ(verdict().audit.kind, Tampering::kNone) << verdict().audit.detail;
        expectPythonSays(0);
    }
    void expectFound(Tampering kind, std::int64_t seq) const {
        const AuditVerdict found = verdict().audit;
        EXPECT_EQ(nameOf(kTamperings, found.kind), nameOf(kTamperings, kind)) << found.detail;
        EXPECT_EQ(found.seq, seq) << found.detail;
        expectPythonSays(1);
    }

    /// Line 0 is the header, line n event n of an export from the beginning.
    void edit(std::size_t line, const std::function<void(Json&)>& change) const {
        Lines all = lines();
        Json json = Json::parse(all.at(line));
        change(json);
        all.at(line) = json.dump();
        lines(all);
    }
    /// Makes the chain whole again, from that event on.
    void rechain(std::int64_t from) const {
        Lines all = lines();
        ChainHasher hasher;
        Digest previous;
        if (from > 1) previous = ExportLine::decode(all.at(static_cast<std::size_t>(from - 1)))->hash;
        for (auto at = static_cast<std::size_t>(from); at < all.size(); ++at) {
            ExportLine line = *ExportLine::decode(all[at]);
            line.hash = previous = hasher.link(previous, line.fields());
            all[at] = line.encode();
            all[at].pop_back();
        }
        lines(all);
    }

    test::ScratchDirectory scratch_;
    fs::path file_ = scratch_ / "log.ndjson";
};

TEST_F(ExportTest, OfEverythingIsWhole) {
    const AuditExport report = exported();
    EXPECT_EQ(report.events, 1028);
    EXPECT_EQ(report.payloads, 33);
    EXPECT_EQ(report.redacted, 1);
    EXPECT_EQ(report.withheld, 0);
    expectWhole();
    const ExportVerdict found = verdict();
    EXPECT_EQ(found.audit.events, 1028);
    EXPECT_EQ(found.audit.payloads, 33);
    EXPECT_EQ(found.audit.redacted, 1);
    EXPECT_EQ(found.audit.signatures, 1);
    EXPECT_EQ(found.anchoredThrough, 1028);
    if (!hasPython()) return;
    EXPECT_EQ(independently().text, "ok: 1028 events, 33 payloads, 1 redacted, 0 withheld, 1 signatures\n");
}

TEST_F(ExportTest, IsPrivateAndNeverReplacesAnything) {
    exported();
    struct stat info {};
    ASSERT_EQ(::stat(file_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
    const Lines before = lines();
    EXPECT_THROW(exported(), Error);
    EXPECT_EQ(lines(), before);
    fs::remove(file_);
    fs::create_symlink("nowhere", file_);
    EXPECT_THROW(exported(), Error);
    EXPECT_EQ(fs::read_symlink(file_), "nowhere");
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1) << "nothing half-written is left";
}

TEST_F(ExportTest, LeavesWhatAnotherPutThereMeanwhile) {
    LongLog& log = longLog();
    const auto meanwhile = [&](std::int64_t, std::int64_t) { writeLines(file_, {"somebody else's"}); };
    EXPECT_THROW(exportAudit(log.store.sql(), log.store.anchor(), {}, log.sample.clock.now(), file_, meanwhile), Error);
    EXPECT_EQ(lines(), Lines{"somebody else's"});
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path()), {}), 1);
}

TEST_F(ExportTest, OfNothingIsRefusedAndLeavesNothing) {
    EXPECT_THROW(exported({.since = 1, .until = 2}), Error);
    EXPECT_THROW(exported({.change = 999}), Error);
    EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(ExportTest, OfAPeriodBeginsInTheMiddleAndGoesOnToASignature) {
    const std::int64_t minute = 60'000;
    const std::int64_t end = toMillis(longLog().sample.clock.now());
    const AuditExport report = exported({.since = end - 3 * minute, .until = end - 2 * minute});
    EXPECT_GT(report.header.first, 1);
    EXPECT_EQ(report.payloads, 1);
    expectWhole();
    const ExportVerdict found = verdict();
    EXPECT_EQ(found.header.last, found.audit.signedThrough > 0 ? found.audit.signedThrough : found.header.last);
}

TEST_F(ExportTest, OfOneChangeHoldsTheTextsOfThatAlone) {
    const AuditExport report = exported({.change = 3});
    EXPECT_EQ(report.payloads, 1);
    EXPECT_GT(report.withheld, 0) << "it goes on to the next signature, without the texts of others";
    EXPECT_EQ(report.header.last, verdict().audit.signedThrough);
    expectWhole();
    const std::string text = test::someSubmission("größer 2").title;
    std::size_t texts = 0;
    for (const std::string& line : lines()) texts += line.find("\"payload\":") != std::string::npos ? 1 : 0;
    EXPECT_EQ(texts, 1U);
}

TEST_F(ExportTest, AnEditedEventIsAltered) {
    exported();
    edit(10, [](Json& event) { event["batch"] = event["batch"].get<int>() + 1; });
    expectFound(Tampering::kAltered, 10);
}

TEST_F(ExportTest, EveryFieldCounts) {
    exported();
    const Lines whole = lines();
    for (const char* field : {"at", "actor", "project", "change", "promotion"}) {
        edit(8, [&](Json& event) { event[field] = event[field].get<std::int64_t>() + 1; });
        expectFound(Tampering::kAltered, 8);
        lines(whole);
    }
    for (const char* field : {"kind", "stage", "body"}) {
        edit(8, [&](Json& event) { event[field] = event[field].get<std::string>() + "x"; });
        expectFound(Tampering::kAltered, 8);
        lines(whole);
    }
    edit(8, [&](Json& event) { event["actor"] = nullptr; });
    expectFound(Tampering::kAltered, 8);
}

TEST_F(ExportTest, ALineThatIsNoEventIsAltered) {
    exported();
    const Lines whole = lines();
    for (const char* line : {"", "{}", "[]", "null", "not json", "{\"seq\":20,\"seq\":20}"}) {
        Lines all = whole;
        all.at(20) = line;
        lines(all);
        expectFound(Tampering::kAltered, 20);
    }
}

TEST_F(ExportTest, AMissingLineIsDeleted) {
    exported();
    Lines all = lines();
    all.erase(all.begin() + 20);
    lines(all);
    expectFound(Tampering::kDeleted, 20);
}

TEST_F(ExportTest, LinesThatChangedPlacesAreReordered) {
    exported();
    Lines all = lines();
    std::swap(all.at(20), all.at(22));
    lines(all);
    expectFound(Tampering::kReordered, 20);
}

TEST_F(ExportTest, ALineTwiceIsInserted) {
    exported();
    Lines all = lines();
    all.insert(all.begin() + 21, all.at(20));
    lines(all);
    expectFound(Tampering::kInserted, 20);
}

TEST_F(ExportTest, AForgedEventWithRoomMadeForItIsInserted) {
    exported();
    Lines all = lines();
    Json forged = Json::parse(all.at(20));
    forged["body"] = "{}";
    forged["hash"] = std::string(64, '0');
    for (std::size_t at = 20; at < all.size(); ++at) {
        Json event = Json::parse(all[at]);
        event["seq"] = event["seq"].get<int>() + 1;
        all[at] = event.dump();
    }
    all.insert(all.begin() + 20, forged.dump());
    lines(all);
    edit(0, [](Json& header) { header["last"] = header["last"].get<int>() + 1; });
    expectFound(Tampering::kInserted, 20);
}

TEST_F(ExportTest, ACutTailIsTruncated) {
    exported();
    const Lines whole = lines();
    Lines all = whole;
    all.resize(1001);
    lines(all);
    expectFound(Tampering::kTruncated, 1001);
    edit(0, [](Json& header) { header["last"] = 1000; });
    expectFound(Tampering::kTruncated, 1001);
}

TEST_F(ExportTest, ATornLastLineIsTruncated) {
    exported();
    fs::resize_file(file_, fs::file_size(file_) - 10);
    expectFound(Tampering::kTruncated, 1028);
}

TEST_F(ExportTest, AnEventBehindTheLastIsInserted) {
    exported();
    Lines all = lines();
    ExportLine more = *ExportLine::decode(all.back());
    ++more.numbers.seq;
    more.hash = ChainHasher().link(more.hash, more.fields());
    all.push_back(more.encode());
    all.back().pop_back();
    lines(all);
    expectFound(Tampering::kInserted, 1029);
}

TEST_F(ExportTest, AWholeNewChainIsRewritten) {
    exported();
    edit(1020, [](Json& event) { event["body"] = "{\"check\":\"unit\"}"; });
    rechain(1020);
    expectFound(Tampering::kRewritten, 1028);
    edit(0, [&](Json& header) { header["head"]["hash"] = ExportLine::decode(lines().back())->hash.hex(); });
    expectFound(Tampering::kRewritten, 1028);
    edit(0, [](Json& header) { header["signed"] = Json::array(); });
    expectFound(Tampering::kRewritten, 1028);
}

TEST_F(ExportTest, AForgedSignatureIsRewritten) {
    exported();
    edit(0, [](Json& header) { header["signed"][0]["signature"] = std::string(128, '0'); });
    expectFound(Tampering::kRewritten, verdict().header.signedPoints.front().point.seq);
}

// Anchor and signatures taken out, the rest made to fit: what was kept elsewhere still knows.
TEST_F(ExportTest, WhatWasKeptElsewhereIsBelievedMore) {
    exported();
    const auto anchor = longLog().store.anchor().read();
    const std::string key = verdict().header.signedPoints.front().publicKey;
    EXPECT_EQ(verdict({.publicKey = key, .anchor = anchor}).audit.kind, Tampering::kNone);
    EXPECT_EQ(verdict({.publicKey = std::string(32, 'k')}).audit.kind, Tampering::kRewritten);
    edit(0, [](Json& header) {
        header["signed"] = Json::array();
        header["anchors"] = Json::array();
    });
    edit(1020, [](Json& event) { event["body"] = "{\"check\":\"unit\"}"; });
    rechain(1020);
    edit(0, [&](Json& header) { header["head"]["hash"] = ExportLine::decode(lines().back())->hash.hex(); });
    EXPECT_EQ(verdict().audit.kind, Tampering::kNone) << "nothing in the file vouches for it any more";
    EXPECT_EQ(verdict({.anchor = anchor}).audit.kind, Tampering::kRewritten);
    if (!hasPython()) return;
    EXPECT_EQ(independently().exit, 0);
    const std::string kept = longLog().sample.state.anchor().native();
    EXPECT_EQ(independently("--anchor '" + kept + "'").exit, 1);
}

TEST_F(ExportTest, AnotherLogsAnchorIsRewritten) {
    exported();
    auto anchor = longLog().store.anchor().read();
    anchor->storeId = std::string(32, '0');
    EXPECT_EQ(verdict({.anchor = anchor}).audit.kind, Tampering::kRewritten);
    edit(0, [](Json& header) { header["store"] = std::string(32, '0'); });
    expectFound(Tampering::kRewritten, 1);
}

TEST_F(ExportTest, AnEditedTextIsAltered) {
    exported();
    edit(6, [](Json& event) { event["payload"] = "{\"title\":\"kleiner\"}"; });
    expectFound(Tampering::kAltered, 6);
}

TEST_F(ExportTest, ATextThatIsGoneIsDeleted) {
    exported();
    edit(6, [](Json& event) {
        event.erase("payload");
        event.erase("salt");
    });
    expectFound(Tampering::kDeleted, 6);
    edit(6, [](Json& event) { event["redacted_by"] = 5; });
    expectFound(Tampering::kDeleted, 6);
}

TEST_F(ExportTest, ATextThatWasNeverThereIsInserted) {
    exported();
    edit(7, [](Json& event) {
        event["salt"] = std::string(32, '0');
        event["payload"] = "{}";
    });
    expectFound(Tampering::kInserted, 7);
}

TEST_F(ExportTest, SaysWhatIsNoExport) {
    EXPECT_THROW(verdict(), Error);
    for (const char* text : {"", "\n", "{}\n", "[1]\n", "{\"schema\":\"gradus.v1/audit-export\",\"format\":2}\n"}) {
        std::ofstream(file_, std::ios::trunc) << text;
        EXPECT_THROW(verdict(), Error) << text;
    }
    EXPECT_THROW(verifyExport(scratch_.path(), {}), Error);
}

TEST(AuditExportOfADamagedLog, IsRefused) {
    TamperedStore damaged(shortLog());
    Tamperer(damaged.state).run("update event set body = '{}' where seq = 9");
    Sql sql(damaged.state.database(), Sql::Mode::kReadOnly);
    test::ScratchDirectory scratch;
    EXPECT_THROW(exportAudit(sql, FileAnchor(damaged.state.anchor()), {}, Time{}, scratch / "out", {}), Error);
    EXPECT_TRUE(fs::is_empty(scratch.path()));
}

}  // namespace
}  // namespace gradus
