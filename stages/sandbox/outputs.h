#pragma once

#include "stages/sandbox/sandboxes.h"

namespace gradus {

/// What a command wrote over the tree and the request names, as additions to it; contents are among `objects`. `upper`
/// is the overlay's, borrowed; no command may be running. Never follows a link. Throws Error for what a tree may not
/// hold, for a link that leads out of it, for a file that the tree has already, and beyond the request's bounds.
ChangeSet collectOutputs(int upper, const ResultingTree& tree, const OutputRequest& request, Objects& objects);

}  // namespace gradus
