#include "pipeline/service/service.h"

#include <gtest/gtest.h>

#include <fstream>

#include "plugins/checks/builtin.h"
#include "stages/drivers/builtin.h"
#include "store/model/error.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRules = "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\"]\n";
const Actor kAlice{ActorKind::kPerson, "alice"};

Registry builtins() {
    Registry registry;
    addBuiltinChecks(registry);
    addBuiltinDrivers(registry);
    return registry;
}

class ServiceTest : public testing::Test {
  protected:
    ServiceTest() { write("gradus.toml", kRules); }

    Service service() {
        return Service({.environment = [this](const std::string& name) -> std::optional<std::string> {
                            if (name == "GRADUS_HOME") {
                                if (onLookup) onLookup();
                                return (scratch / state).native();
                            }
                            if (name == "GRADUS_ACTOR") return actor;
                            return std::nullopt;
                        },
                        .clock = clock,
                        .random = random,
                        .vocabulary = registry.vocabulary(),
                        .checkKinds = registry.checkKinds(),
                        .ceiling = scratch / "ceiling.toml"});
    }
    void write(const fs::path& name, std::string_view text) {
        fs::create_directories((project / name).parent_path());
        std::ofstream(project / name) << text;
    }
    static ErrorCode codeOf(const std::function<void()>& work) {
        try {
            work();
        } catch (const Error& e) {
            EXPECT_NE(e.hint(), "") << e.what();
            return e.code();
        }
        ADD_FAILURE() << "nothing was thrown";
        return ErrorCode::kUsage;
    }

    test::ScratchDirectory scratch;
    std::string state = "state";
    std::function<void()> onLookup;  ///< called whenever a service asks where state is kept
    fs::path project = scratch / "shop";
    test::FakeClock clock;
    test::FakeRandom random;
    Registry registry = builtins();
    std::optional<std::string> actor;
};

TEST_F(ServiceTest, PutsInForceOnlyWhatThePersonHasSeen) {
    const Digest seen = service().rules(project).onDisk->digest();
    write("gradus.toml", std::string(kRules) + "[check.sly]\nrun = \"steal\"\n");
    EXPECT_EQ(codeOf([&] { service().trust(project, kAlice, seen); }), ErrorCode::kBusy);
    EXPECT_EQ(service().rules(project).state, RulesState::kUntrusted);
    const TrustReport report = service().trust(project, kAlice, service().rules(project).onDisk->digest());
    EXPECT_TRUE(report.recorded);
}

TEST_F(ServiceTest, LetsNobodyButAPersonTrustRules) {
    for (const ActorKind kind : {ActorKind::kAgent, ActorKind::kDaemon, ActorKind::kCi})
        EXPECT_EQ(codeOf([&] { service().trust(project, {kind, "it"}); }), ErrorCode::kNotAllowed);
    EXPECT_FALSE(fs::exists(scratch / "state"));
}

TEST_F(ServiceTest, SeesItsOwnTrustWithoutBeingOpenedAgain) {
    Service one = service();
    EXPECT_EQ(one.rules(project).state, RulesState::kUntrusted);
    one.trust(project, kAlice);
    EXPECT_EQ(one.rules(project).state, RulesState::kTrusted);
    EXPECT_FALSE(one.trust(project, kAlice).recorded);
}

TEST_F(ServiceTest, RecordsATrustOnceWhereverAnotherSaysTheSameMeanwhile) {
    bool reached = true;
    int both = 0;  // wherever the other came too late to be seen at first
    for (int at = 1; reached && at < 100; ++at) {
        reached = false;
        state = "state" + std::to_string(at);
        onLookup = [&, left = at]() mutable {
            if (--left != 0) return;
            reached = true;
            Service another = service();
            another.trust(project, kAlice);
        };
        Service one = service();
        const bool recorded = one.trust(project, kAlice).recorded;
        onLookup = nullptr;
        EXPECT_EQ(service().queryAudit({.query = {.kind = EventKind::kRulesTrusted}}).size(), 1U) << at;
        EXPECT_EQ(service().rules(project).state, RulesState::kTrusted);
        if (reached && !recorded) ++both;
    }
    EXPECT_GT(both, 2);
}

TEST_F(ServiceTest, KeepsTrustedRulesWhenTheFilesAreGone) {
    service().trust(project, kAlice);
    fs::remove(project / "gradus.toml");
    const ProjectRules rules = service().rules(project);
    EXPECT_EQ(rules.state, RulesState::kChanged);
    ASSERT_TRUE(rules.pinned);
    EXPECT_EQ(rules.pinned->find("gradus.toml")->bytes, kRules);
}

TEST_F(ServiceTest, ListsEveryFileThatDiffers) {
    write(".gradus/policies/kept.toml", "description = \"kept\"\n");
    write(".gradus/policies/gone.toml", "description = \"gone\"\n");
    service().trust(project, kAlice);
    fs::remove(project / ".gradus/policies/gone.toml");
    write(".gradus/policies/new.toml", "description = \"new\"\n");
    write("gradus.toml", std::string(kRules) + "# edited\n");
    auto changed = service().rules(project).changedFiles;
    std::sort(changed.begin(), changed.end());
    EXPECT_EQ(changed,
              (std::vector<std::string>{".gradus/policies/gone.toml", ".gradus/policies/new.toml", "gradus.toml"}));
}

TEST_F(ServiceTest, RefusesAProjectWhosePathIsNotText) {
    project = scratch / "caf\xe9";
    write("gradus.toml", kRules);
    try {
        service().trust(project, kAlice);
        FAIL() << "its path would be another one when it is read again";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kNotAllowed);
        EXPECT_NE(std::string(e.what()).find("not UTF-8"), std::string::npos) << e.what();
    }
}

TEST_F(ServiceTest, TrustsEachProjectByItself) {
    service().trust(project, kAlice);
    project = scratch / "other";
    write("gradus.toml", kRules);
    EXPECT_EQ(service().rules(project).state, RulesState::kUntrusted);
}

TEST_F(ServiceTest, NeverSkipsACeilingThatCannotBeRead) {
    fs::create_directory(scratch / "ceiling.toml");
    EXPECT_THROW(service().status(project), Error);
}

TEST_F(ServiceTest, TakesTheCallerFromItsDeclarationElseFromTheLogin) {
    EXPECT_EQ(service().caller().kind, ActorKind::kPerson);
    EXPECT_NE(service().caller().name, "");
    actor = "ci:runner:7";
    EXPECT_EQ(service().caller(), (Actor{ActorKind::kCi, "runner:7"}));
    actor = "";
    EXPECT_EQ(service().caller().kind, ActorKind::kPerson);
    for (const char* wrong : {"ci", "ci:", "robot:x", "person:\xff"}) {
        actor = wrong;
        EXPECT_EQ(codeOf([&] { service().caller(); }), ErrorCode::kUsage) << wrong;
    }
}

TEST_F(ServiceTest, SweepsNothingThatIsYoungerThanTheGraceOrInForce) {
    service().trust(project, kAlice);
    Objects objects(scratch / "state/objects", clock);
    const Digest stray = objects.put("stray");
    EXPECT_EQ(service().sweep(std::chrono::hours(1)).removed, 0U);
    clock.advance(std::chrono::hours(2));
    EXPECT_EQ(service().sweep(std::chrono::hours(1)).removed, 1U);
    EXPECT_FALSE(objects.contains(stray));
    EXPECT_EQ(service().rules(project).state, RulesState::kTrusted);
}

TEST_F(ServiceTest, AsksForAStoreWhereNoneIsAndMakesNone) {
    EXPECT_EQ(codeOf([&] { service().checkStore(); }), ErrorCode::kNotFound);
    EXPECT_EQ(codeOf([&] { service().redact(1, kAlice); }), ErrorCode::kNotFound);
    EXPECT_EQ(codeOf([&] { service().reanchor(kAlice); }), ErrorCode::kNotFound);
    EXPECT_EQ(codeOf([&] { service().backup(scratch / "copy"); }), ErrorCode::kNotFound);
    EXPECT_EQ(service().sweep(std::chrono::hours(1)).removed, 0U);
    EXPECT_FALSE(fs::exists(scratch / "state"));
}

}  // namespace
}  // namespace gradus
