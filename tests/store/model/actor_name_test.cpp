#include "store/model/actor_name.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

TEST(ActorName, TakesWhatPeopleAndProgramsAreCalled) {
    for (const char* name :
         {"alice", "Ada Lovelace", "jos\u00e9", "build-7", "claude:opus", "\u5c71\u7530", "a@b.example"})
        EXPECT_EQ(actorNameProblem(name), "") << name;
}

TEST(ActorName, RefusesADifferenceThatNobodySees) {
    for (const char* name : {" alice",          "alice ",      "alice\t",     "\talice",     "ali\nce",
                             "alice\r",         "alice\x01",   "alice\x7f",   "a  b",        "alice\u00a0",
                             "ali\u200bce",     "alice\u2003", "alice\u202e", "alice\ufe0f", "alice\u3164",
                             "alice\U000e0041", "alice\u2060", "jose\u0301",  "alice\xff",   ""})
        EXPECT_NE(actorNameProblem(name), "") << name;
    EXPECT_NE(actorNameProblem(std::string("ali\0ce", 6)), "");
    EXPECT_NE(actorNameProblem(std::string(256, 'a')), "");
}

TEST(ActorName, RefusesLettersOfScriptsThatLookAlikeInOneName) {
    for (const char* name : {"\u0430lice", "alic\u0435", "\u0430\u0441\u0435 smith", "\u0391lice", "al\u03b9ce",
                             "\u0391\u0430", "jos\u00e9 \u0438", "\u0438\u0432\u0430\u043d@b.example"})
        EXPECT_NE(actorNameProblem(name), "") << name;
    EXPECT_EQ(actorNameProblem("\u0430lice"), "mixes Cyrillic letters with Latin ones ('l' is U+006C)");
    EXPECT_EQ(actorNameProblem("alic\u0435"), "mixes Latin letters with Cyrillic ones ('\u0435' is U+0435)");
}

TEST(ActorName, TakesANameThatIsWhollyInOneScript) {
    for (const char* name : {"\u0418\u0432\u0430\u043d \u041f\u0435\u0442\u0440\u043e\u0432-7",
                             "\u0395\u03bb\u03ad\u03bd\u03b7", "\u0141ukasz \u1eafn", "\u5c71\u7530 taro", "x\u00d72"})
        EXPECT_EQ(actorNameProblem(name), "") << name;
}

TEST(ActorName, TwoSpellingsOfOneNameHaveOneKey) {
    for (const char* name : {"Alice", "ALICE", "\uff41lice", "\uff21\uff4c\uff49\uff43\uff45", "alice.", "alice-",
                             "_alice_", "alice\u2024", "\u24d0lice", "\U0001d41alice", "a\u2113ice"})
        EXPECT_EQ(actorKey(name), "alice") << name;
    EXPECT_EQ(actorKey("JOS\u00c9"), actorKey("jos\u00e9"));
    EXPECT_EQ(actorKey("\u0418\u0412\u0410\u041d"), actorKey("\u0438\u0432\u0430\u043d"));
    EXPECT_EQ(actorKey("\u0141ukasz"), actorKey("\u0142ukasz"));
    EXPECT_EQ(actorKey("stra\u00dfe"), actorKey("STRASSE"));
}

TEST(ActorName, DifferentPeopleHaveDifferentKeys) {
    for (const char* name : {"alicia", "al.ice", "alice2", "bob", "jos\u00e9", "jose", "\u5c71\u7530", "a.b"})
        for (const char* other : {"alice", "ab", "josef", "\u5c71\u672c"}) EXPECT_NE(actorKey(name), actorKey(other));
    EXPECT_NE(actorKey("..."), actorKey("--")) << "of marks alone, all count";
}

TEST(ActorName, SaysWhatIsWrongWithIt) {
    EXPECT_EQ(actorNameProblem("alice "), "begins or ends with a space");
    EXPECT_EQ(actorNameProblem("alice\t"), "holds \\t, which nobody sees");
    EXPECT_EQ(actorNameProblem("ali\u200bce"), "holds \\u{200b}, which nobody sees");
    EXPECT_EQ(actorNameProblem("jose\u0301"),
              "holds the mark \\u{301}: write the letter that it belongs to as one character");
}

}  // namespace
}  // namespace gradus
