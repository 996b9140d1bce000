#include "stages/sandbox/clone_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "plugins/host/toolchains.h"
#include "store/model/error.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

Environment of(std::map<std::string, std::string> values) {
    return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
        const auto found = values.find(name);
        return found == values.end() ? std::nullopt : std::optional(found->second);
    };
}

std::vector<std::string> environmentOf(std::map<std::string, std::string> values,
                                       const std::vector<std::string>& passed = {}) {
    std::vector<std::string> dropped;
    return cloneEnvironment(of(std::move(values)), passed, {"ann", "/home/ann", "/bin/bash"}, "/srv/shop", dropped);
}

std::vector<std::string> droppedOf(std::map<std::string, std::string> values, const std::vector<std::string>& passed) {
    std::vector<std::string> dropped;
    cloneEnvironment(of(std::move(values)), passed, {"ann", "/home/ann", "/bin/bash"}, "/srv/shop", dropped);
    return dropped;
}

using Lines = std::vector<std::string>;

TEST(CloneEnvironment, SaysWhichVariablesAreDropped) {
    const std::string secret = "https://ann:password@proxy";
    EXPECT_EQ(droppedOf({{"PATH", "/usr/bin"}, {"PYENV_VERSION", secret}}, {"MODE"}),
              (std::vector<std::string>{
                  "variable MODE is not set here, so it is not set inside",
                  "variable PYENV_VERSION looks like a secret and is not passed on; --env PYENV_VERSION "
                  "passes it"}));
    EXPECT_EQ(droppedOf({{"PYENV_VERSION", secret}, {"MODE", "x"}}, {"MODE", "PYENV_VERSION"}),
              std::vector<std::string>{});
}

TEST(CloneEnvironment, HoldsAFewCommonNamesAndNothingElse) {
    GRADUS_CASES("E1", "OV36", "PV6");
    EXPECT_EQ(environmentOf({{"PATH", "/usr/bin"},
                             {"LANG", "de_DE.UTF-8"},
                             {"LC_TIME", "C"},
                             {"TERM", "xterm"},
                             {"TZ", "UTC"},
                             {"HOME", "/elsewhere"},
                             {"USER", "bob"},
                             {"AWS_SECRET", "x"},
                             {"LD_PRELOAD", "/x.so"},
                             {"LD_LIBRARY_PATH", "/x"},
                             {"GIT_DIR", "/x"},
                             {"GIT_SSH_COMMAND", "x"},
                             {"BASH_ENV", "/x"},
                             {"ENV", "/x"},
                             {"PYTHONPATH", "/x"},
                             {"SSH_AUTH_SOCK", "/x"},
                             {"DBUS_SESSION_BUS_ADDRESS", "x"},
                             {"https_proxy", "http://x"},
                             {"GRADUS_HOME", "/state"},
                             {"NODE_OPTIONS", "--require x"},
                             {"XDG_RUNTIME_DIR", "/run/user/1"}}),
              (Lines{"HOME=/home/ann", "LANG=de_DE.UTF-8", "LC_TIME=C", "LOGNAME=ann", "PATH=/usr/bin", "PWD=/srv/shop",
                     "SHELL=/bin/bash", "TERM=xterm", "TZ=UTC", "USER=ann"}));
}

TEST(CloneEnvironment, KeepsPathAsItIs) {
    const std::string path = "relative::/usr/bin:/opt/sk-tools/bin:/usr/bin";
    EXPECT_EQ(environmentOf({{"PATH", path}}).at(2), "PATH=" + path);
}

TEST(CloneEnvironment, GivesWhatIsNamed) {
    GRADUS_CASES("NS16");
    const Lines lines = environmentOf({{"TOKEN", "t"}, {"PYTHONPATH", "/lib"}},
                                      {"TOKEN", "NODE_ENV=test", "EMPTY=", "ABSENT", "HOME=/other", "A=b=c"});
    EXPECT_EQ(lines, (Lines{"A=b=c", "EMPTY=", "HOME=/other", "LOGNAME=ann", "NODE_ENV=test", "PWD=/srv/shop",
                            "SHELL=/bin/bash", "TOKEN=t", "USER=ann"}));
    for (const char* word : {"", "=x"}) EXPECT_THROW(environmentOf({}, {word}), Error) << word;
}

TEST(CloneEnvironment, GivesTheToolchainsTheirOwnUnlessTheValueIsSecret) {
    const Lines lines = environmentOf({{"CARGO_HOME", "/opt/cargo"},
                                       {"CARGO_REGISTRY_TOKEN", "x"},
                                       {"GOFLAGS", "-mod=mod"},
                                       {"RUSTFLAGS", "--cfg token=\"ghp_0123456789\""},
                                       {"UV_PYTHON", "https://ann:pw@host/x"}});
    EXPECT_EQ(lines, (Lines{"CARGO_HOME=/opt/cargo", "GOFLAGS=-mod=mod", "HOME=/home/ann", "LOGNAME=ann",
                            "PWD=/srv/shop", "SHELL=/bin/bash", "USER=ann"}));
}

TEST(CloneEnvironment, KnowsASecretWhenItSeesOne) {
    EXPECT_TRUE(looksSecret("NPM_TOKEN", ""));
    EXPECT_TRUE(looksSecret("db_password", ""));
    EXPECT_TRUE(looksSecret("X", "ghp_abc"));
    EXPECT_TRUE(looksSecret("X", "run --key sk-abc"));
    EXPECT_TRUE(looksSecret("X", "-----BEGIN RSA PRIVATE KEY-----"));
    EXPECT_TRUE(looksSecret("X", "http://u:p@proxy:80"));
    EXPECT_TRUE(looksSecret("X", "https://token@host/x"));
    EXPECT_TRUE(looksSecret("X", "AUTHORIZATION: basic abc"));
    EXPECT_FALSE(looksSecret("GOPATH", "/home/ann/go"));
    EXPECT_FALSE(looksSecret("X", "ssh://git@host/x"));
    EXPECT_FALSE(looksSecret("X", "/opt/disk-tools"));
}

TEST(CloneEnvironment, ExpandsThePlacesOfTheTable) {
    const Environment caller = of({{"CARGO_HOME", "/opt/cargo"}, {"XDG_CACHE_HOME", "/c"}, {"ODD", "relative"}});
    EXPECT_EQ(expandPlace("~/.cargo/", caller, "/home/ann"), "/home/ann/.cargo");
    EXPECT_EQ(expandPlace("${CARGO_HOME:-~/.cargo}/bin", caller, "/home/ann"), "/opt/cargo/bin");
    EXPECT_EQ(expandPlace("${GOPATH:-~/go}", caller, "/home/ann"), "/home/ann/go");
    EXPECT_EQ(expandPlace("${PIP:-${XDG_CACHE_HOME:-~/.cache}/pip}", caller, "/home/ann"), "/c/pip");
    EXPECT_EQ(expandPlace("${ABSENT:-}", caller, "/home/ann"), "");
    EXPECT_EQ(expandPlace("${ODD:-~/x}", caller, "/home/ann"), "");
    EXPECT_EQ(expandPlace("/home/linuxbrew/.linuxbrew", caller, "/home/ann"), "/home/linuxbrew/.linuxbrew");
}

// A typing mistake in the table would silently show nothing.
TEST(Toolchains, EveryPlaceOfTheTableExpands) {
    const Environment nothing = of({});
    for (const Toolchain& toolchain : toolchains())
        for (const auto& list : {toolchain.readOnly, toolchain.caches, toolchain.secrets})
            for (const std::string_view pattern : list) {
                const std::filesystem::path place = expandPlace(pattern, nothing, "/home/ann");
                EXPECT_TRUE(place.is_absolute() || pattern.ends_with(":-}")) << toolchain.name << " " << pattern;
                EXPECT_NE(place, "/home/ann") << toolchain.name << " " << pattern;
            }
    for (const std::string_view pattern : secretPlaces())
        EXPECT_TRUE(expandPlace(pattern, nothing, "/home/ann").native().starts_with("/home/ann/")) << pattern;
}

}  // namespace
}  // namespace gradus
