#include "store/model/handle.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

namespace gradus {
namespace {

Handle numbered(HandleKind kind, std::int64_t number, std::optional<std::int64_t> revision = std::nullopt) {
    return {.kind = kind, .number = number, .revision = revision, .digestPrefix = {}};
}

Handle prefix(std::string digits) {
    return {
        .kind = HandleKind::kDigestPrefix, .number = 0, .revision = std::nullopt, .digestPrefix = std::move(digits)};
}

TEST(Handle, NamesEveryKindOfThing) {
    EXPECT_EQ(parseHandle("c12"), numbered(HandleKind::kChange, 12));
    EXPECT_EQ(parseHandle("c12.2"), numbered(HandleKind::kChange, 12, 2));
    EXPECT_EQ(parseHandle("s7"), numbered(HandleKind::kSandbox, 7));
    EXPECT_EQ(parseHandle("p31"), numbered(HandleKind::kPromotion, 31));
    EXPECT_EQ(parseHandle("e90"), numbered(HandleKind::kExecution, 90));
    EXPECT_EQ(parseHandle("@"), Handle{});
}

TEST(Handle, GoesUpToTheLargestNumberAndNoFurther) {
    EXPECT_EQ(parseHandle("c9223372036854775807"),
              numbered(HandleKind::kChange, std::numeric_limits<std::int64_t>::max()));
    EXPECT_EQ(parseHandle("s9223372036854775808"), std::nullopt);
    EXPECT_EQ(parseHandle("p" + std::string(5000, '9')), std::nullopt);
    EXPECT_EQ(parseHandle("c1.9223372036854775808"), std::nullopt);
}

TEST(Handle, TakesSixToSixtyFourDigitsOfADigest) {
    EXPECT_EQ(parseHandle("0123ab"), prefix("0123ab"));
    EXPECT_EQ(parseHandle(std::string(64, 'f')), prefix(std::string(64, 'f')));
    EXPECT_EQ(parseHandle("0123a"), std::nullopt);
    EXPECT_EQ(parseHandle(std::string(65, 'f')), std::nullopt);
    EXPECT_EQ(parseHandle("0123AB"), std::nullopt);
    EXPECT_EQ(parseHandle("0123ag"), std::nullopt);
}

TEST(Handle, TakesADigestThatOnlyBeginsLikeANumberedOne) {
    EXPECT_EQ(parseHandle("c12abc"), prefix("c12abc"));
    EXPECT_EQ(parseHandle("c00001"), prefix("c00001"));
    EXPECT_EQ(parseHandle("e90e90"), prefix("e90e90"));
    EXPECT_EQ(parseHandle("c123456"), numbered(HandleKind::kChange, 123456)) << "a number wins";
}

TEST(Handle, RefusesWhatOnlyLooksLikeOne) {
    for (const char* text : {"",     "c",    "c0", "c01", "c1.",  "c.1",  "c1.0",      "c1.01", "c1.2.3", "s7.2",
                             "p3.1", "e9.1", "-1", "c-1", "c+1",  "c 1",  " c1",       "c1 ",   "c1\n",   "C1",
                             "12",   "x1",   "@1", "@@",  "c1e3", "c0x1", "c\xc2\xb2", "cc1"})
        EXPECT_EQ(parseHandle(text), std::nullopt) << text;
    EXPECT_EQ(parseHandle(std::string_view("c1\0", 3)), std::nullopt);
}

RC_GTEST_PROP(HandleProperty, ReadsBackWhatItWrites, ()) {
    const auto kind = *rc::gen::element(HandleKind::kChange, HandleKind::kSandbox, HandleKind::kPromotion,
                                        HandleKind::kExecution, HandleKind::kLatest);
    Handle handle = numbered(kind, kind == HandleKind::kLatest ? 0 : *rc::gen::positive<std::int64_t>());
    if (kind == HandleKind::kChange && *rc::gen::arbitrary<bool>())
        handle.revision = *rc::gen::positive<std::int64_t>();
    RC_ASSERT(parseHandle(handle.text()) == handle);
}

RC_GTEST_PROP(HandleProperty, IsTheOnlySpelling, (const std::string& text)) {
    if (const auto handle = parseHandle(text)) RC_ASSERT(handle->text() == text);
}

}  // namespace
}  // namespace gradus
