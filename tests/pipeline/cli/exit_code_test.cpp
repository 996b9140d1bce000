#include "pipeline/cli/exit_code.h"

#include <gtest/gtest.h>

#include "pipeline/cli/sandbox_views.h"

namespace gradus {

namespace {

TEST(ExitCode, IsOneNumberPerKindOfFault) {
    EXPECT_EQ(faceOf(ErrorCode::kUsage).exit, passedThrough(2));
    EXPECT_EQ(faceOf(ErrorCode::kNotFound).exit, passedThrough(2));
    EXPECT_EQ(faceOf(ErrorCode::kNotAllowed).exit, passedThrough(4));
    EXPECT_EQ(faceOf(ErrorCode::kInfrastructure).exit, passedThrough(6));
    EXPECT_EQ(faceOf(ErrorCode::kDamaged).exit, passedThrough(6));
    EXPECT_EQ(faceOf(ErrorCode::kBusy).exit, passedThrough(7));
}

TEST(ExitCode, CallsOnlyABusyFaultRetryable) {
    EXPECT_TRUE(faceOf(ErrorCode::kBusy).retryable);
    EXPECT_FALSE(faceOf(ErrorCode::kUsage).retryable);
    EXPECT_FALSE(faceOf(ErrorCode::kDamaged).retryable);
}

// A shell goes on after its child was killed for memory, and ends well: that is no success.
TEST(ExitCode, IsZeroOnlyForACommandThatEndedWell) {
    ExecutionReport report;
    report.execution.exitCode = 0;
    for (const Verdict verdict : {Verdict::kOom, Verdict::kLimit, Verdict::kKilled, Verdict::kTimeout}) {
        report.execution.verdict = verdict;
        EXPECT_NE(exitOf(report), Exit::kOk);
    }
    report.execution.verdict = Verdict::kOk;
    EXPECT_EQ(exitOf(report), Exit::kOk);
    report.execution.verdict = Verdict::kOom;
    report.execution.exitCode = 3;
    EXPECT_EQ(exitOf(report), passedThrough(3));
}

}  // namespace

}  // namespace gradus
