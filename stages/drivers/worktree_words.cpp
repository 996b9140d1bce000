#include "stages/drivers/builtin.h"

namespace gradus {

DriverWords worktreeDriverWords() {
    return {.name = "worktree",
            .documentation = "The project's own work tree: a change is written into it, around your edits.",
            .keys = {{.name = "commit",
                      .type = ValueType::kBoolean,
                      .documentation = "Whether the change becomes a commit as well.",
                      .example = "true",
                      .fallback = "false"}},
            .stageNames = {"local"}};
}

}  // namespace gradus
