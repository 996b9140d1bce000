// What checks build: in the release, in its manifest, out of the tree that changes are about, and back with it.
#include <gtest/gtest.h>

#include <fstream>

#include "store/model/canonical.h"
#include "tests/pipeline/engine/engine_rig.h"

namespace gradus::test {
namespace {

using S = PromotionState;

class EngineOutputs : public testing::Test {
  protected:
    EngineOutputs() {
        build(rig.project(), {{"app", file("v1")}, {"lib", folder()}, {"lib/util", file("u1")}});
        rig.built = [this](const Stage& stage, const TreeUnderTest& tree, CheckReport& report) {
            if (stage.name != "production" || report.check != "unit") return;
            report.builtOf = Canonical("test.built.1").digest(tree.source()).text("make").hash();
            leftOut = tree.leftOut;
            if (auto proof = tree.built ? tree.built(*report.builtOf, {}) : std::nullopt) {
                report.reused = *proof;
                return;
            }
            report.answer.outputs = rig.objects().put(makeOutputs(fmt::format("build {}", ++builds)).encode());
        };
    }
    ChangeSet makeOutputs(const std::string& bytes) {
        const Entry directoryEntry{EntryType::kDirectory, 0755, {}, 0};
        const Entry bundle{EntryType::kFile, 0644, rig.objects().put(bytes), bytes.size()};
        const std::string text = "bundle";
        const Entry link{EntryType::kSymlink, 0777, rig.objects().put(text), text.size()};
        return ChangeSet({{"dist", std::nullopt, directoryEntry},
                          {"dist/bundle", std::nullopt, bundle},
                          {"dist/latest", std::nullopt, link}});
    }
    std::int64_t change(const std::string& path, const std::string& text) {
        Tree tree = rig.projectTree();
        tree[path] = file(text);
        return rig.submit(plain(tree));
    }
    StageReport promoted(std::int64_t id, const PromoteWish& wish = {}) {
        return rig.engine()->promote(id, "production", rig.progress, {}, wish).stages.back();
    }
    std::string bundle() {
        const auto tree = rig.productionTree();
        return tree && tree->contains("dist/bundle") ? readSmallFile(rig.production() / "current/dist/bundle", 99, "it")
                                                     : "";
    }

    EngineRig rig;
    int builds = 0;
    std::vector<std::string> leftOut;
};

TEST_F(EngineOutputs, AreInTheReleaseAndLeftOutOfWhatIsCheckedNext) {
    const StageReport first = promoted(change("app", "v2"));
    ASSERT_TRUE(first.succeeded()) << first.reason;
    EXPECT_EQ(first.outputs, 2U);
    EXPECT_EQ(bundle(), "build 1");
    EXPECT_TRUE(leftOut.empty());
    const StageReport second = promoted(change("app", "v3"));
    ASSERT_TRUE(second.succeeded()) << second.reason;
    EXPECT_EQ(leftOut, (std::vector<std::string>{"dist", "dist/bundle", "dist/latest"}));
    EXPECT_EQ(bundle(), "build 2");
    rig.expectWhole();
}

TEST_F(EngineOutputs, TheSameTreeGetsTheSameBytesAndAnotherIsBuiltAgain) {
    const StageReport first = promoted(change("app", "v2"));
    ASSERT_TRUE(first.succeeded());
    // There and back: the same files again.
    ASSERT_TRUE(rig.engine()->rollBack(first.promotion.id, rig.progress, {}).succeeded());
    EXPECT_EQ(rig.productionTree(), std::nullopt);
    const StageReport again = promoted(first.promotion.change);
    ASSERT_TRUE(again.succeeded()) << again.reason;
    EXPECT_EQ(bundle(), "build 1");
    EXPECT_EQ(again.before.front().reused->result.promotion, first.promotion.id);
    EXPECT_EQ(builds, 1);
    ASSERT_TRUE(promoted(change("lib/util", "u2")).succeeded());
    EXPECT_EQ(bundle(), "build 2");
    PromoteWish all;
    all.recheck = true;
    ASSERT_TRUE(promoted(change("lib/other", "o"), all).succeeded());
    EXPECT_EQ(bundle(), "build 3");
}

TEST_F(EngineOutputs, GoBackWithTheReleaseByteForByte) {
    ASSERT_TRUE(promoted(change("app", "v2")).succeeded());
    const Tree before = *rig.productionTree();
    const StageReport second = promoted(change("app", "v3"));
    ASSERT_TRUE(second.succeeded());
    EXPECT_NE(difference(*rig.productionTree(), before), "");
    ASSERT_TRUE(rig.engine()->rollBack(second.promotion.id, rig.progress, {}).succeeded());
    EXPECT_EQ(difference(*rig.productionTree(), before), "");
    EXPECT_EQ(bundle(), "build 1");
}

TEST_F(EngineOutputs, SomebodyWhoEditsThemIsFoundOut) {
    ASSERT_TRUE(promoted(change("app", "v2")).succeeded());
    std::ofstream(rig.production() / "current/dist/bundle") << "mine";
    const StageReport report = promoted(change("app", "v3"));
    EXPECT_EQ(report.promotion.state, S::kRejected);
    EXPECT_NE(report.reason.find("dist/bundle"), std::string::npos) << report.reason;
    EXPECT_EQ(bundle(), "mine");
}

TEST_F(EngineOutputs, AChangeMayPutAFileWhereSomethingWasBuilt) {
    ASSERT_TRUE(promoted(change("app", "v2")).succeeded());
    rig.built = nullptr;
    Tree tree = rig.projectTree();
    tree["dist"] = folder();
    tree["dist/bundle"] = file("by hand");
    const StageReport report = promoted(rig.submit(plain(tree)));
    ASSERT_TRUE(report.succeeded()) << report.reason;
    EXPECT_EQ(bundle(), "by hand");
    EXPECT_FALSE(rig.productionTree()->contains("dist/latest"));
}

TEST_F(EngineOutputs, WhatWasBuiltStaysSoWhenItIsAdopted) {
    ASSERT_TRUE(promoted(change("app", "v2")).succeeded());
    std::ofstream(rig.production() / "current/app") << "by hand";
    EXPECT_EQ(rig.engine()->adopt("production").held.value_or(HeldTree{}).outputs.size(), 3U);
    ASSERT_TRUE(promoted(change("lib/util", "u2")).succeeded());
    EXPECT_EQ(bundle(), "build 2");
    EXPECT_EQ(readSmallFile(rig.production() / "current/app", 99, "it"), "by hand");
}

TEST(EngineOutputsShared, NothingIsBuiltBelowWhatAllReleasesShare) {
    EngineRig rig(
        {.name = "", .driver = "release-directory", .withGit = false, .withActivate = true, .withShared = true});
    build(rig.project(), {{"app", file("v1")}});
    std::string path = "dist";
    rig.built = [&](const Stage& stage, const TreeUnderTest&, CheckReport& report) {
        if (stage.name != "production" || report.check != "unit") return;
        const std::string bytes = "built";
        report.answer.outputs = rig.objects().put(
            ChangeSet({{path, std::nullopt, Entry{EntryType::kFile, 0644, rig.objects().put(bytes), bytes.size()}}})
                .encode());
    };
    ASSERT_TRUE(rig.promote(rig.submit({{"app", file("v2")}})).succeeded());
    const Tree before = *rig.productionTree();
    const std::string activated = rig.activated();
    for (const char* shared : {"uploads/x", "uploads"}) {
        path = shared;
        Tree tree = plain(rig.projectTree());
        tree[fmt::format("more-{}", path.size())] = file(path);
        const StageReport report = rig.promote(rig.submit(tree)).stages.back();
        EXPECT_FALSE(report.succeeded());
        EXPECT_NE(report.reason.find("'" + path + "'"), std::string::npos) << report.reason;
        EXPECT_EQ(difference(*rig.productionTree(), before), "");
        EXPECT_EQ(rig.activated(), activated);
    }
    rig.expectWhole();
}

}  // namespace
}  // namespace gradus::test
