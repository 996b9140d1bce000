#include "stages/drivers/builtin.h"

namespace gradus {

DriverWords branchDriverWords() {
    return {.name = "branch",
            .documentation = "A branch of a git repository: a change becomes a commit on it.",
            .keys = {
                {.name = "repository",
                 .type = ValueType::kPath,
                 .documentation = "The repository, relative to the file.",
                 .example = "\"../shop.git\"",
                 .fallback = "\".\""},
                {.name = "branch",
                 .type = ValueType::kText,
                 .documentation = "The branch that changes land on.",
                 .example = "\"main\"",
                 .required = true},
                {.name = "remote",
                 .type = ValueType::kText,
                 .documentation = "The remote that is pushed to.",
                 .example = "\"origin\"",
                 .fallback = "\"origin\""},
                {.name = "push",
                 .type = ValueType::kBoolean,
                 .documentation = "Whether the branch is pushed.",
                 .example = "true",
                 .fallback = "false"},
                {.name = "author",
                 .type = ValueType::kText,
                 .documentation = "Who the commit says wrote it.",
                 .example = "\"Gradus <gradus@example.org>\""},
                {.name = "message",
                 .type = ValueType::kText,
                 .documentation = "The first line of the commit; without it, the change's title.",
                 .example = "\"promote by gradus\""},
            }};
}

}  // namespace gradus
