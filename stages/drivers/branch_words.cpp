#include "stages/drivers/builtin.h"

namespace gradus {

DriverWords branchDriverWords() {
    return {.name = "branch",
            .documentation = "A branch of a git repository on this machine: a change becomes a commit on it.",
            .keys = {
                {.name = "repository",
                 .type = ValueType::kPath,
                 .documentation = "The repository, bare or not, relative to the file.",
                 .example = "\"../shop.git\"",
                 .fallback = "\".\""},
                {.name = "branch",
                 .type = ValueType::kText,
                 .documentation = "The branch that changes land on; no work tree may have it checked out.",
                 .example = "\"main\"",
                 .required = true},
                {.name = "remote",
                 .type = ValueType::kText,
                 .documentation = "The remote that is pushed to: a path on this machine.",
                 .example = "\"origin\"",
                 .fallback = "\"origin\""},
                {.name = "push",
                 .type = ValueType::kBoolean,
                 .documentation = "Whether the branch is pushed.",
                 .example = "true",
                 .fallback = "false"},
                {.name = "author",
                 .type = ValueType::kText,
                 .documentation = "Who the commit says wrote it; without it, whoever the change says, or gradus.",
                 .example = "\"Gradus <gradus@example.org>\""},
                {.name = "message",
                 .type = ValueType::kText,
                 .documentation = "The first line of the commit, above the change's title; without it, the title is.",
                 .example = "\"promote by gradus\""},
            }};
}

}  // namespace gradus
