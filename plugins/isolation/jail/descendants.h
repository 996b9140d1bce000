#pragma once

#include <sys/types.h>

#include <vector>

namespace gradus {

/// Every process that comes of `ancestor`, as /proc shows them now. Whoever has detached is among them only if the
/// ancestor adopts orphans (PR_SET_CHILD_SUBREAPER).
std::vector<pid_t> descendantsOf(pid_t ancestor);

/// Ends and reaps all that come of this process, which adopts orphans, until none is left. They are stopped first, so
/// that none makes another while it is being looked for; gives up on those the kernel itself does not let go.
void endDescendants();

}  // namespace gradus
