// Tools are shown; settings of theirs that hold a secret are not.
#include "stages/sandbox/clone_environment.h"
#include "tests/stages/sandbox/clone_fixture.h"

namespace gradus {
namespace {

TEST(SecretForms, AreRecognised) {
    for (const char* text :
         {"[registries.corp]\ntoken = \"Bearer abcdefgh\"\n", "token = \"c1d2e3f4g5h6\"",
          "AWS_SECRET_ACCESS_KEY = 'wJalrXUtnFEMI'", "channels:\n  - https://ann:hunter2@conda.corp/main\n",
          "registry=https://r.corp/?token=abc", "x ghp_0123456789", "    password \"x\"\n    password = 'hunter22'"})
        EXPECT_TRUE(holdsSecret(text)) << text;
}

TEST(SecretForms, OrdinarySettingsAreNone) {
    for (const char* text :
         {"[registry]\nglobal-credential-providers = [\"cargo:token\"]\n", "token = \"${CARGO_TOKEN}\"",
          "# password = hunter22", "[net]\ngit-fetch-with-cli = true\n", "password = env('PASSWORD')",
          "[target.x86_64-unknown-linux-gnu]\nlinker = \"clang\"\n", "token-file = /run/token"})
        EXPECT_FALSE(holdsSecret(text)) << text;
}

class CloneSecrets : public CloneTest {};

TEST_F(CloneSecrets, SettingsOfToolsThatHoldOneAreEmptyInside) {
    const FakeHome home(someone());
    home.write(".cargo/config.toml", "[registries.corp]\ntoken = \"c1d2e3f4g5h6\"\n");
    home.write(".cargo/bin/tool", "tool\n");
    home.write(".config/mise/config.toml", "[tools]\nnode = \"20\"\n");
    home.write(".config/mise/conf.d/env.toml", "[env]\nAPI_KEY = \"0123456789\"\n");
    home.write(".gradle/init.gradle", "repositories { maven { url 'https://ann:hunter2@corp/maven' } }\n");
    home.write(".gradle/sign.pfx", "secret\n");
    home.write("go/src/other/.env", "secret\n");
    home.write("go/pkg/mod/x", "module\n");
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan,
                     "cd; cat .cargo/config.toml .cargo/bin/tool .config/mise/config.toml .config/mise/conf.d/env.toml "
                     ".gradle/init.gradle .gradle/sign.pfx go/pkg/mod/x; cat go/src/other/.env 2>/dev/null; true"),
              "tool\n[tools]\nnode = \"20\"\nmodule\n");
    EXPECT_TRUE(mentions(plan.notes, ".cargo/config.toml looks as if it held a secret")) << joined(plan.notes);
}

TEST_F(CloneSecrets, ProxiesAndAddressesWithPasswordsAreLeftOutOfSettings) {
    const FakeHome home(someone());
    home.write(".pip/pip.conf", "[global]\nproxy = ann:hunter2@proxy.corp:3128\ntimeout = 60\n");
    home.write(".npmrc", "registry=https://r.corp/?token=abc\nfund=false\n");
    EXPECT_EQ(output(planClone(home.request()), "cd; cat .pip/pip.conf .npmrc"),
              "[global]\ntimeout = 60\nfund=false\n");
}

}  // namespace
}  // namespace gradus
