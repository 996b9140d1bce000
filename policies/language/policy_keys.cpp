#include "policies/language/policy_keys.h"

#include "policies/language/watch_keys.h"

namespace gradus {

namespace {

using enum ValueType;
using enum Stricter;
using Shape = Section::Shape;

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kDay = 86'400 * kSecond;

}  // namespace

const std::vector<std::string>& guaranteeNames() {
    static const std::vector<std::string> names{"no-network",    "read-only-host", "private-processes",
                                                "kernel-filter", "memory-limit",   "task-limit",
                                                "cpu-limit",     "disk-limit",     "separate-kernel"};
    return names;
}

const std::vector<std::string>& actorKinds() {
    static const std::vector<std::string> kinds{"person", "agent", "daemon", "ci"};
    return kinds;
}

const std::vector<std::string>& overridableGates() {
    // Not among them: what would put unproven bytes into a stage, or take somebody's no away unheard.
    static const std::vector<std::string> gates{"hold",    "pin",    "verified", "window",          "queue",
                                                "ceiling", "rules",  "tests",    "protected-paths", "hazards",
                                                "risk",    "budget", "alone",    "approvals"};
    return gates;
}

Section policySection() {
    return {"policy",
            Shape::kNamed,
            "What is demanded before a change may enter a stage. A policy only ever tightens the one it builds on.",
            {
                {.name = "extends",
                 .type = kName,
                 .documentation = "The policy it builds on; \"none\" starts empty; without it, the shipped one of the "
                                  "same name.",
                 .example = "\"staging\""},
                {.name = "description",
                 .type = kText,
                 .documentation = "What it is for, in a sentence.",
                 .example = "\"customers see it\"",
                 .least = 1},
                {.name = "checks",
                 .type = kNameList,
                 .documentation = "Checks that must run, whatever the stage says.",
                 .example = "[\"unit\"]",
                 .stricter = kUnion},
                {.name = "check",
                 .type = kTableList,
                 .documentation = "Checks of the policy's own.",
                 .example = "[{ name = \"lint\", run = \"make lint\" }]",
                 .section = "policy-check",
                 .stricter = kUnion},
                {.name = "requires",
                 .type = kChoiceList,
                 .documentation = "Guarantees that every check must have; no check may give one of them up.",
                 .example = "[\"memory-limit\"]",
                 .choices = guaranteeNames(),
                 .stricter = kUnion},
                {.name = "network",
                 .type = kNetwork,
                 .documentation = "The most that a check may connect to.",
                 .example = "\"none\"",
                 .stricter = kNarrower},
                {.name = "show",
                 .type = kPathList,
                 .documentation = "The most that `show` of [sandbox] may name; without it, nothing is forbidden.",
                 .example = "[]",
                 .stricter = kSubset},
                {.name = "limits",
                 .type = kTable,
                 .documentation = "The most that a check may ask for.",
                 .example = "{ memory = \"8G\" }",
                 .section = "limits",
                 .stricter = kFields},
                {.name = "approvals",
                 .type = kTableList,
                 .documentation = "Consent that must be given; every entry must be met, one person can meet several.",
                 .example = "[{ count = 1, role = \"sre\", expires = \"12h\" }]",
                 .section = "approval",
                 .stricter = kUnion},
                {.name = "freshness",
                 .type = kChoice,
                 .documentation = "What happens when files that the change does not touch moved since it was checked: "
                                  "allow it, recheck, or refuse.",
                 .example = "\"exact\"",
                 .fallback = "\"recheck\"",
                 .choices = {"allow", "recheck", "exact"},
                 .stricter = kLaterChoice},
                {.name = "evidence-lifetime",
                 .type = kDuration,
                 .documentation = "How old the result of a check may be to count.",
                 .example = "\"1d\"",
                 .fallback = "\"7d\"",
                 .least = 60 * kSecond,
                 .most = 3650 * kDay,
                 .stricter = kLess},
                {.name = "evidence-reuse",
                 .type = kDuration,
                 .documentation = "How long a check's yes counts again for exactly the same question instead of being "
                                  "asked again; never in production.",
                 .example = "\"15m\"",
                 .fallback = "\"0s\"",
                 .most = 7 * kDay,
                 .stricter = kLess},
                {.name = "keep-failed",
                 .type = kDuration,
                 .documentation = "How long the sandbox of a failed check is kept as it was left, for `gradus reopen`; "
                                  "at most the newest 8 of a project, each of at most 256 MiB.",
                 .example = "\"2h\"",
                 .fallback = "\"24h\"",
                 .most = 30 * kDay,
                 .stricter = kLess},
                leastSoakRow(),
                leastMonitorRow(),
                gapLimitRow(),
                queueRow(),
                waitLimitRow(),
                {.name = "rollback",
                 .type = kChoice,
                 .documentation = "Whether a failed stage is taken back at once or waits for a person.",
                 .example = "\"automatic\"",
                 .fallback = "\"automatic\"",
                 .choices = {"manual", "automatic"},
                 .stricter = kLaterChoice},
                {.name = "alone",
                 .type = kChoiceList,
                 .documentation = "Who may bring a change in without the consent of another person.",
                 .example = "[\"person\", \"ci\"]",
                 .fallback = "[\"person\"]",
                 .choices = actorKinds(),
                 .stricter = kSubset},
                {.name = "risk",
                 .type = kTable,
                 .documentation = "What counts as risky, and what then needs a person.",
                 .example = "{ person-above = \"low\", files = 50 }",
                 .section = "risk",
                 .stricter = kFields},
                {.name = "budget",
                 .type = kTable,
                 .documentation = "How much may happen without a person.",
                 .example = "{ promotions = 20, rollbacks = 2, per = \"1d\" }",
                 .section = "budget",
                 .stricter = kFields},
                {.name = "protected-paths",
                 .type = kGlobList,
                 .documentation = "A change that touches one of these needs a person.",
                 .example = "[\"migrations/**\"]",
                 .stricter = kUnion},
                {.name = "hazards",
                 .type = kChoice,
                 .documentation = "A change with a link that leads out of the project, a git repository without "
                                  "`.git`, or a name that is or looks like another: allow it, ask for a person, or "
                                  "ask for the consent of another person.",
                 .example = "\"consent\"",
                 .fallback = "\"person\"",
                 .choices = {"allow", "person", "consent"},
                 .stricter = kLaterChoice},
                {.name = "overridable",
                 .type = kChoiceList,
                 .documentation = "Gates that a person with the role `override` may open once, with a reason.",
                 .example = "[\"window\"]",
                 .fallback = "[\"window\", \"hold\", \"pin\", \"verified\", \"budget\", \"risk\", \"ceiling\"]",
                 .choices = overridableGates(),
                 .stricter = kSubset},
                {.name = "test-paths",
                 .type = kGlobList,
                 .documentation = "Tests: a change that weakens one of these needs a person.",
                 .example = "[\"tests/**\"]",
                 .stricter = kUnion},
            }};
}

Section policyCheckSection() {
    return {
        "policy-check",
        Shape::kNested,
        "A check that a policy brings along: `[[check]]` in its file, `[[policy.NAME.check]]` inline. It has the keys "
        "of a check besides.",
        {
            {.name = "name",
             .type = kName,
             .documentation = "What the check is called.",
             .example = "\"lint\"",
             .required = true},
        }};
}

Section approvalSection() {
    return {"approval",
            Shape::kNested,
            "Consent by people. It never comes from the author or from an agent.",
            {
                {.name = "count",
                 .type = kCount,
                 .documentation = "How many people.",
                 .example = "1",
                 .fallback = "1",
                 .least = 1,
                 .most = 16},
                {.name = "role",
                 .type = kName,
                 .documentation = "What they must be; without it, anyone but the author.",
                 .example = "\"sre\""},
                {.name = "expires",
                 .type = kDuration,
                 .documentation = "How long a consent counts.",
                 .example = "\"12h\"",
                 .fallback = "\"24h\"",
                 .least = 60 * kSecond,
                 .most = 365 * kDay},
                {.name = "not",
                 .type = kChoiceList,
                 .documentation = "Who does not count: the person an agent acts for, or who asked for the promotion.",
                 .example = "[\"sponsor\"]",
                 .choices = {"sponsor", "promoter"}},
            }};
}

Section riskSection() {
    return {"risk",
            Shape::kNested,
            "What counts as risky, and what then needs a person.",
            {
                {.name = "person-above",
                 .type = kChoice,
                 .documentation = "A change riskier than this needs a person.",
                 .example = "\"low\"",
                 .fallback = "\"medium\"",
                 .choices = {"high", "medium", "low"},
                 .stricter = kLaterChoice},
                {.name = "files",
                 .type = kCount,
                 .documentation = "More changed files than this are a high risk.",
                 .example = "50",
                 .least = 1,
                 .most = 1'000'000,
                 .stricter = kLess},
                {.name = "lines",
                 .type = kCount,
                 .documentation = "More changed lines than this are a high risk.",
                 .example = "1000",
                 .least = 1,
                 .most = 100'000'000,
                 .stricter = kLess},
                {.name = "paths",
                 .type = kGlobList,
                 .documentation = "Touching one of these is a high risk.",
                 .example = "[\"billing/**\"]",
                 .stricter = kUnion},
            }};
}

Section budgetSection() {
    return {"budget",
            Shape::kNested,
            "How much machines may have a hand in within a time, by making a change or by promoting it.",
            {
                {.name = "promotions",
                 .type = kCount,
                 .documentation = "Promotions; the next one waits.",
                 .example = "20",
                 .least = 1,
                 .most = 1'000'000,
                 .stricter = kLess},
                {.name = "rollbacks",
                 .type = kCount,
                 .documentation = "Rollbacks, of whatever kind; at the last one the stage closes to machines.",
                 .example = "2",
                 .least = 1,
                 .most = 1'000'000,
                 .stricter = kLess},
                {.name = "per",
                 .type = kDuration,
                 .documentation = "The time they are counted over.",
                 .example = "\"1d\"",
                 .fallback = "\"1d\"",
                 .least = 60 * kSecond,
                 .most = 366 * kDay,
                 .stricter = kMore},
            }};
}

}  // namespace gradus
