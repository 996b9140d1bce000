#include "stages/drivers/builtin.h"

namespace gradus {

DriverWords releaseDirectoryDriverWords() {
    return {
        .name = "release-directory",
        .documentation = "A directory of releases with a link to the one in use: switched at once, and back at once.",
        .keys =
            {
                {.name = "path",
                 .type = ValueType::kPath,
                 .documentation = "The directory that holds releases, relative to the file.",
                 .example = "\"../shop-staging\"",
                 .required = true},
                {.name = "activate",
                 .type = ValueType::kCommand,
                 .documentation = "Run after every switch, forward and back.",
                 .example = "[\"systemctl\", \"restart\", \"shop\"]"},
                {.name = "shared",
                 .type = ValueType::kPathList,
                 .documentation = "Paths that all releases share and no change may touch.",
                 .example = "[\"uploads\", \"log\"]"},
                {.name = "keep",
                 .type = ValueType::kCount,
                 .documentation = "How many releases stay on disk at least; those that the newest promotions may go "
                                  "back to stay, too.",
                 .example = "5",
                 .fallback = "5",
                 .least = 2,
                 .most = 1000},
            },
        .carriesOutputs = true};
}

}  // namespace gradus
