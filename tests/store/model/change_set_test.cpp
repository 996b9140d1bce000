#include "store/model/change_set.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "store/model/error.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using namespace std::string_literals;

Entry file(std::string_view content, std::uint32_t mode = 0644) {
    return {EntryType::kFile, mode, sha256(content), content.size()};
}

PathChange created(std::string path, const Entry& entry = file("new")) {
    return {std::move(path), std::nullopt, entry, true};
}

Error errorOf(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& e) {
        return e;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(ErrorCode::kUsage, "nothing was thrown");
}

// --- Paths ---

TEST(PathRules, AllowWhatPeopleCallTheirFiles) {
    for (const auto& path :
         {"a"s, "src/main.cpp"s, ".hidden"s, "..."s + "x", "a..b"s, "grün/日本.txt"s, "with space/and 'quote'"s,
          ".gitignore"s, ".gitmodules"s, ".gitattributes"s, ".lfsconfig"s, ".github/workflows/ci.yml"s, "git"s,
          "a.git/x"s, "git~2"s, "-rf"s, "~"s, "a:b"s, std::string(255, 'x')})
        EXPECT_EQ(pathFault(path), std::nullopt) << path;
}

TEST(PathRules, RefuseEveryPathThatIsNotPlainAndRelative) {
    GRADUS_CASES("CA1");
    for (const auto& path : {""s, "/"s, "/etc/x"s, "../x"s, "a/.."s, "a/../b"s, ".."s, "."s, "./"s, "./a"s, "a/."s,
                             "a//b"s, "a/"s, std::string(256, 'x'), std::string(5000, 'x'), "a\0b"s, "\0"s})
        EXPECT_NE(pathFault(path), std::nullopt) << path;
}

TEST(PathRules, RefuseAPathThatIsTooLongAsAWhole) {
    std::string path = "a";
    while (path.size() < 4095) path += "/a";
    EXPECT_EQ(path.size(), 4095U);
    EXPECT_EQ(pathFault(path), std::nullopt);
    EXPECT_NE(pathFault(path + "a"), std::nullopt);
}

TEST(PathRules, RefuseBytesThatCannotBeShownAsTheyAre) {
    GRADUS_CASES("CA1");
    for (const auto& path : {"a\nb"s, "a\tb"s, "\x1b[31m"s, "a\x7f"s, "bad\xff"s, "\xc0\xaf"s, "dir\xe2\x82/x"s})
        EXPECT_NE(pathFault(path), std::nullopt) << path;
}

TEST(PathRules, RefuseSpellingsThatOtherSystemsReadDifferently) {
    GRADUS_CASES("CA1");
    for (const auto& path : {"a\\b"s, "..\\x"s, "a."s, "a "s, "dir./x"s, "dir /x"s, "..."s})
        EXPECT_NE(pathFault(path), std::nullopt) << path;
}

TEST(PathRules, RefuseEverySpellingOfGitsOwnDirectory) {
    GRADUS_CASES("CA2");
    for (const auto& path :
         {".git"s, ".git/hooks/pre-commit"s, ".GIT/config"s, ".Git"s, "git~1/config"s, "GIT~1"s, ".g\u200cit/x"s,
          "\ufeff.git"s, ".git\u200f"s, ".g\u202ait"s, ".gi\u206ft"s, "sub/.git/config"s, "a/b/.gIt"s, ".git./x"s,
          ".git /x"s, ".git. ."s, ".git::$INDEX_ALLOCATION/x"s, ".git:x"s})
        EXPECT_NE(pathFault(path), std::nullopt) << path;
}

TEST(PathRules, SayWhichPathInAFormThatIsSafeToShow) {
    GRADUS_CASES("CA1");
    const Error error = errorOf([] { ChangeSet({created("evil\x1b[2J/../x")}); });
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("evil\\x1b[2J/../x"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\x1b'), std::string::npos);
}

// --- Modes ---

TEST(Modes, OutsideThePermissionBitsAreRefused) {
    GRADUS_CASES("CA9");
    for (const std::uint32_t mode : {04755U, 02755U, 01777U, 07777U, 0100644U, 010000U, 0xffffffffU}) {
        EXPECT_THROW(ChangeSet({created("a", file("x", mode))}), Error) << mode;
        EXPECT_THROW(ChangeSet({{"a", file("x", mode), std::nullopt, true}}), Error) << mode;
        EXPECT_THROW(Manifest({{"a", file("x", mode)}}), Error) << mode;
    }
    for (const std::uint32_t mode : {0U, 0644U, 0755U, 0777U})
        EXPECT_NO_THROW(ChangeSet({created("a", file("x", mode))}));
}

// --- Change sets ---

TEST(ChangeSetTest, SortsByPathAndRefusesAPathGivenTwice) {
    const ChangeSet set({created("b"), created("a/z"), created("a")});
    std::vector<std::string> paths;
    for (const PathChange& change : set.changes()) paths.push_back(change.path);
    EXPECT_EQ(paths, (std::vector<std::string>{"a", "a/z", "b"}));
    const Error error = errorOf([] { ChangeSet({created("a"), created("b"), created("a", file("other"))}); });
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("'a' is given twice"), std::string::npos) << error.what();
}

TEST(ChangeSetTest, AnUnknownBeforeIsNotAnAbsentOne) {
    PathChange known = created("a");
    PathChange unknown = known;
    unknown.beforeKnown = false;
    EXPECT_NE(ChangeSet({known}).digest(), ChangeSet({unknown}).digest());
    EXPECT_FALSE(ChangeSet::decode(ChangeSet({unknown}).encode()).changes().front().beforeKnown);
}

TEST(ChangeSetTest, TheEmptyOneHasAnIdentityToo) {
    EXPECT_TRUE(ChangeSet().empty());
    EXPECT_EQ(ChangeSet::decode(ChangeSet().encode()), ChangeSet());
    EXPECT_NE(ChangeSet().digest(), Manifest().digest()) << "a domain of its own";
}

TEST(ChangeSetTest, EveryPartOfAnEntryIsPartOfTheIdentity) {
    const ChangeSet set({created("a", file("x"))});
    Entry link = file("x");
    link.type = EntryType::kSymlink;
    Entry longer = file("x");
    longer.size = 2;
    for (const PathChange& other : {created("b", file("x")), created("a", file("y")), created("a", file("x", 0600)),
                                    created("a", link), created("a", longer), PathChange{"a", file("x"), std::nullopt}})
        EXPECT_NE(ChangeSet({other}).digest(), set.digest());
}

ChangeSet sample() {
    return ChangeSet({created("a", file("x")),
                      {"dir/link", Entry{EntryType::kSymlink, 0777, sha256("t"), 1}, file("y", 0755), true},
                      {"gone", file("z"), std::nullopt, false}});
}

TEST(ChangeSetTest, CutAnywhereIsDamaged) {
    const std::string bytes = sample().encode();
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_EQ(errorOf([&] { ChangeSet::decode(bytes.substr(0, size)); }).code(), ErrorCode::kDamaged) << size;
    EXPECT_EQ(errorOf([&] { ChangeSet::decode(bytes + '\0'); }).code(), ErrorCode::kDamaged);
}

TEST(ChangeSetTest, AnyFlippedByteIsAnotherValueOrDamage) {
    const ChangeSet original = sample();
    const std::string bytes = original.encode();
    for (std::size_t at = 0; at < bytes.size(); ++at)
        for (int mask = 1; mask < 256; ++mask) {
            std::string edited = bytes;
            edited[at] = static_cast<char>(edited[at] ^ mask);
            try {
                EXPECT_NE(ChangeSet::decode(edited), original) << at << " ^ " << mask;
            } catch (const Error& e) {
                EXPECT_EQ(e.code(), ErrorCode::kDamaged) << at << " ^ " << mask << ": " << e.what();
            }
        }
}

TEST(ChangeSetTest, OfAnotherKindOrOrderIsDamaged) {
    EXPECT_EQ(errorOf([] { ChangeSet::decode("not one at all"); }).code(), ErrorCode::kDamaged);
    std::string swapped = ChangeSet({created("a"), created("b")}).encode();
    std::swap(swapped[swapped.find('a', 30)], swapped[swapped.rfind('b')]);
    EXPECT_THROW(ChangeSet::decode(swapped), Error);
}

rc::Gen<std::optional<Entry>> anyEntry() {
    return rc::gen::map(
        rc::gen::tuple(rc::gen::inRange(0, 4), rc::gen::inRange<std::uint32_t>(0, 01000),
                       rc::gen::arbitrary<std::string>(), rc::gen::arbitrary<std::uint32_t>()),
        [](const auto& parts) -> std::optional<Entry> {
            const auto& [type, mode, content, size] = parts;
            if (type == 3) return std::nullopt;
            return Entry{kEntryTypes.at(static_cast<std::size_t>(type)).value, mode, sha256(content), size};
        });
}

std::vector<PathChange> anyChanges() {
    const auto names = *rc::gen::unique<std::vector<std::string>>(
        rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', 'b', '_', 'Z', '9'))));
    std::vector<PathChange> changes;
    changes.reserve(names.size());
    for (const std::string& name : names)
        changes.push_back({name, *anyEntry(), *anyEntry(), *rc::gen::arbitrary<bool>()});
    return changes;
}

RC_GTEST_PROP(ChangeSetProperty, ComesBackFromItsBytes, ()) {
    const ChangeSet set(anyChanges());
    RC_ASSERT(ChangeSet::decode(set.encode()) == set);
}

RC_GTEST_PROP(ChangeSetProperty, HasOneIdentityInWhateverOrderItIsGiven, ()) {
    std::vector<PathChange> changes = anyChanges();
    const Digest digest = ChangeSet(changes).digest();
    std::ranges::reverse(changes);
    RC_ASSERT(ChangeSet(changes).digest() == digest);
    std::rotate(changes.begin(), changes.begin() + static_cast<std::ptrdiff_t>(changes.size() / 2), changes.end());
    RC_ASSERT(ChangeSet(changes).digest() == digest);
}

RC_GTEST_PROP(ChangeSetProperty, RefusesBytesThatItDidNotWrite, (const std::string& bytes)) {
    RC_ASSERT_THROWS_AS(ChangeSet::decode(bytes), Error);
}

// --- What people call a change ---

TEST(ChangeKindTest, FollowsFromWhatWasThereAndWhatIs) {
    const Entry old = file("old");
    Entry executable = old;
    executable.mode = 0755;
    Entry link = file("new");
    link.type = EntryType::kSymlink;
    Entry both = file("new");
    both.mode = 0755;
    EXPECT_EQ(kindOf({"a", std::nullopt, old}), ChangeKind::kAdded);
    EXPECT_EQ(kindOf({"a", old, std::nullopt}), ChangeKind::kDeleted);
    EXPECT_EQ(kindOf({"a", old, file("new")}), ChangeKind::kModified);
    EXPECT_EQ(kindOf({"a", old, executable}), ChangeKind::kModeChanged);
    EXPECT_EQ(kindOf({"a", old, both}), ChangeKind::kModified);
    EXPECT_EQ(kindOf({"a", old, link}), ChangeKind::kTypeChanged);
}

TEST(ChangeKindTest, ClaimsNoMoreThanIsKnown) {
    EXPECT_EQ(kindOf({"a", std::nullopt, file("new"), false}), ChangeKind::kModified);
    EXPECT_EQ(kindOf({"a", std::nullopt, std::nullopt, false}), ChangeKind::kDeleted);
}

TEST(ChangeKindTest, HasOneWordEach) {
    for (const auto& kind : kChangeKinds) EXPECT_EQ(fromName(kChangeKinds, kind.word), kind.value);
    EXPECT_EQ(nameOf(kChangeKinds, ChangeKind::kModeChanged), "mode-changed");
}

// --- Manifests and bases ---

TEST(ManifestTest, HasOneIdentityInWhateverOrderItIsGiven) {
    const Manifest manifest({{"b", file("2")}, {"a", file("1")}});
    EXPECT_EQ(manifest.digest(), Manifest({{"a", file("1")}, {"b", file("2")}}).digest());
    EXPECT_EQ(manifest.items().front().path, "a");
    EXPECT_NE(manifest.digest(), Manifest({{"a", file("2")}, {"b", file("1")}}).digest());
    EXPECT_NE(manifest.digest(), Manifest({{"a", file("1")}}).digest());
}

TEST(ManifestTest, RefusesWhatAChangeSetRefuses) {
    EXPECT_THROW(Manifest({{"../x", file("1")}}), Error);
    EXPECT_THROW(Manifest({{".git/config", file("1")}}), Error);
    EXPECT_THROW(Manifest({{"a", file("1")}, {"a", file("1")}}), Error);
}

TEST(BaseFingerprintTest, DependsOnTheCommitAndOnTheTree) {
    const BaseFingerprint base{"0123", sha256("tree")};
    EXPECT_EQ(BaseFingerprint::decode(base.encode()), base);
    EXPECT_THROW(BaseFingerprint::decode(base.encode() + "x"), Error);
    EXPECT_EQ(base.digest(), (BaseFingerprint{"0123", sha256("tree")}.digest()));
    EXPECT_NE(base.digest(), (BaseFingerprint{"0124", sha256("tree")}.digest()));
    EXPECT_NE(base.digest(), (BaseFingerprint{"", sha256("tree")}.digest()));
    EXPECT_NE(base.digest(), (BaseFingerprint{"0123", sha256("other")}.digest()));
}

}  // namespace
}  // namespace gradus
