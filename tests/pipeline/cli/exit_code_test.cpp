#include "pipeline/cli/exit_code.h"

#include <gtest/gtest.h>

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

}  // namespace

}  // namespace gradus
