#include "stages/sandbox/clone_gitconfig.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <fstream>

#include "tests/support/scratch.h"

namespace gradus {
namespace {

std::string shownOf(const std::string& text) {
    const auto settings = parseGitConfig(text);
    if (!settings) return "refused";
    std::string names;
    for (const GitSetting& setting : *settings)
        if (mayBeShown(setting)) names += setting.name() + "=" + setting.value.value_or("<none>") + "\n";
    return names;
}

TEST(GitConfig, ReadsTheGrammarOfGit) {
    EXPECT_EQ(
        shownOf("# comment\n[User]\n\tName = Ann  B ; tail\n  email=\"a ;b\"  \n[alias]\nlg = \"log \\\n  --all\"\n"
                "[core] bare\n[branch \"a\\\"b\"]\nmerge = x\\ty\n[diff.old]\ntool = z\n"),
        "user.name=Ann  B\nuser.email=a ;b\nalias.lg=log   --all\ncore.bare=<none>\nbranch.a\"b.merge=x\ty\n"
        "diff.old.tool=z\n");
    for (const char* broken : {"[user\n", "name = x\n", "[user]\n= x\n", "[user]\nname = \"x\n", "[user]\nna!me\n",
                               "root:$6$abc:19000:0:99999:7:::\n", "[user]\nname = \\q\n"})
        EXPECT_EQ(shownOf(broken), "refused") << broken;
}

TEST(GitConfig, ShowsHabitsAndNoCredentials) {
    EXPECT_EQ(shownOf("[credential]\nhelper = store\n"
                      "[credential \"https://x\"]\nusername = ann\n"
                      "[http \"https://x/\"]\nextraheader = AUTHORIZATION: basic c2VjcmV0\nproxy = http://u:p@x\n"
                      "[url \"https://ann:pw@host/\"]\ninsteadOf = https://host/\n"
                      "[url \"git@host:\"]\ninsteadOf = https://host/\n"
                      "[github]\ntoken = abc\n[sendemail]\nsmtpPass = abc\n"
                      "[alias]\npr = !curl -H 'Authorization: Bearer x' y\nst = status\n"
                      "[core]\naskPass = /x\nsshCommand = ssh -i /k\neditor = vi\n"
                      "[commit]\ngpgSign = true\n[user]\nname = Ann\nsigningkey = ABC\n"
                      "[remote \"origin\"]\nurl = https://t@host/x\n"),
              "url.git@host:.insteadof=https://host/\nalias.st=status\ncore.editor=vi\nuser.name=Ann\n"
              "user.signingkey=ABC\n");
}

// What is written is read back as it was, by us and by git.
RC_GTEST_PROP(GitConfig, WritesWhatItReads, ()) {
    const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    std::vector<GitSetting> settings = {{"user", "", "name", text}};
    settings.push_back({"user", "sub \"quoted\\", "flag", std::nullopt});
    const auto again = parseGitConfig(formatGitConfig(settings));
    RC_ASSERT(again.has_value());
    RC_ASSERT(again->size() == 2U);
    RC_ASSERT(again->front().value.value_or("") == text);
    RC_ASSERT(again->back().subsection == "sub \"quoted\\");
}

TEST(GitConfig, GitReadsTheCopyAsTheOriginal) {
    if (::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
    const test::ScratchDirectory scratch;
    const std::string text =
        "[user]\n\tname = \"Ann \\\"B\\\" C\" ; x\n\temail = a#b\n[alias]\n\tx = \"!f() { echo \\\\n; }; f\"\n"
        "[branch \"we ird\\\\\"]\n\tmerge = refs/heads/x\n[core]\n\tautocrlf\n";
    std::ofstream(scratch / "original") << text;
    std::ofstream(scratch / "copy") << formatGitConfig(parseGitConfig(text).value());
    const std::string list = "git config --list -z --file ";
    EXPECT_EQ(::system(("cd " + scratch.path().native() + " && " + list + "original > a && " + list +
                        "copy > b && test -s a && cmp a b")
                           .c_str()),
              0);
}

}  // namespace
}  // namespace gradus
