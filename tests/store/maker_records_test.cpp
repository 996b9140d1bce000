// Who made a change: people and machines work in sandboxes, and others hand in what comes of it.
#include <gtest/gtest.h>

#include "store/audit_verify.h"
#include "store/sandbox_writer.h"
#include "tests/support/case.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someSubmission;
using Makers = std::vector<RevisionMaker>;

class MakerRecords : public testing::Test {
  protected:
    SampleStore sample;
    Store store = sample.open();
    Climb climb = Climb::begin(store);
    const ActorId anna = actor({ActorKind::kPerson, "anna"});
    const ActorId ben = actor({ActorKind::kPerson, "ben"});
    const ActorId bot = actor({ActorKind::kAgent, "helper"});

    ActorId actor(const Actor& who) {
        ActorId id = 0;
        store.write([&](Writer& w) { id = w.actor(who); });
        return id;
    }
    void write(ActorId by, const std::function<void(SandboxWriter&)>& work) {
        store.write([&](Writer& w) {
            SandboxWriter sandboxes(w, by);
            work(sandboxes);
        });
    }
    std::int64_t sandbox(ActorId by, const std::optional<std::int64_t>& forkedFrom = std::nullopt,
                         SandboxKind kind = SandboxKind::kKept) {
        SandboxDraft draft;
        draft.project = climb.project;
        draft.kind = kind;
        draft.forkedFrom = forkedFrom;
        std::int64_t id = 0;
        write(by, [&](SandboxWriter& w) { id = w.create(draft).id; });
        return id;
    }
    void run(std::int64_t sandbox, ActorId by, bool reads = false) {
        write(by, [&](SandboxWriter& w) {
            ExecutionDraft draft;
            draft.sandbox = sandbox;
            draft.backend = "namespaces";
            draft.reads = reads;
            w.start(draft);
        });
    }
    Makers madeIn(std::int64_t sandbox, ActorId handedInBy, const std::optional<ActorId>& sponsor = std::nullopt) {
        std::int64_t id = 0;
        store.write([&](Writer& w) {
            Submission submission = someSubmission("made in a sandbox");
            submission.sandbox = sandbox;
            submission.sponsor = sponsor;
            id = w.submit(climb.project, handedInBy, submission);
        });
        return store.records().words().makers(id);
    }
    void TearDown() override {
        EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).detail, "");
        store.rebuild();
        EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).detail, "");
    }
};

TEST_F(MakerRecords, WhoWorkedThereMadeItWhoeverHandsItIn) {
    GRADUS_CASES("I10");
    const std::int64_t box = sandbox(anna);
    run(box, bot);
    EXPECT_EQ(madeIn(box, anna), (Makers{{bot, anna}})) << "for whoever hands it in";
    run(box, anna);
    EXPECT_EQ(madeIn(box, ben), (Makers{{anna, std::nullopt}, {bot, ben}}));
    EXPECT_EQ(madeIn(box, bot, ben), (Makers{{anna, std::nullopt}, {bot, ben}})) << "or for whom that one acts";
}

TEST_F(MakerRecords, WhoPutFilesThereWorkedThere) {
    const std::int64_t box = sandbox(ben);
    write(anna, [&](SandboxWriter& w) { w.touch(box); });
    EXPECT_EQ(madeIn(box, ben), (Makers{{anna, std::nullopt}}));
}

TEST_F(MakerRecords, WhatIsKeptAfterACommandWasMadeByWhoRanIt) {
    const std::int64_t box = sandbox(bot, std::nullopt, SandboxKind::kTransient);
    run(box, bot);
    write(bot, [&](SandboxWriter& w) { w.keep(box, "kept", Milliseconds(1000)); });
    EXPECT_EQ(madeIn(box, ben), (Makers{{bot, ben}}));
}

TEST_F(MakerRecords, WhatIsForkedHasTheMakersOfWhatItComesFromAndNoLaterOnes) {
    const std::int64_t box = sandbox(ben);
    run(box, bot);
    const std::int64_t fork = sandbox(ben, box);
    run(box, anna);
    EXPECT_EQ(madeIn(fork, ben), (Makers{{bot, ben}}));
}

TEST_F(MakerRecords, WithNobodyAtWorkItIsWhoHandsItIn) {
    const std::int64_t box = sandbox(anna);
    run(box, anna, true);
    EXPECT_EQ(madeIn(box, ben), (Makers{{ben, std::nullopt}})) << "to look something up is no work";
}

// A patch that is another one is another work; the same patch on other ground is nobody's.
TEST_F(MakerRecords, EveryRevisionThatIsAnotherPatchHasMakers) {
    const std::int64_t box = sandbox(anna);
    run(box, bot);
    std::int64_t change = 0;
    store.write([&](Writer& w) {
        change = w.submit(climb.project, ben, someSubmission("one"));
        Submission other = someSubmission("another");
        other.sandbox = box;
        w.revise(change, anna, other);
        other.sandbox.reset();
        w.revise(change, climb.actor, other);
    });
    EXPECT_EQ(store.records().words().makers(change), (Makers{{ben, std::nullopt}, {bot, anna}}));
}

// What the tables hold once an older database was brought up to date is what its events say.
TEST_F(MakerRecords, WhatOlderReleasesRecordedComesAlong) {
    const std::int64_t box = sandbox(ben);
    run(box, bot);
    const std::int64_t fork = sandbox(ben, box);
    run(box, anna);
    write(ben, [&](SandboxWriter& w) { w.touch(fork); });
    const std::int64_t trial = sandbox(anna, fork, SandboxKind::kTransient);
    run(trial, anna);
    write(anna, [&](SandboxWriter& w) { w.keep(trial, "kept", Milliseconds(1000)); });
    std::int64_t change = 0;
    store.write([&](Writer& w) {
        Submission submission = someSubmission("one");
        submission.sponsor = anna;
        change = w.submit(climb.project, bot, submission);
        w.revise(change, ben, submission);
        w.revise(change, ben, someSubmission("another"));
    });
    store.sql().script(
        "drop index project_by_key; alter table project drop column key; alter table project drop column path_seq; "
        "drop table maker; drop table sandbox_worker; pragma user_version = 17");
    store = sample.open();
    EXPECT_EQ(store.sql().number("select count(*) from sandbox_worker"), 7);
    EXPECT_EQ(store.records().words().makers(change), (Makers{{bot, anna}, {ben, std::nullopt}}));
}

}  // namespace
}  // namespace gradus
