#include "stages/drivers/builtin.h"

namespace gradus {

DriverWords commandDriverWords() {
    return {.name = "command",
            .documentation = "Commands of your own move the change; what cannot be taken back cannot be a stage.",
            .keys =
                {
                    {.name = "apply",
                     .type = ValueType::kCommand,
                     .documentation =
                         "Brings the tree in GRADUS_TREE into the stage; it may be run again for the same one.",
                     .example = "[\"./deploy\", \"apply\"]",
                     .required = true},
                    {.name = "rollback",
                     .type = ValueType::kCommand,
                     .documentation =
                         "Brings the tree before it back, which GRADUS_TREE names then; may be run again, too.",
                     .example = "[\"./deploy\", \"rollback\"]",
                     .required = true},
                    {.name = "status",
                     .type = ValueType::kCommand,
                     .documentation = "Prints the GRADUS_TREE_DIGEST of the tree that the stage holds, for recovery.",
                     .example = "[\"./deploy\", \"status\"]"},
                    {.name = "health",
                     .type = ValueType::kCommand,
                     .documentation = "Succeeds if what the stage holds is well; asked after apply and rollback.",
                     .example = "[\"./deploy\", \"health\"]"},
                },
            .carriesOutputs = true};
}

}  // namespace gradus
