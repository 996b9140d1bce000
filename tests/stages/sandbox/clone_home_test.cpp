// Home is the tools, not the secrets.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/host/toolchains.h"
#include "stages/sandbox/clone_environment.h"
#include "store/model/error.h"
#include "tests/stages/sandbox/clone_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class CloneHome : public CloneTest {};

const HomeEntry* entryAt(const ClonePlan& plan, const fs::path& path) {
    for (const HomeEntry& entry : plan.home)
        if (entry.path == path) return &entry;
    return nullptr;
}

TEST_F(CloneHome, IsEmptyAndWritableButForTheProject) {
    GRADUS_CASES("FS1");
    const FakeHome home(someone());
    home.write("letter.txt", "private\n");
    home.write("code/other/file", "private\n");
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan,
                     "ls -A ~ ~/code ~/code/shop; echo x > ~/new && cat ~/new; mkdir -p ~/.cache/tool ~/code/fresh && "
                     "echo made; stat -c %a ~"),
              fmt::format("{0}:\ncode\n\n{0}/code:\nshop\n\n{0}/code/shop:\nREADME.md\nx\nmade\n700\n",
                          home.path().native()));
    EXPECT_FALSE(fs::exists(home.path() / "new"));
    EXPECT_TRUE(plan.home.empty());
}

TEST_F(CloneHome, ShowsToolchainsReadOnlyAndCachesCopyOnWrite) {
    const FakeHome home(someone());
    home.write(".nvm/versions/node/v20/bin/node", "node\n");
    home.write(".cache/pip/http/x", "wheel\n");
    home.write(".cache/browser/history", "private\n");
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(
        output(plan,
               "cat ~/.nvm/versions/node/v20/bin/node ~/.cache/pip/http/x; (echo x > ~/.nvm/y) 2>/dev/null || echo "
               "refused; echo new > ~/.cache/pip/http/x && cat ~/.cache/pip/http/x; ls ~/.cache; mkdir "
               "~/.cache/beside && echo beside"),
        "node\nwheel\nrefused\nnew\npip\nbeside\n");
    ASSERT_NE(entryAt(plan, home.path() / ".nvm"), nullptr);
    EXPECT_EQ(entryAt(plan, home.path() / ".nvm")->how, HomeEntry::How::kReadOnly);
    EXPECT_EQ(entryAt(plan, home.path() / ".nvm")->why, "nvm");
    EXPECT_EQ(entryAt(plan, home.path() / ".cache/pip")->how, HomeEntry::How::kCopyOnWrite);
}

// As a command is shown that is not trusted.
TEST_F(CloneHome, HasNeitherToolsNorSettingsWhereItIsToBeBare) {
    const FakeHome home(someone());
    home.write(".nvm/versions/node/v20/bin/node", "node\n");
    home.write(".gitconfig", "[user]\nname = Ann\n");
    home.write(".npmrc", "registry = https://example.org\n");
    CloneRequest request = home.request();
    request.bare = true;
    const ClonePlan plan = planClone(request);
    EXPECT_EQ(output(plan, "ls -A ~"), "code\n");
    EXPECT_TRUE(plan.home.empty());
}

TEST_F(CloneHome, FollowsTheVariablesOfAToolchain) {
    FakeHome home(someone());
    home.write("tools/cargo/bin/x", "here\n");
    home.variables["CARGO_HOME"] = (home.path() / "tools/cargo").native();
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan, "cat $CARGO_HOME/bin/x; echo x > $CARGO_HOME/.package-cache && echo locked"),
              "here\nlocked\n");
}

TEST_F(CloneHome, ShowsDirectoriesOnPath) {
    FakeHome home(someone());
    home.program("bin/mine", "#!/bin/sh\necho mine\n");
    home.program("opt/tool-3/bin/tool", "#!/bin/sh\ncat \"${0%/bin/tool}/lib/word\"\n");
    home.write("opt/tool-3/lib/word", "tool\n");
    home.write("opt/tool-3/share/x", "");
    home.program("own/bin/helper", "#!/bin/sh\necho helper\n");
    home.write("own/notes.txt", "private\n");
    home.variables["PATH"] =
        fmt::format("{0}/bin:{0}/opt/tool-3/bin:{0}/own/bin/:/usr/bin:/bin:relative", home.path().native());
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan, "mine; tool; helper; ls ~/own; test ! -e ~/own/notes.txt && echo unseen"),
              "mine\ntool\nhelper\nbin\nunseen\n");
    EXPECT_EQ(entryAt(plan, home.path() / "bin")->why, "on PATH");
}

TEST_F(CloneHome, FollowsLinksOfProgramsToWhereTheyLead) {
    FakeHome home(someone());
    home.program("venvs/black/bin/black", "#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/../pyvenv.cfg\"\n");
    home.write("venvs/black/pyvenv.cfg", "venv\n");
    home.program("src/single.sh", "#!/bin/sh\necho single\n");
    home.write("src/secret-plan", "private\n");
    home.link(".local/bin/black", "../../venvs/black/bin/black");
    home.link(".local/bin/single", (home.path() / "src/single.sh").native());
    home.link(".local/bin/gone", "/no/such/file");
    home.variables["PATH"] = home.path().native() + "/.local/bin:/usr/bin:/bin";
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan, "black; single; ls ~/src ~/venvs"),
              fmt::format("venv\nsingle\n{0}/src:\nsingle.sh\n\n{0}/venvs:\nblack\n", home.path().native()));
}

// The places that hold everything are never shown because of one program in them.
TEST_F(CloneHome, NeverShowsItselfBecauseOfPathOrAVariable) {
    FakeHome home(someone());
    home.program("run-me", "#!/bin/sh\n");
    home.write("letter.txt", "private\n");
    home.write(".ssh/bin/x", "private\n");
    home.write(".config/thing", "private\n");
    home.variables["GOPATH"] = home.path().native();
    home.variables["CARGO_HOME"] = (home.path() / ".config").native();
    home.variables["XDG_CACHE_HOME"] = home.path().parent_path().native();
    home.variables["PATH"] = fmt::format("{0}:{0}/.ssh/bin:{0}/.config:/usr/bin:/bin", home.path().native());
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan, "ls -A ~; ls -A ~/.config ~/.ssh 2>/dev/null; echo done"), "code\ndone\n");
    EXPECT_TRUE(mentions(plan.notes, "on PATH but not shown")) << joined(plan.notes);
    EXPECT_TRUE(mentions(plan.notes, "holds more than tools")) << joined(plan.notes);
}

// A canary in every place where credentials are kept, whatever is shown around it.
TEST_F(CloneHome, NoCredentialIsInView) {
    GRADUS_CASES("FS1");
    FakeHome home(someone());
    const Environment environment = home.request().environment;
    std::vector<std::string> places;
    const auto plant = [&](std::string_view pattern) {
        const fs::path place = expandPlace(pattern, environment, home.path());
        if (place.empty()) return;
        const std::string relative = place.lexically_relative(home.path());
        struct stat info {};
        if (::stat(place.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
            home.write(relative + "/canary", "CANARY\n");
        else if (::stat(place.parent_path().c_str(), &info) != 0 || S_ISDIR(info.st_mode))
            home.write(relative, "CANARY\n");
        places.push_back(place);
    };
    for (const Toolchain& toolchain : toolchains()) {
        for (const auto& list : {toolchain.readOnly, toolchain.caches})
            for (const std::string_view pattern : list) {
                const fs::path root = expandPlace(pattern, environment, home.path());
                if (root.empty() || !root.native().starts_with(home.path().native())) continue;
                const std::string relative = root.lexically_relative(home.path());
                home.write(relative + "/tool", "tool\n");
                for (const std::string_view name : secretNames())
                    home.write(relative + "/" + std::string(name), "CANARY\n");
            }
        for (const std::string_view pattern : toolchain.secrets) plant(pattern);
    }
    for (const std::string_view pattern : secretPlaces()) plant(pattern);
    home.write(".gitconfig", "[user]\n\tname = Ann\n[http]\n\textraheader = CANARY\n[credential]\n\thelper = CANARY\n");
    const ClonePlan plan = planClone(home.request());
    // As root the command's user may see it, so an unreadable file is no excuse.
    const Outcome outcome =
        run(plan, "grep -rlF CANARY ~ 2>/dev/null; ls ~/.cargo/tool ~/.nvm/tool; git config user.name");
    EXPECT_EQ(outcome.out.text(), fmt::format("{0}/.cargo/tool\n{0}/.nvm/tool\nAnn\n", home.path().native()))
        << describe(outcome);
    EXPECT_GT(places.size(), 60U);
}

TEST_F(CloneHome, SettingsOfPackageManagersAreThereWithoutTheirTokens) {
    const FakeHome home(someone());
    home.write(".npmrc",
               "prefix=~/.npm-global\n//registry.example/:_authToken=CANARY\nemail=CANARY\n_password = CANARY\n"
               "proxy=http://u:CANARY@x\nCANARY\nfund=false");
    home.write(
        ".config/pip/pip.conf",
        "[global]\ntimeout = 9\nindex-url = https://u:CANARY@x/simple\nextra-index-url =\n  https://u:CANARY@y\n  "
        "https://z/simple\n");
    EXPECT_EQ(output(planClone(home.request()), "cat ~/.npmrc ~/.config/pip/pip.conf"),
              "prefix=~/.npm-global\nfund=false\n[global]\ntimeout = 9\nextra-index-url =\n  https://z/simple\n");
}

TEST_F(CloneHome, ASecretThatIsALinkIsHiddenWhereItLeads) {
    const FakeHome home(someone());
    const HostProject elsewhere(someone(), isRoot() ? "/opt" : "/dev/shm");
    if (!isRoot()) GTEST_SKIP() << "an ordinary user has no place of its own in plain view";
    elsewhere.write("aws/credentials", "CANARY\n");
    home.link(".aws", (elsewhere.path() / "aws").native());
    EXPECT_EQ(output(planClone(home.request()),
                     fmt::format("ls {}/aws ~/.aws 2>/dev/null; echo done", elsewhere.path().native())),
              fmt::format("{}/aws:\ndone\n", elsewhere.path().native()));
}

TEST_F(CloneHome, AProjectThatHoldsAHomeIsRefused) {
    const FakeHome home(someone());
    for (const fs::path& project : {home.path(), home.path().parent_path(), fs::path("/")}) {
        CloneRequest request = home.request();
        request.project = request.directory = project;
        EXPECT_THROW(planClone(request), Error) << project;
    }
}

// As root the command is the project's owner, with that person's home, and the caller's tools are still there.
TEST_F(CloneHome, RootsToolsAreShownToTheProjectsOwner) {
    GRADUS_CASES("PV5");
    if (!isRoot()) GTEST_SKIP() << "for root";
    FakeHome callers(Identity{0, 0});
    callers.program(".cargo/bin/made-up-tool", "#!/bin/sh\nid -u\n");
    callers.write(".ssh/id_ed25519", "CANARY\n");
    callers.variables["PATH"] = callers.path().native() + "/.cargo/bin:/usr/bin:/bin";
    const HostProject project(someone());
    CloneRequest request = callers.request();
    request.project = request.directory = project.path();
    const ClonePlan plan = planClone(request);
    EXPECT_EQ(plan.identity.uid, someone().uid);
    EXPECT_EQ(output(plan, fmt::format("made-up-tool; echo $HOME; touch ~/x && echo written; ls -A {}",
                                       callers.path().native())),
              fmt::format("{0}\n/home/{0}\nwritten\n.cargo\n", someone().uid));
    EXPECT_TRUE(mentions(plan.notes, "has no home here")) << joined(plan.notes);
    EXPECT_EQ(resolvesDifferently(plan, request, "made-up-tool"), std::nullopt);
}

// A link in somebody's home must not open to them, through root, what they could not open.
TEST_F(CloneHome, AsRootALinkToAnothersDirectoryIsNotFollowed) {
    if (!isRoot()) GTEST_SKIP() << "for root";
    FakeHome victims(Identity{0, 0}, "/root");
    victims.write("vault/secret", "CANARY\n");
    const FakeHome home(someone());
    home.link(".nvm", (victims.path() / "vault").native());
    home.link(".npm", (victims.path() / "vault").native());
    home.link(".gitconfig", (victims.path() / "vault/secret").native());
    EXPECT_EQ(output(planClone(home.request()), "cat ~/.nvm/secret ~/.npm/secret ~/.gitconfig 2>/dev/null; echo done"),
              "done\n");
}

// A home is a link: what is behind it is not in view either.
TEST_F(CloneHome, ALinkedHomeIsAsPrivateAsAnother) {
    FakeHome home(someone());
    const HostProject links(someone());
    const fs::path link = links.path() / "ann";
    fs::create_symlink(home.path(), link);
    home.write("letter.txt", "CANARY\n");
    home.write(".cargo/bin/x", "tool\n");
    home.variables["HOME"] = link.native();
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(
        output(plan, fmt::format("ls -A ~ {0}; cat ~/.cargo/bin/x; touch ~/x && echo written", home.path().native())),
        fmt::format("{0}:\n.cargo\ncode\n\n{0}:\n.cargo\ncode\ntool\nwritten\n", home.path().native()));
}

TEST_F(CloneHome, ASearchPathInAPrivatePlaceIsShown) {
    FakeHome home(someone());
    const HostProject tools(someone(), "/tmp");
    tools.write("bin/in-tmp", "#!/bin/sh\necho in tmp\n");
    ASSERT_EQ(::chmod((tools.path() / "bin/in-tmp").c_str(), 0755), 0);
    home.variables["PATH"] = (tools.path() / "bin").native() + ":/usr/bin:/bin";
    EXPECT_EQ(output(planClone(home.request()), "in-tmp"), "in tmp\n");
}

TEST_F(CloneHome, TemporaryPlacesArePrivateAndAtTheirOwnPaths) {
    FakeHome home(someone());
    const HostProject temporary(someone());
    temporary.write("others", "private\n");
    home.variables["TMPDIR"] = temporary.path().native();
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan,
                     "ls -A $TMPDIR; f=$(mktemp) && dirname $f; touch /var/tmp/x /tmp/x && echo written; stat -c %a "
                     "/tmp /var/tmp"),
              temporary.path().native() + "\nwritten\n1777\n1777\n");
}

}  // namespace
}  // namespace gradus
