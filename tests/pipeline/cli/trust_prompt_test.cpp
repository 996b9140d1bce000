// What a person is shown before rules are put in force, and what the answers do.
#include <gtest/gtest.h>

#include <fstream>

#include "pipeline/cli/run.h"
#include "pipeline/cli/verbs.h"
#include "plugins/checks/builtin.h"
#include "stages/drivers/builtin.h"
#include "tests/pipeline/cli/fake_host.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRules = R"([pipeline]
name = "shop"
stages = ["sandbox", "local", "staging"]

[check.unit]
run = "make test"
[check.fetch]
run = ["sh", "-c", "curl x"]
network = "host"
without = ["no-network"]
[check.health]
http = "http://127.0.0.1:8080/healthz"

[stage.staging]
path = "/srv/shop"
driver = "release-directory"
activate = ["systemctl", "restart", "shop"]
)";

class TrustPrompt : public testing::Test {
  protected:
    TrustPrompt() {
        addBuiltinChecks(registry_);
        addBuiltinDrivers(registry_);
        fs::create_directories(project_);
        write(kRules);
        host.here = project_;
        host.variables["GRADUS_HOME"] = scratch_ / "state";
        host.variables["GRADUS_ACTOR"] = "person:alice";
    }
    void write(std::string_view text) const { std::ofstream(project_ / "gradus.toml") << text; }

    int trust(const std::optional<std::string>& answer) {
        host.answer = answer;
        host.errText.text.clear();
        host.outText.text.clear();
        const VerbTable verbs(allVerbs([&](Host& here) {
            return Service({.environment = [&here](const std::string& name) { return here.variable(name); },
                            .clock = here.clock(),
                            .random = random_,
                            .vocabulary = registry_.vocabulary(),
                            .checkKinds = registry_.checkKinds(),
                            .ceiling = scratch_ / "ceiling.toml"});
        }));
        return runCommandLine(verbs, {"trust"}, host);
    }
    /// A line of the prompt, whatever the room between its words.
    bool shows(const std::string& wanted) const {
        std::istringstream lines(host.errText.text);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string plain;
            for (std::string word; words >> word;) plain += (plain.empty() ? "" : " ") + word;
            if (plain == wanted) return true;
        }
        return false;
    }

    FakeHost host;

  private:
    test::ScratchDirectory scratch_;
    fs::path project_ = scratch_ / "shop";
    test::FakeRandom random_;
    Registry registry_;
};

TEST_F(TrustPrompt, ShowsEverythingThatWouldRunAndWhatIsGivenUp) {
    EXPECT_EQ(trust("n"), 3);
    for (const char* line : {R"(check unit runs ["make", "test"])", R"(check fetch runs ["sh", "-c", "curl x"])",
                             R"(check fetch gives up ["no-network"])", R"(check fetch has the network "host")",
                             R"(check health asks "http://127.0.0.1:8080/healthz")",
                             R"(stage staging runs on this machine ["systemctl", "restart", "shop"])"})
        EXPECT_TRUE(shows(line)) << line << "\nin:\n" << host.errText.text;
    EXPECT_FALSE(shows("check unit has the network \"none\""));
    EXPECT_NE(host.errText.text.find("\ntrust these rules? [y/N] "), std::string::npos);
}

TEST_F(TrustPrompt, ShowsEveryFileWithItsDigestAndWhichOfThemChanged) {
    const auto line = [](std::string_view text, std::string_view more) {
        return sha256(text).brief() + " gradus.toml" + std::string(more);
    };
    EXPECT_EQ(trust("y"), 0);
    EXPECT_TRUE(shows(line(kRules, ""))) << host.errText.text;
    const std::string edited = std::string(kRules) + "# edited\n";
    write(edited);
    EXPECT_EQ(trust("n"), 3);
    EXPECT_TRUE(shows(line(edited, " (changed)"))) << host.errText.text;
}

TEST_F(TrustPrompt, SaysWhoEntersAStageAlone) {
    write(std::string(kRules) + "[policy.staging]\nalone = [\"person\"]\n");
    EXPECT_EQ(trust("n"), 3);
    EXPECT_TRUE(shows(R"(stage staging is entered without another person by ["person"])")) << host.errText.text;
}

TEST_F(TrustPrompt, TakesOnlyAYesForAYes) {
    for (const char* answer : {"", "n", "no", "Yes please", "yy", " "}) EXPECT_EQ(trust(answer), 3) << answer;
    EXPECT_EQ(trust(std::nullopt), 2) << "no terminal to ask at";
    EXPECT_EQ(trust("yes"), 0);
    EXPECT_EQ(host.outText.text.rfind("trusted:", 0), 0U) << host.outText.text;
}

TEST_F(TrustPrompt, DoesNotAskForWhatIsInForceAlready) {
    EXPECT_EQ(trust("y"), 0);
    EXPECT_EQ(trust("n"), 0);
    EXPECT_EQ(host.errText.text.find("trust these rules?"), std::string::npos);
}

}  // namespace
}  // namespace gradus
