#include <gtest/gtest.h>

#include "policies/language/loader.h"
#include "store/model/error.h"
#include "tests/policies/language/loading.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

constexpr const char* kShop = R"(
[pipeline]
name = "shop"
stages = ["sandbox"]
[sandbox]
limits = { memory = "1G", tasks = 64 }
network = "host"
[check.t]
run = "true"
[policy.careful]
requires = ["no-network"]
limits = { memory = "2G", wall-time = "1m" }
)";

Value asked(ValueType type, std::int64_t number, const std::string& text = {}) {
    Value value;
    value.type = type;
    value.number = number;
    value.text = text;
    value.origin.kind = Origin::Kind::kCaller;
    return value;
}

SandboxWish wishFor(const std::string& limit, std::int64_t number) {
    SandboxWish wish;
    Value limits = asked(ValueType::kTable, 0);
    limits.fields.emplace(limit, asked(ValueType::kSize, number));
    wish.asked.set("limits", limits);
    return wish;
}

Settings rulesFor(const SandboxWish& wish, const char* file = kShop, const char* ceiling = "") {
    const RuleFiles files{{{kPipelineFile, file}}};
    const bool noFile = *file == '\0';
    return sandboxRules(noFile ? nullptr : &files, wish, builtinVocabulary(),
                        *ceiling == '\0' ? Ceiling{} : Ceiling{"/etc/gradus/ceiling.toml", ceiling});
}

std::int64_t limitOf(const Settings& settings, const std::string& name) {
    const Value* limits = settings.find("limits");
    return limits != nullptr && limits->fields.contains(name) ? limits->fields.at(name).number : -1;
}

std::string refusal(const SandboxWish& wish, const char* file = kShop, const char* ceiling = "") {
    try {
        rulesFor(wish, file, ceiling);
        return "no refusal";
    } catch (const Error& error) {
        return std::string(error.what()) + " | " + error.hint();
    }
}

TEST(SandboxRules, WithoutAFileAreTheDefaults) {
    const Settings settings = rulesFor({}, "");
    EXPECT_EQ(settings.text("network"), "none");
    EXPECT_EQ(settings.duration("lifetime"), std::chrono::hours(14 * 24));
    EXPECT_EQ(limitOf(settings, "memory"), -1);
}

TEST(SandboxRules, TheCallersLimitReplacesTheProjectsAndLeavesTheOthers) {
    const Settings settings = rulesFor(wishFor("memory", 5 << 20));
    EXPECT_EQ(limitOf(settings, "memory"), 5 << 20);
    EXPECT_EQ(limitOf(settings, "tasks"), 64);
}

TEST(SandboxRules, APolicyCapsTheProjectAndAddsItsDemands) {
    SandboxWish wish;
    wish.policy = "careful";
    const Settings settings = rulesFor(wish);
    EXPECT_EQ(settings.text("network"), "none") << "the policy demands no-network";
    EXPECT_EQ(limitOf(settings, "memory"), 1 << 30) << "the project is stricter already";
    EXPECT_EQ(limitOf(settings, "wall-time"), 60'000);
    EXPECT_EQ(settings.list("requires"), std::vector<std::string>{"no-network"});
}

TEST(SandboxRules, TheCallerIsRefusedWhatThePolicyForbids) {
    SandboxWish wish = wishFor("memory", std::int64_t{4} << 30);
    wish.policy = "careful";
    EXPECT_NE(refusal(wish).find("limits.memory \"4G\" is looser than policy 'careful' allows: \"2G\""),
              std::string::npos)
        << refusal(wish);
    SandboxWish network;
    network.policy = "careful";
    network.asked.set("network", asked(ValueType::kNetwork, 0, "host"));
    EXPECT_NE(refusal(network).find("network"), std::string::npos) << refusal(network);
}

// A list gives up no-network just as the host's network does; an empty one gives up nothing.
TEST(SandboxRules, ANetworkByNameIsRefusedWhereNoNetworkIsDemanded) {
    GRADUS_CASES("N2", "N6");
    SandboxWish wish;
    wish.policy = "careful";
    Value list = asked(ValueType::kNetwork, 0, "allow");
    list.items.push_back(asked(ValueType::kText, 0, "a.test:443"));
    wish.asked.set("network", list);
    EXPECT_NE(refusal(wish).find("network"), std::string::npos) << refusal(wish);
    list.items.clear();
    wish.asked.set("network", list);
    EXPECT_EQ(refusal(wish), "no refusal");
}

// What a ceiling does not list is refused, whatever the project's files allow.
TEST(SandboxRules, ACeilingsListBeatsTheProjects) {
    GRADUS_CASES("N6");
    constexpr const char* kOpen =
        "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\"]\n[sandbox]\nnetwork = { allow = [\"a.test:443\", "
        "\"b.test:443\"] }\n[check.a]\nrun = \"true\"\n";
    const Settings settings = rulesFor({}, kOpen, "network = { allow = [\"b.test:443\", \"c.test:443\"] }\n");
    const Value* network = settings.find("network");
    ASSERT_NE(network, nullptr);
    EXPECT_EQ(valueText(*network), "{ allow = [\"b.test:443\"] }");
    EXPECT_EQ(valueText(*rulesFor({}, kOpen, "network = { allow = [\"a.test:443=10.0.0.1\"] }\n").find("network")),
              "{ allow = [] }")
        << "a pinned name is another rule";
}

TEST(SandboxRules, AnUnknownPolicyIsNamedWithWhatWasMeant) {
    SandboxWish wish;
    wish.policy = "carefull";
    EXPECT_NE(refusal(wish).find("did you mean 'careful'?"), std::string::npos) << refusal(wish);
    wish.policy = "untrusted";
    EXPECT_EQ(rulesFor(wish, "").text("network"), "none") << "shipped ones need no file";
}

TEST(SandboxRules, TheCeilingWinsOverEverybody) {
    const char* const ceiling = "requires = [\"no-network\"]\nlimits = { memory = \"512M\" }\n";
    const Settings settings = rulesFor({}, kShop, ceiling);
    EXPECT_EQ(limitOf(settings, "memory"), 512 << 20);
    EXPECT_EQ(settings.text("network"), "none");
    EXPECT_NE(refusal(wishFor("memory", 1 << 30), kShop, ceiling).find("/etc/gradus/ceiling.toml"), std::string::npos)
        << "and says which file set it";  // PF10
    SandboxWish host;
    host.asked.set("network", asked(ValueType::kNetwork, 0, "host"));
    EXPECT_NE(refusal(host, kShop, ceiling).find("the administrator's ceiling"), std::string::npos);
}

TEST(SandboxRules, FilesWithErrorsGiveNone) {
    EXPECT_NE(refusal({}, "[pipeline\n").find("gradus policy lint"), std::string::npos);
}

TEST(SandboxRules, WhatMayBeShownIsBoundedByPolicyAndCeiling) {
    constexpr const char* kShows = R"(
[pipeline]
name = "shop"
stages = ["sandbox"]
[sandbox]
show = ["/srv/fixtures", "/srv/keys"]
[check.t]
run = "true"
[policy.narrow]
show = ["/srv/fixtures"]
)";
    EXPECT_EQ(rulesFor({}, kShows).list("show"), (std::vector<std::string>{"/srv/fixtures", "/srv/keys"}));
    SandboxWish wish;
    wish.policy = "narrow";
    EXPECT_EQ(rulesFor(wish, kShows).list("show"), std::vector<std::string>{"/srv/fixtures"});
    EXPECT_TRUE(rulesFor({}, kShows, "show = []\n").list("show").empty());
    EXPECT_TRUE(rulesFor({}, kShop, "show = [\"/srv/keys\"]\n").list("show").empty()) << "nobody asked for it";
}

}  // namespace
}  // namespace gradus
