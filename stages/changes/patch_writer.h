#pragma once

#include <string>
#include <vector>

#include "stages/changes/git_blob_id.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

struct WrittenPatch {
    std::string text;
    std::vector<std::string> notes;  ///< what git's patches cannot say: directories, finer permissions
};

/// What `git diff --binary` would write, without renames: `git apply` makes exactly the change of it. `naming` is that
/// of the repository it is for, as binary patches name contents. Throws Error(kNotAllowed) where what was there before
/// is not known or not stored.
WrittenPatch writePatch(const ChangeSet& changes, const Objects& objects, BlobNaming naming = BlobNaming::kSha1);

}  // namespace gradus
