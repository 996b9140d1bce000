// docs/audit-format.md is enough to verify a log without Gradus: verify_independently.py was written from it, in
// another language and without a line of ours, and has to agree about logs that this program made and others tampered
// with.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <fstream>

#include "store/audit_verify.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::Climb;
using test::SampleStore;
using test::someSubmission;

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

Said verifyIndependently(const fs::path& state, const std::string& more = "") {
    return shell(fmt::format("python3 -I -B '{}/tests/store/verify_independently.py' '{}' {}", GRADUS_SOURCE_DIR,
                             state.native(), more));
}

/// 1 log.started | 2 actor, 3 project | 4 submit "a secret" | 5 redacts 4 | 6.. changes that climb, 33 events a commit
class IndependentVerifier : public testing::Test {
  protected:
    void SetUp() override {
        if (shell("python3 -I -c 'import sqlite3, hashlib'").exit != 0)
            GTEST_SKIP() << "python3 with its sqlite3 module is not installed";
        Store store = sample_.open();
        const Climb climb = Climb::begin(store);
        store.write([&](Writer& w) { w.submit(climb.project, climb.actor, someSubmission("a secret")); });
        store.write([&](Writer& w) { w.redact(4, climb.actor); });
        for (int i = 0; i < 31; ++i) store.write([&](Writer& w) { climb.whole(w, "größer " + std::to_string(i)); });
    }

    /// Without any of the schema's guards.
    void tamper(const std::string& script) {
        Sql sql(sample_.state.database(), Sql::Mode::kReadWrite);
        for (const char* trigger : {"event_is_never_updated", "event_is_never_deleted", "payload_is_never_updated",
                                    "payload_goes_only_by_redaction"})
            sql.script(fmt::format("drop trigger if exists {}", trigger));
        sql.script("pragma foreign_keys = off; " + script);
    }

    Said verdict(const std::string& more = "") { return verifyIndependently(sample_.state.root, more); }

    /// Both verifiers must find it.
    void expectFound(const std::string& words) {
        const Said said = verdict();
        EXPECT_EQ(said.exit, 1) << said.text;
        EXPECT_NE(said.text.find(words), std::string::npos) << said.text;
        auto store = sample_.openForReading();
        EXPECT_NE(verifyAudit(store->sql(), store->anchor()).kind, Tampering::kNone);
    }

    SampleStore sample_;
};

TEST_F(IndependentVerifier, AgreesThatAWholeLogIsWhole) {
    const Said said = verdict();
    EXPECT_EQ(said.exit, 0) << said.text;
    // The checkpoint is signed once, and stands in the database and in the anchor.
    EXPECT_EQ(said.text, "ok: 1028 events, 33 payloads, 1 redactions, 2 signatures, anchored up to event 1028\n");
}

TEST_F(IndependentVerifier, FindsAnEditedBody) {
    tamper("update event set body = replace(body, 'passed', 'failed') where seq = 10");
    expectFound("event 10: its hash does not follow");
}

TEST_F(IndependentVerifier, FindsAnEditOfEveryNumberOfAnEvent) {
    for (const char* column : {"at", "batch", "actor", "project", "change", "promotion"}) {
        tamper(fmt::format("update event set {0} = {0} + 1 where seq = 8", column));
        expectFound("event 8: its hash does not follow");
        tamper(fmt::format("update event set {0} = {0} - 1 where seq = 8", column));
    }
    EXPECT_EQ(verdict().exit, 0);
}

TEST_F(IndependentVerifier, FindsADeletedEvent) {
    tamper("delete from event where seq = 20");
    expectFound("event 20: missing; event 21 stands there");
}

TEST_F(IndependentVerifier, FindsACutTail) {
    tamper("delete from event where seq > 1000");
    expectFound("remembers it, but the log ends at event 1000");
}

TEST_F(IndependentVerifier, FindsAnEditedPayload) {
    tamper("update payload set text = replace(text, 'größer 0', 'kleiner')");
    expectFound("event 6: its payload is not the one that was recorded");
}

TEST_F(IndependentVerifier, FindsAPayloadThatWentWithoutARedaction) {
    tamper("delete from payload where seq = 6");
    expectFound("event 6: its payload is gone without a redaction");
}

TEST_F(IndependentVerifier, FindsAForgedSignature) {
    tamper("update signed_checkpoint set signature = zeroblob(64)");
    expectFound("the signature is not valid");
}

TEST_F(IndependentVerifier, FindsALogThatWasReplacedByAnotherOne) {
    const fs::path kept = sample_.directory / "kept";
    fs::copy_file(sample_.state.anchor(), kept);
    EXPECT_EQ(verdict("--anchor '" + kept.native() + "'").exit, 0);
    SampleStore other;
    other.clock.advance(Milliseconds(1));
    Climb::begin(*std::make_unique<Store>(other.open()));
    // Whole by itself, key, anchor and all; the copy kept elsewhere knows better.
    EXPECT_EQ(verifyIndependently(other.state.root).exit, 0);
    const Said said = verifyIndependently(other.state.root, "--anchor '" + kept.native() + "'");
    EXPECT_EQ(said.exit, 1) << said.text;
}

TEST_F(IndependentVerifier, HoldsSignaturesToAKeyThatWasNotedElsewhere) {
    auto store = sample_.openForReading();
    auto row = store->sql()("select lower(hex(public_key)) from signed_checkpoint");
    ASSERT_TRUE(row.step());
    EXPECT_EQ(verdict("--public-key " + row.text(0)).exit, 0);
    const Said said = verdict("--public-key " + std::string(64, '0'));
    EXPECT_EQ(said.exit, 1);
    EXPECT_NE(said.text.find("signed by a key that is not the log's"), std::string::npos) << said.text;
}

TEST_F(IndependentVerifier, SaysWhatItCannotRead) {
    EXPECT_EQ(verifyIndependently(sample_.directory / "nowhere").exit, 2);
    std::ofstream(sample_.state.anchor(), std::ios::trunc) << "something else\n";
    EXPECT_EQ(verdict().exit, 1);
}

}  // namespace
}  // namespace gradus
