// Sandboxes past their lifetime: what is in them is not lost, and no use brings them back.
#include "store/change_sets.h"
#include "tests/stages/sandbox/sandboxes_fixture.h"

namespace gradus {
namespace {

using namespace std::chrono_literals;

class ExpiredTest : public SandboxesTest {
  protected:
    SandboxRecord createFor(Milliseconds lifetime) {
        CreateRequest request;
        request.project = project_.path();
        request.lifetime = lifetime;
        return sandboxes().create(request);
    }
    static ErrorCode codeOf(const std::function<void()>& work) {
        try {
            work();
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("expired at"), std::string::npos) << error.what();
            return error.code();
        }
        ADD_FAILURE() << "nothing was refused";
        return ErrorCode::kUsage;
    }
};

TEST_F(ExpiredTest, NothingRunsInIt) {
    const SandboxRecord sandbox = createFor(1h);
    exec(sandbox.id, "echo x > f");
    sandboxes().snapshot(sandbox.id, "before");
    clock_.advance(61min);
    EXPECT_EQ(codeOf([&] { sandboxes().exec(sandbox.id, shell("true")); }), ErrorCode::kNotAllowed);
    EXPECT_EQ(codeOf([&] { sandboxes().snapshot(sandbox.id, "after"); }), ErrorCode::kNotAllowed);
    EXPECT_EQ(codeOf([&] { sandboxes().restore(sandbox.id, "before"); }), ErrorCode::kNotAllowed);
    EXPECT_EQ(changedPaths(sandboxes().diff(sandbox.id)), std::vector<std::string>{"+f"});
    EXPECT_EQ(sandboxes().collect().expired, std::vector{sandbox.id}) << "no attempt to use it brought it back";
}

TEST_F(ExpiredTest, ACopyOfItGoesOn) {
    const SandboxRecord sandbox = createFor(1h);
    exec(sandbox.id, "echo x > f");
    clock_.advance(61min);
    const auto forks = sandboxes().fork(sandbox.id, 1, {});
    EXPECT_EQ(exec(forks.at(0).id, "cat f"), "x\n");
}

TEST_F(ExpiredTest, WhatItHeldIsFoundWhenItIsGone) {
    const SandboxRecord sandbox = createFor(1h);
    exec(sandbox.id, "echo x > f; rm README.md");
    EXPECT_FALSE(sandboxes().findExpired("s" + std::to_string(sandbox.id)));
    clock_.advance(61min);
    ASSERT_EQ(sandboxes().collect().expired, std::vector{sandbox.id});
    const auto expired = sandboxes().findExpired("s" + std::to_string(sandbox.id));
    ASSERT_TRUE(expired);
    EXPECT_EQ(expired->project, project_.path());
    EXPECT_EQ(expired->changes.changes().size(), 2U);
    const Objects objects(state_.objects(), clock_);
    EXPECT_EQ(objects.readAll(expired->changes.changes().back().after->digest, 100), "x\n");
}

}  // namespace
}  // namespace gradus
