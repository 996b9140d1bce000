#include "policies/language/step_keys.h"

namespace gradus {

namespace {

using enum ValueType;

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kDay = 86'400 * kSecond;
constexpr std::int64_t kMostSteps = 32;

}  // namespace

KeyRow stepRow() {
    return {.name = "step",
            .type = kTableList,
            .documentation = "Commands around the switch, in order; going back undoes them in reverse.",
            .example = "[{ name = \"flush\", run = \"flush\" }]",
            .most = kMostSteps,
            .section = "step"};
}

Section stepSection() {
    return {
        "step",
        Section::Shape::kNested,
        "A command on the host around the switch of a stage: `[[stage.NAME.step]]`. It is told what it is about by "
        "variables and a file, never by its words.",
        {
            {.name = "name",
             .type = kName,
             .documentation = "What the step is called; no other one of the stage is called so.",
             .example = "\"migrate\"",
             .required = true},
            {.name = "run",
             .type = kCommand,
             .documentation = "The command; it succeeds with exit code 0.",
             .example = "[\"migrate\", \"up\"]",
             .required = true},
            {.name = "undo",
             .type = kCommand,
             .documentation = "Takes back what it did, or half did. Without it there is nothing to take back.",
             .example = "[\"migrate\", \"down\"]"},
            {.name = "when",
             .type = kChoice,
             .documentation = "Before the stage is switched to the new tree, or after.",
             .example = "\"after-switch\"",
             .fallback = "\"before-switch\"",
             .choices = {"before-switch", "after-switch"}},
            {.name = "timeout",
             .type = kDuration,
             .documentation = "How long the command may take, and each of the others; longer is a no.",
             .example = "\"5m\"",
             .fallback = "\"10m\"",
             .least = 100,
             .most = kDay},
            {.name = "irreversible",
             .type = kBoolean,
             .documentation =
                 "It cannot be taken back: a person consents before it runs, and nothing goes back past it "
                 "by itself afterwards.",
             .example = "true",
             .fallback = "false"},
            {.name = "idempotence",
             .type = kChoice,
             .documentation = "What may be done when nobody saw its end: run it again (`yes`), run it again with the "
                              "same key (`keyed`), ask `probe`, or nothing (`no`): a person has to look.",
             .example = "\"probe\"",
             .fallback = "\"no\"",
             .choices = {"yes", "keyed", "probe", "no"}},
            {.name = "probe",
             .type = kCommand,
             .documentation = "With idempotence = \"probe\": exit code 0 if the step was done, 1 if it was not; any "
                              "other says nothing.",
             .example = "[\"migrate\", \"is-up\"]"},
        }};
}

}  // namespace gradus
