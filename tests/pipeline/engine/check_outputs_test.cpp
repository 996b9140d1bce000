// What checks build: shown to those that need it, part of the question they answer, and within bounds.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <fstream>

#include "pipeline/engine/check_answer.h"
#include "stages/sandbox/outputs.h"
#include "store/model/error.h"
#include "tests/pipeline/engine/check_runner_fixture.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class CheckOutputs : public CheckRunnerTest {
  protected:
    /// A build, and a check that prints what it finds of it.
    void buildAndUse(const std::string& more = "") {
        rules(
            "[check.build]\nrun = [\"sh\", \"-c\", \"mkdir -p dist && cat new.txt > dist/bundle\"]\n"
            "outputs = [\"dist/**\"]\n"
            "[check.use]\nneeds = [\"build\"]\nrun = [\"sh\", \"-c\", \"cat dist/*\"]\nreuse = true\n"
            "[check.other]\nrun = [\"sh\", \"-c\", \"test ! -e dist\"]\n" +
            more);
        change("new.txt", "new\n");
    }
    static CheckReport of(const std::vector<CheckReport>& reports, const std::string& name) {
        for (const CheckReport& report : reports)
            if (report.check == name) return report;
        ADD_FAILURE() << name << " did not run: " << describe(reports);
        return {};
    }
};

TEST_F(CheckOutputs, AreSeenByWhoNeedsThemAndByNobodyElse) {
    buildAndUse("[check.far]\nneeds = [\"use\"]\nrun = [\"sh\", \"-c\", \"cat dist/bundle\"]\n");
    const auto reports = before();
    EXPECT_EQ(
        describe(reports),
        "build passed: exit code 0\nuse passed: exit code 0\nfar passed: exit code 0\nother passed: exit code 0\n");
    EXPECT_EQ(of(reports, "use").answer.log, "new\n");
    EXPECT_EQ(of(reports, "far").answer.log, "new\n");
    EXPECT_FALSE(fs::exists(project_.path() / "dist"));
    EXPECT_NE(of(reports, "use").evidence.check,
              checkDigest(*pipeline_.findStage("sandbox"), pipeline_.checks.at("use"), {}));
    expectConsistent();
}

// The project has an older build lying around, which git ignores.
TEST_F(CheckOutputs, WhatAnEarlierBuildLeftIsNotAmongThem) {
    buildAndUse();
    fs::create_directories(project_.path() / "dist");
    std::ofstream(project_.path() / "dist/stale") << "stale\n";
    tree_.source = [] { return sha256("the tree"); };
    tree_.leftOver = [](const std::vector<std::string>&) { return std::vector<std::string>{"dist"}; };
    EXPECT_EQ(of(before(), "use").answer.log, "new\n");
}

TEST_F(CheckOutputs, OneBuildMayStandOnAnother) {
    buildAndUse(
        "[check.pack]\nneeds = [\"build\"]\nrun = [\"sh\", \"-c\", \"mkdir out && tr n N < dist/bundle > "
        "out/packed\"]\n"
        "outputs = [\"out/**\"]\n"
        "[check.both]\nneeds = [\"pack\"]\nrun = [\"sh\", \"-c\", \"cat dist/bundle out/packed\"]\n");
    tree_.source = [] { return sha256("the tree"); };
    tree_.leftOver = [](const std::vector<std::string>&) { return std::vector<std::string>(); };
    const auto reports = before();
    EXPECT_EQ(of(reports, "both").answer.log, "new\nNew\n") << describe(reports);
    EXPECT_NE(of(reports, "pack").builtOf, std::nullopt);
    // Built on another build, it is another one.
    const auto first = of(reports, "pack").builtOf;
    pipeline_.checks.at("build").settings.set("retries", Value{.type = ValueType::kCount, .number = 7});
    EXPECT_NE(of(before(), "pack").builtOf, first);
}

TEST_F(CheckOutputs, AnAnswerCountsAgainOnlyForTheSameBytes) {
    buildAndUse();
    std::map<Digest, EarlierProof> proven;
    tree_.proven = [&](const Digest& asked) {
        return proven.contains(asked) ? std::optional(proven[asked]) : std::nullopt;
    };
    std::optional<EarlierProof> built;
    tree_.source = [] { return sha256("the tree"); };
    tree_.leftOver = [](const std::vector<std::string>&) { return std::vector<std::string>(); };
    tree_.built = [&](const Digest&, const std::vector<Guarantee>&) { return built; };
    const auto first = before();
    ASSERT_TRUE(of(first, "use").asked);
    proven[*of(first, "use").asked].result.verdict = Cause::kPassed;
    EXPECT_FALSE(of(before(), "use").reused) << "what is built only now may be anything";
    built.emplace();
    built->result.verdict = Cause::kPassed;
    built->result.outputs = of(first, "build").answer.outputs;
    EXPECT_TRUE(of(before(), "use").reused);
    const std::string other = "other\n";
    built->result.outputs = objects_->put(
        ChangeSet({{"dist/bundle", std::nullopt, Entry{EntryType::kFile, 0644, objects_->put(other), other.size()}}})
            .encode());
    const auto third = before();
    EXPECT_FALSE(of(third, "use").reused);
    EXPECT_EQ(of(third, "use").answer.log, other);
}

TEST_F(CheckOutputs, AskedAgainWhatWasBuiltStaysAndIsWhatOthersSee) {
    buildAndUse();
    tree_.source = [] { return sha256("the tree"); };
    tree_.leftOver = [](const std::vector<std::string>&) { return std::vector<std::string>(); };
    const std::string bytes = "built before\n";
    EarlierProof built;
    built.result.promotion = 7;
    built.result.verdict = Cause::kPassed;
    built.result.outputs = objects_->put(
        ChangeSet({{"dist/bundle", std::nullopt, Entry{EntryType::kFile, 0644, objects_->put(bytes), bytes.size()}}})
            .encode());
    tree_.built = [&](const Digest&, const std::vector<Guarantee>&) { return std::optional(built); };
    tree_.asksAll = true;
    const auto reports = before();
    EXPECT_FALSE(of(reports, "build").reused);
    EXPECT_TRUE(of(reports, "build").answer.outputs) << "it ran";
    EXPECT_EQ(of(reports, "build").outputs(), built.result.outputs);
    EXPECT_EQ(of(reports, "use").answer.log, bytes);
    // A no is one all the same.
    pipeline_.checks.at("build").settings.find("run")->items = {Value{.type = ValueType::kText, .text = "false"}};
    EXPECT_FALSE(of(before(), "build").outputs());
}

/// Something built, collected within bounds.
class OutputBounds : public CheckRunnerTest {
  protected:
    OutputBounds() {
        objects_.emplace(state_.objects(), clock_);
        fs::create_directories(upper_.path() / "dist/deep");
    }
    void make(const std::string& path, const std::string& bytes) { std::ofstream(upper_.path() / path) << bytes; }
    std::string collected(OutputRequest request = {}) {
        request.patterns = {"dist/**"};
        const FileDescriptor upper(::open(upper_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const ResultingTree tree{project_.path(), project_.path(), {}, tree_.changes, nullptr};
        try {
            std::string paths;
            const ChangeSet built = collectOutputs(upper.get(), tree, request, *objects_);
            for (const PathChange& change : built.changes()) paths += change.path + " ";
            return paths;
        } catch (const Error& e) {
            return e.what();
        }
    }

    test::ScratchDirectory upper_;
};

TEST_F(OutputBounds, TooManyAreRefused) {
    make("dist/a", "a");
    make("dist/b", "b");
    EXPECT_EQ(collected({.mostPaths = 2}), "dist dist/a dist/b ");
    make("dist/c", "c");
    EXPECT_EQ(collected({.mostPaths = 2}), "it built more than 2 files");
}

TEST_F(OutputBounds, TooMuchIsRefused) {
    make("dist/a", std::string(1 << 20, 'a'));
    EXPECT_EQ(collected({.mostBytes = 1 << 20}), "dist dist/a ");
    make("dist/b", "b");
    EXPECT_EQ(collected({.mostBytes = 1 << 20}), "it built more than 1 MiB");
}

TEST_F(OutputBounds, ALinkStaysInTheTree) {
    for (const auto& [text, isFine] :
         std::vector<std::pair<std::string, bool>>{{"../a", true},
                                                   {"../../README.md", true},
                                                   {"../../../etc/passwd", false},
                                                   {"/etc/passwd", false},
                                                   {"x/../../../../../etc/passwd", false}}) {
        fs::remove(upper_.path() / "dist/deep/link");
        fs::create_symlink(text, upper_.path() / "dist/deep/link");
        EXPECT_EQ(collected(),
                  isFine ? "dist dist/deep dist/deep/link " : "the link 'dist/deep/link' leads out of the tree")
            << text;
    }
}

TEST_F(OutputBounds, AFileOfTheTreeIsNotWrittenOver) {
    change("dist/mine", "mine");
    make("dist/mine", "theirs");
    EXPECT_NE(collected().find("is a file of the tree itself"), std::string::npos);
}

}  // namespace
}  // namespace gradus
