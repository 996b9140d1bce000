#pragma once

#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// What a change does, whatever it does it to: the lines that come and go, path by path, without where they are. A
/// rebase keeps it, so that what was refused once is known again.
Digest patchIdentity(const ChangeSet& changes, const Objects& objects);

}  // namespace gradus
