#include "policies/language/keys.h"

#include <algorithm>

#include "policies/language/policy_keys.h"
#include "policies/language/step_keys.h"
#include "policies/language/watch_keys.h"
#include "store/model/error.h"

namespace gradus {

namespace {

using enum ValueType;
using enum Stricter;
using Shape = Section::Shape;

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kDay = 86'400 * kSecond;
constexpr std::int64_t kKibi = 1024;
constexpr std::int64_t kMebi = kKibi * kKibi;
constexpr std::int64_t kTebi = kMebi * kMebi;

Section pipelineSection() {
    return {"pipeline",
            Shape::kSingle,
            "What this pipeline is called and which stages a change climbs.",
            {
                {.name = "name",
                 .type = kName,
                 .documentation = "The name of the pipeline, as people say it.",
                 .example = "\"shop\"",
                 .required = true},
                {.name = "stages",
                 .type = kNameList,
                 .documentation = "The stages in the order in which a change climbs them.",
                 .example = "[\"sandbox\", \"local\"]",
                 .required = true,
                 .least = 1,
                 .most = 32},
            }};
}

Section sandboxSection() {
    return {
        "sandbox",
        Shape::kSingle,
        "What a clone shows and may use; `gradus try` uses it too. A check inherits `limits`, key by key, and `env`.",
        {
            {.name = "base",
             .type = kChoice,
             .documentation = "What is cloned: the project, or the project and the rest of the system.",
             .example = "\"system\"",
             .fallback = "\"project\"",
             .choices = {"project", "system"}},
            {.name = "env",
             .type = kEnvironment,
             .documentation = "Variables passed in by name, or set; all others are left out.",
             .example = "[\"LANG\", \"NODE_ENV=test\"]"},
            {.name = "hide",
             .type = kGlobList,
             .documentation = "Files of the project that a clone does not show.",
             .example = "[\".env*\"]"},
            {.name = "show",
             .type = kPathList,
             .documentation = "Paths outside the project that a clone shows read-only although they are hidden by "
                              "default; credentials never.",
             .example = "[\"/home/ci/fixtures\"]",
             .stricter = kSubset},
            {.name = "limits",
             .type = kTable,
             .documentation = "What a clone may use up.",
             .example = "{ memory = \"4G\", tasks = 2048 }",
             .section = "limits",
             .stricter = kFields},
            {.name = "network",
             .type = kNetwork,
             .documentation = "What `gradus try` may connect to; a check says its own.",
             .example = "{ allow = [\"pypi.org:443\"] }",
             .fallback = "\"none\"",
             .stricter = kNarrower},
            {.name = "requires",
             .type = kChoiceList,
             .documentation = "Guarantees asked for beyond the first four, which every clone has.",
             .example = "[\"memory-limit\"]",
             .choices = guaranteeNames(),
             .stricter = kUnion},
            {.name = "without",
             .type = kChoiceList,
             .documentation = "Guarantees given up, visibly.",
             .example = "[\"no-network\"]",
             .choices = guaranteeNames(),
             .stricter = kSubset},
            {.name = "services",
             .type = kNameList,
             .documentation = "Services started beside every command of `gradus try` and of kept sandboxes; a check "
                              "says its own.",
             .example = "[\"db\"]"},
            {.name = "lifetime",
             .type = kDuration,
             .documentation = "How long a kept sandbox lives after its last use.",
             .example = "\"3d\"",
             .fallback = "\"14d\"",
             .least = 60 * kSecond,
             .most = 3650 * kDay},
        }};
}

Section limitsSection() {
    return {"limits",
            Shape::kNested,
            "The most that may be used; a limit asked for here is enforced or the run is refused.",
            {
                {.name = "memory",
                 .type = kSize,
                 .documentation = "Memory of all processes together.",
                 .example = "\"4G\"",
                 .least = kMebi,
                 .most = 64 * kTebi,
                 .stricter = kLess},
                {.name = "tasks",
                 .type = kCount,
                 .documentation = "Processes and threads at one time.",
                 .example = "2048",
                 .least = 1,
                 .most = 4'194'304,
                 .stricter = kLess},
                {.name = "disk",
                 .type = kSize,
                 .documentation = "Bytes written to the clone.",
                 .example = "\"10G\"",
                 .least = kMebi,
                 .most = 1024 * kTebi,
                 .stricter = kLess},
                {.name = "wall-time",
                 .type = kDuration,
                 .documentation = "Time on the clock from start to end.",
                 .example = "\"30m\"",
                 .least = 1,
                 .most = 30 * kDay,
                 .stricter = kLess},
                {.name = "cpu-time",
                 .type = kDuration,
                 .documentation = "Processor time of all processes together.",
                 .example = "\"10m\"",
                 .least = 1,
                 .most = 365 * kDay,
                 .stricter = kLess},
                {.name = "cpus",
                 .type = kDecimal,
                 .documentation = "Processors used at one time, in fractions.",
                 .example = "1.5",
                 .least = 10,
                 .most = 4'096'000,
                 .stricter = kLess},
                {.name = "output",
                 .type = kSize,
                 .documentation = "Bytes of output that are kept.",
                 .example = "\"16M\"",
                 .least = kKibi,
                 .most = kTebi,
                 .stricter = kLess},
            }};
}

Section checkSection() {
    return {"check",
            Shape::kNamed,
            "Something that says yes or no about a change. Its kind follows from its key: `run` or `http`.",
            {
                {.name = "when",
                 .type = kChoice,
                 .documentation = "Before the stage is touched, in a sandbox; or after, looking at what runs there.",
                 .example = "\"before\"",
                 .choices = {"before", "after"}},
                {.name = "timeout",
                 .type = kDuration,
                 .documentation = "How long it may take; longer is no answer. For `http`: `10s`, beyond what its right "
                                  "answers in a row take.",
                 .example = "\"90s\"",
                 .fallback = "\"10m\"",
                 .least = 100,
                 .most = 7 * kDay},
                {.name = "retries",
                 .type = kCount,
                 .documentation = "How often it is tried again when it could not judge; a no is never retried.",
                 .example = "2",
                 .fallback = "1",
                 .most = 10},
                {.name = "reuse",
                 .type = kBoolean,
                 .documentation = "Whether a yes that it gave to exactly the same question may count again, as long as "
                                  "the policy's `evidence-reuse` says.",
                 .example = "false",
                 .fallback = "true"},
                {.name = "needs",
                 .type = kNameList,
                 .documentation = "Checks that must have passed first.",
                 .example = "[\"build\"]"},
                {.name = "services",
                 .type = kNameList,
                 .documentation = "Services started inside the sandbox before it runs.",
                 .example = "[\"db\"]"},
                {.name = "requires",
                 .type = kChoiceList,
                 .documentation = "Guarantees asked for beyond the first four, which every check has.",
                 .example = "[\"memory-limit\"]",
                 .choices = guaranteeNames(),
                 .stricter = kUnion},
                {.name = "without",
                 .type = kChoiceList,
                 .documentation = "Guarantees given up, visibly.",
                 .example = "[\"no-network\"]",
                 .choices = guaranteeNames(),
                 .stricter = kSubset},
                {.name = "network",
                 .type = kNetwork,
                 .documentation = "What it may connect to.",
                 .example = "{ allow = [\"db.test:5432=127.0.0.1\"] }",
                 .fallback = "\"none\"",
                 .stricter = kNarrower},
                {.name = "limits",
                 .type = kTable,
                 .documentation = "What it may use up.",
                 .example = "{ memory = \"1G\" }",
                 .section = "limits",
                 .stricter = kFields},
            }};
}

Section stageSection() {
    return {
        "stage",
        Shape::kNamed,
        "Where changes live: a driver with its target, and what is checked on the way in.",
        {
            {.name = "driver",
             .type = kName,
             .documentation = "What moves changes into the stage; the stage's own name where a driver is called so.",
             .example = "\"release-directory\""},
            {.name = "policy",
             .type = kName,
             .documentation = "What is demanded; the stage's own name where a policy is called so.",
             .example = "\"production\""},
            {.name = "checks",
             .type = kNameList,
             .documentation = "The checks that run; without it, every check of the file that can run before.",
             .example = "[\"unit\", \"health\"]"},
            {.name = "requires",
             .type = kChoiceList,
             .documentation = "Guarantees that every check of this stage must have.",
             .example = "[\"separate-kernel\"]",
             .choices = guaranteeNames(),
             .stricter = kUnion},
            soakRow(),
            monitorRow(),
            monitorChecksRow(),
            {.name = "timeout",
             .type = kDuration,
             .documentation = "How long the driver may take; longer means rolling back.",
             .example = "\"5m\"",
             .fallback = "\"10m\"",
             .least = kSecond,
             .most = kDay},
            stepRow(),
        }};
}

Section windowSection() {
    return {"window",
            Shape::kList,
            "When a stage may be entered. With `allow`, only then; with `deny`, not then. Rollback ignores windows.",
            {
                {.name = "stages",
                 .type = kNameList,
                 .documentation = "The stages it is about.",
                 .example = "[\"production\"]",
                 .required = true,
                 .least = 1},
                {.name = "actors",
                 .type = kChoiceList,
                 .documentation = "Who it binds; without it, everyone.",
                 .example = "[\"agent\", \"daemon\"]",
                 .choices = actorKinds()},
                {.name = "allow",
                 .type = kTable,
                 .documentation = "The times at which entering is allowed.",
                 .example = "{ cron = \"0 9 * * MON-FRI\", for = \"8h\", timezone = \"Europe/Berlin\" }",
                 .section = "window-time"},
                {.name = "deny",
                 .type = kTable,
                 .documentation = "The times at which entering is not allowed.",
                 .example = "{ cron = \"0 16 * * FRI\", for = \"64h\", timezone = \"Europe/Berlin\" }",
                 .section = "window-time"},
                {.name = "reason",
                 .type = kText,
                 .documentation = "What people who wait are told.",
                 .example = "\"nobody is at work\"",
                 .least = 1},
            }};
}

Section windowTimeSection() {
    return {"window-time",
            Shape::kNested,
            "A time that comes again.",
            {
                {.name = "cron",
                 .type = kCron,
                 .documentation = "When it starts: minute, hour, day of month, month, day of week.",
                 .example = "\"0 16 * * FRI\"",
                 .required = true},
                {.name = "for",
                 .type = kDuration,
                 .documentation = "How long it lasts.",
                 .example = "\"64h\"",
                 .required = true,
                 .least = 60 * kSecond,
                 .most = 366 * kDay},
                {.name = "timezone",
                 .type = kTimeZone,
                 .documentation = "The zone in which the start is meant.",
                 .example = "\"Europe/Berlin\"",
                 .fallback = "\"UTC\""},
            }};
}

Section serviceSection() {
    return {"service",
            Shape::kNamed,
            "A program that runs inside a sandbox beside a check, with a network of its own.",
            {
                {.name = "run",
                 .type = kCommand,
                 .documentation = "The command that stays running.",
                 .example = "\"postgres -D data\"",
                 .required = true},
                {.name = "data",
                 .type = kPath,
                 .documentation = "A directory of its own, in the project or absolute: every sandbox has its own copy, "
                                  "which is no part of a change. One that a live server uses is refused.",
                 .example = "\"data\""},
                {.name = "prepare",
                 .type = kCommand,
                 .documentation = "Run once, in a sandbox, to fill `data`, which is empty at first; the result is kept "
                                  "and every sandbox starts with it.",
                 .example = "\"initdb -D data\""},
                {.name = "inputs",
                 .type = kPathList,
                 .documentation = "Files and directories of the project that `prepare` sees, and nothing else of it; "
                                  "when they change, it runs again.",
                 .example = "[\"schema.sql\"]"},
                {.name = "ready",
                 .type = kCommand,
                 .documentation = "Succeeds once the service can be used.",
                 .example = "\"pg_isready\""},
                {.name = "ready-log",
                 .type = kText,
                 .documentation = "A text that its log holds once it can be used.",
                 .example = "\"ready to accept connections\"",
                 .least = 1},
                {.name = "port",
                 .type = kCount,
                 .documentation = "The port it listens on, on the sandbox's loopback; it is ready once somebody does.",
                 .example = "5432",
                 .least = 1,
                 .most = 65'535},
                {.name = "env",
                 .type = kEnvironment,
                 .documentation = "Variables passed in by name, or set.",
                 .example = "[\"PGDATA=data\"]"},
                {.name = "start-timeout",
                 .type = kDuration,
                 .documentation = "How long it may take to become ready.",
                 .example = "\"10s\"",
                 .fallback = "\"30s\"",
                 .least = 100,
                 .most = kDay},
                {.name = "stop-timeout",
                 .type = kDuration,
                 .documentation = "How long it may take to end when asked to; then it is killed.",
                 .example = "\"10s\"",
                 .fallback = "\"5s\"",
                 .most = 3600 * kSecond},
            }};
}

Section roleSection() {
    return {"role",
            Shape::kNamed,
            "Who may approve as what. A role that has no section is the system group of that name.",
            {
                {.name = "members",
                 .type = kPeople,
                 .documentation = "User names of the people who hold the role.",
                 .example = "[\"anna\", \"ben\"]"},
                {.name = "groups",
                 .type = kTextList,
                 .documentation = "System groups whose members hold the role.",
                 .example = "[\"sre\"]"},
            }};
}

std::vector<Section> buildSections() {
    return {pipelineSection(), stageSection(),       stepSection(),       checkSection(),   sandboxSection(),
            policySection(),   policyCheckSection(), approvalSection(),   riskSection(),    budgetSection(),
            limitsSection(),   windowSection(),      windowTimeSection(), serviceSection(), roleSection()};
}

}  // namespace

const std::vector<Section>& sections() {
    static const std::vector<Section> all = buildSections();
    return all;
}

const Section& section(std::string_view id) {
    for (const Section& candidate : sections())
        if (candidate.id == id) return candidate;
    throw Error(ErrorCode::kUsage, "the language has no section '{}'", id);
}

const KeyRow* findRow(const std::vector<KeyRow>& rows, std::string_view name) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const KeyRow& row) { return row.name == name; });
    return found == rows.end() ? nullptr : &*found;
}

}  // namespace gradus
