#pragma once

#include <string>
#include <vector>

#include "policies/language/pipeline.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// Whether a check has `outputs`.
bool builds(const Check& check);

/// Those of the stage's checks that build something and that this one needs, directly or through others, in the order
/// of the stage.
std::vector<std::string> buildersFor(const Pipeline& pipeline, const Stage& stage, const Check& check);

/// What checks of `stage` built, each given by its object, all together. Throws Error(kNotAllowed) where two of them
/// say different things of one path.
ChangeSet builtTogether(const Objects& objects, const std::vector<Digest>& outputs, const std::string& stage);

/// The change with what was built of the tree that comes out of it.
ChangeSet withBuilt(const ChangeSet& changes, const ChangeSet& built);

/// Something that is about more than a tree: about what was built of it, too. Itself where nothing was.
Digest overOutputs(const Digest& digest, const std::vector<Digest>& outputs);

}  // namespace gradus
