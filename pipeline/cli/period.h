#pragma once

#include <optional>
#include <string_view>

#include "pipeline/cli/context.h"
#include "store/model/clock.h"

namespace gradus {

/// What `--since` and `--until` say; `verb` is for the message when nothing can lie between.
struct Period {
    std::optional<Time> since;
    std::optional<Time> until;
};
Period periodFrom(const Context& context, std::string_view verb);

}  // namespace gradus
