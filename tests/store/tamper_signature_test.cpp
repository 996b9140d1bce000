// Signed checkpoints, of a log long enough to have one.
#include "store/signing.h"
#include "tests/store/tamper_rig.h"

namespace gradus {
namespace {

using enum Tampering;
using test::Climb;
using test::SampleStore;

void fillLongLog(Store& store) {
    const Climb climb = Climb::begin(store);
    for (int i = 0; i < 8; ++i)
        store.write([&](Writer& w) {
            for (int k = 0; k < 4; ++k) climb.whole(w, fmt::format("change {}.{}", i, k));
        });
}

class TamperedSignature : public testing::Test {
  protected:
    static const StateDirectory& longLog() {
        static SampleStore sample;
        static const bool kFilled = [] {
            Store filled = sample.open();
            fillLongLog(filled);
            return true;
        }();
        EXPECT_TRUE(kFilled);
        return sample.state;
    }
    TamperedStore store{longLog()};
    static constexpr std::int64_t kSigned = 1059;  // 3 events of Climb::begin, then 8 commits of 132

    void expectRewritten(const std::function<void(Tamperer&)>& tamper, std::int64_t seq = kSigned) {
        const AuditVerdict verdict = store.tamperAndVerify(tamper);
        EXPECT_EQ(nameOf(kTamperings, verdict.kind), "rewritten") << verdict.detail;
        EXPECT_EQ(verdict.seq, seq) << verdict.detail;
    }
    /// The line of the anchor that holds the signature.
    static std::size_t signedLine(const Tamperer& t) {
        const auto lines = t.anchor();
        for (std::size_t i = 0; i < lines.size(); ++i)
            if (lines[i].starts_with("signed ")) return i;
        ADD_FAILURE() << "no signed line";
        return 0;
    }
    static void rechainAfterAnEdit(Tamperer& t) {
        t.run("update event set at = at + 1 where seq = 20");
        t.rechain();
        t.rebuildState();
    }
};

TEST_F(TamperedSignature, IsGenuineAtFirst) {
    const AuditVerdict verdict = store.verify();
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.signatures, 2);
}

TEST_F(TamperedSignature, WithAnEditedSignatureIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set signature = zeroblob(64)"); });
}

TEST_F(TamperedSignature, WithAnEditedHashIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set hash = zeroblob(32)"); });
}

TEST_F(TamperedSignature, WithAnEditedKeyIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set public_key = zeroblob(32)"); });
}

TEST_F(TamperedSignature, MovedToAnotherEventIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set seq = 5"); }, 5);
}

TEST_F(TamperedSignature, CutShortIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set signature = zeroblob(3)"); });
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set hash = zeroblob(3)"); });
}

TEST_F(TamperedSignature, MadeWithAnotherKeyIsFound) {
    expectRewritten([&](Tamperer& t) {
        const SigningKey forger = SigningKey::create(store.state.root / "forger.key");
        const auto id = FileAnchor(store.state.anchor()).read()->storeId;
        AnchorPoint point{kSigned, {}};
        {
            auto row = t.sql()("select hash from event where seq = ?", kSigned);
            ASSERT_TRUE(row.step());
            point.hash = row.digest(0);
        }
        const SignedPoint forged = forger.sign(id, point);
        auto update = t.sql()("update signed_checkpoint set public_key = ?, signature = ?");
        update.bindBlob(forged.publicKey).bindBlob(forged.signature).run();
    });
}

TEST_F(TamperedSignature, EditedInTheAnchorIsFound) {
    expectRewritten([](Tamperer& t) {
        auto lines = t.anchor();
        std::string& line = lines[signedLine(t)];
        line.back() = line.back() == '0' ? '1' : '0';
        t.anchor(lines);
    });
}

TEST_F(TamperedSignature, ContradictsARewrittenLogWhoseAnchorIsGone) {
    expectRewritten([](Tamperer& t) {
        rechainAfterAnEdit(t);
        fs::remove(t.state().anchor());
    });
}

TEST_F(TamperedSignature, InTheAnchorContradictsALogRewrittenTogetherWithItsPoints) {
    expectRewritten([](Tamperer& t) {
        rechainAfterAnEdit(t);
        t.run("delete from signed_checkpoint");
        auto lines = t.anchor();
        t.anchor({lines.front(), lines[signedLine(t)]});
    });
}

TEST_F(TamperedSignature, OfADeletionOfMoreThanAScreenfulIsStillCalledADeletion) {
    const AuditVerdict verdict = store.tamperAndVerify([](Tamperer& t) {
        t.run("delete from event where seq between 100 and 299; delete from payload where seq between 100 and 299");
        t.renumber(300, -200);
    });
    EXPECT_EQ(nameOf(kTamperings, verdict.kind), "deleted") << verdict.detail;
    EXPECT_EQ(verdict.seq, 100);
}

}  // namespace
}  // namespace gradus
