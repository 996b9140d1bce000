#include "store/model/audit_event.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "store/model/error.h"

namespace gradus {
namespace {

ErrorCode codeOf(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& e) {
        return e.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::kNotFound;
}

TEST(EventFieldsTest, AreAFlatObjectInTheOrderTheyWereSet) {
    EventFields fields;
    fields.set("to", "checking").set("at", std::int64_t{-5}).set("a", "");
    EXPECT_EQ(fields.json(), R"({"to":"checking","at":-5,"a":""})");
    EXPECT_EQ(EventFields().json(), "{}");
}

TEST(EventFieldsTest, ComeBackFromTheirText) {
    EventFields fields;
    fields.set("quote", R"(say "hi" \ bye)")
        .set("wide", "grün 日本")
        .set("smallest", std::numeric_limits<std::int64_t>::min())
        .set("largest", std::numeric_limits<std::int64_t>::max())
        .set("digest", sha256("x"));
    const EventFields back = EventFields::fromJson(fields.json());
    EXPECT_EQ(back.all(), fields.all());
    EXPECT_EQ(back.digest("digest"), sha256("x"));
    EXPECT_EQ(back.number("smallest"), std::numeric_limits<std::int64_t>::min());
}

RC_GTEST_PROP(EventFieldsProperty, ComeBackFromTheirText, ()) {
    const auto names = *rc::gen::unique<std::vector<std::string>>(
        rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange(' ', '\x7f'))));
    EventFields fields;
    for (const std::string& name : names) {
        if (*rc::gen::arbitrary<bool>()) {
            fields.set(name, *rc::gen::arbitrary<std::int64_t>());
        } else {
            fields.set(name, *rc::gen::container<std::string>(rc::gen::inRange(' ', '\x7f')));
        }
    }
    RC_ASSERT(EventFields::fromJson(fields.json()).all() == fields.all());
}

TEST(EventFieldsTest, RefuseABodyThatIsNotAFlatObject) {
    for (const char* text :
         {"", "{", "[]", "1", "null", R"("x")", "{}x", R"({"a":{}})", R"({"a":[1]})", R"({"a":1.5})", R"({"a":1e3})",
          R"({"a":true})", R"({"a":null})", R"({a:1})", R"({"a":1,})", "{\"a\":\"\xff\"}", R"({"a":NaN})"})
        EXPECT_EQ(codeOf([&] { EventFields::fromJson(text); }), ErrorCode::kDamaged) << text;
}

TEST(EventFieldsTest, RefuseAFieldGivenTwice) {
    EXPECT_EQ(codeOf([] { EventFields::fromJson(R"({"to":"checking","to":"promoted"})"); }), ErrorCode::kDamaged);
}

TEST(EventFieldsTest, RefuseANumberThatDoesNotFit) {
    for (const char* text : {R"({"a":9223372036854775808})", R"({"a":18446744073709551615})",
                             R"({"a":-9223372036854775809})", R"({"a":123456789012345678901234567890})"})
        EXPECT_EQ(codeOf([&] { EventFields::fromJson(text); }), ErrorCode::kDamaged) << text;
}

TEST(EventFieldsTest, RefuseToWriteWhatCouldNotBeReadBack) {
    for (const char* text : {"a\nb", "\x1b", "bad\xff", "\xed\xa0\x80"}) {
        EXPECT_EQ(codeOf([&] { EventFields().set("a", text).json(); }), ErrorCode::kUsage) << text;
        EXPECT_EQ(codeOf([&] { EventFields().set(text, std::int64_t{1}).json(); }), ErrorCode::kUsage) << text;
    }
}

TEST(EventFieldsTest, AMissingFieldIsDamageAndNamesItself) {
    const EventFields fields = EventFields::fromJson(R"({"n":1,"t":"x"})");
    for (const auto& ask : std::vector<std::function<void()>>{
             [&] { fields.number("gone"); }, [&] { fields.text("gone"); }, [&] { fields.digest("gone"); }}) {
        try {
            ask();
            FAIL();
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::kDamaged);
            EXPECT_NE(std::string(e.what()).find("'gone'"), std::string::npos) << e.what();
        }
    }
    EXPECT_EQ(fields.optionalNumber("gone"), std::nullopt);
    EXPECT_EQ(fields.optionalText("gone"), std::nullopt);
    EXPECT_EQ(fields.optionalDigest("gone"), std::nullopt);
}

TEST(EventFieldsTest, AFieldOfAnotherTypeIsDamageEvenWhereNoneIsNeeded) {
    const EventFields fields = EventFields::fromJson(R"({"n":1,"t":"x"})");
    EXPECT_EQ(codeOf([&] { fields.number("t"); }), ErrorCode::kDamaged);
    EXPECT_EQ(codeOf([&] { fields.optionalNumber("t"); }), ErrorCode::kDamaged);
    EXPECT_EQ(codeOf([&] { fields.text("n"); }), ErrorCode::kDamaged);
    EXPECT_EQ(codeOf([&] { fields.optionalText("n"); }), ErrorCode::kDamaged);
    EXPECT_EQ(codeOf([&] { fields.optionalDigest("t"); }), ErrorCode::kDamaged);
}

TEST(EventFieldsTest, WhatIsNotThereIsNotWritten) {
    EventFields fields;
    fields.setIfPresent("a", std::optional<std::int64_t>()).setIfPresent("b", std::optional<std::int64_t>(2));
    EXPECT_EQ(fields.json(), R"({"b":2})");
}

TEST(EventKinds, HaveOneWordEach) {
    for (const auto& row : kEventKinds) EXPECT_EQ(fromName(kEventKinds, row.word), row.value);
    for (const auto& row : kActorKinds) EXPECT_EQ(fromName(kActorKinds, row.word), row.value);
}

}  // namespace
}  // namespace gradus
