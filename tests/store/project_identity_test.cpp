// A project is known by what stays with its directory: a reboot, a remount or a move makes no new one, a copy is one.
#include "store/project_identity.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "store/audit_verify.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class Identities : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(project_);
        if (identify(project_).key.empty()) GTEST_SKIP() << "this file system keeps no time of birth";
    }
    std::int64_t registered(const ProjectIdentity& identity) {
        std::int64_t id = 0;
        store_.write([&](Writer& w) { id = w.project(identity, w.actor({ActorKind::kPerson, "ada"})); });
        return id;
    }
    std::optional<std::int64_t> found(const ProjectIdentity& identity) {
        return store_.records().findProject(identity);
    }
    std::string complaint() { return verifyAudit(store_.sql(), store_.anchor()).detail; }

    test::SampleStore sample_;
    Store store_ = sample_.open();
    fs::path project_ = sample_.directory / "shop";
};

TEST_F(Identities, AnotherDeviceNumberIsTheSameProject) {
    ProjectIdentity identity = identify(project_);
    const std::int64_t id = registered(identity);
    identity.device += 17;
    EXPECT_EQ(found(identity), id);
    EXPECT_FALSE(store_.records().hasMoved(id, identity)) << "a number of a device is worth no event";
}

TEST_F(Identities, AMovedDirectoryIsTheSameProject) {
    const std::int64_t id = registered(identify(project_));
    const fs::path moved = sample_.directory / "other";
    fs::rename(project_, moved);
    EXPECT_EQ(found(identify(moved)), id);
    EXPECT_TRUE(store_.records().hasMoved(id, identify(moved)));
    EXPECT_EQ(registered(identify(moved)), id);
    EXPECT_EQ(store_.records().project(id)->path, moved);
    EXPECT_FALSE(store_.records().hasMoved(id, identify(moved)));
    EXPECT_EQ(store_.records().stateName(id, identify(moved)), project_.native()) << "what is kept of it stays there";
}

TEST_F(Identities, ACopyIsAnotherProject) {
    const std::int64_t id = registered(identify(project_));
    const fs::path copy = sample_.directory / "copy";
    fs::copy(project_, copy, fs::copy_options::recursive);
    EXPECT_EQ(found(identify(copy)), std::nullopt);
    EXPECT_NE(registered(identify(copy)), id);
}

// A copied file system has the same numbers and times in it.
TEST_F(Identities, ADirectoryOfTheSameKeyIsACopyWhileTheFirstIsThere) {
    const ProjectIdentity first = identify(project_);
    const std::int64_t id = registered(first);
    ProjectIdentity copy = first;
    copy.path = sample_.directory / "elsewhere";
    copy.device += 17;
    EXPECT_EQ(found(copy), std::nullopt);
    EXPECT_NE(registered(copy), id);
    EXPECT_EQ(found(first), id);
    fs::remove(project_);
    EXPECT_NE(found(copy), id);
}

TEST_F(Identities, ANewDirectoryInTheSamePlaceSharesNothingWithTheMovedOne) {
    const std::int64_t id = registered(identify(project_));
    fs::rename(project_, sample_.directory / "other");
    fs::create_directories(project_);
    EXPECT_EQ(found(identify(project_)), std::nullopt);
    const std::int64_t later = registered(identify(project_));
    EXPECT_NE(later, id);
    EXPECT_NE(store_.records().stateName(later, identify(project_)),
              store_.records().stateName(id, identify(project_)));
    EXPECT_EQ(complaint(), "");
}

TEST_F(Identities, WhatAnOlderReleaseRecordedIsKnownAndGetsItsKey) {
    ProjectIdentity older = identify(project_);
    older.key.clear();
    older.device += 17;
    const std::int64_t id = registered(older);
    const ProjectIdentity now = identify(project_);
    EXPECT_EQ(found(now), id);
    EXPECT_TRUE(store_.records().hasMoved(id, now));
    EXPECT_EQ(registered(now), id);
    EXPECT_EQ(store_.records().project(id)->key, now.key);
    EXPECT_EQ(store_.records().stateName(id, now), project_.native());
    EXPECT_EQ(complaint(), "");
}

}  // namespace
}  // namespace gradus
