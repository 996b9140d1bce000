#pragma once

#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// The change set that is stored as `object`. Throws Error where it is not there, or is none.
ChangeSet readChanges(const Objects& objects, const Digest& object);

}  // namespace gradus
