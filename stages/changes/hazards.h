#pragma once

#include <string>
#include <vector>

#include "stages/changes/tree_reader.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// What a change brings that is not what it looks like: links that lead out of the tree or into `.git`, files that make
/// a directory a git repository (whose configuration git obeys), names with characters that hide or reorder text, names
/// that are one name where case or Unicode form is not told apart. One sentence each, sorted, safe to show.
/// `there` is the tree that it applies to; without one, only what the change itself holds is compared.
std::vector<std::string> hazardsOf(const ChangeSet& changes, const Objects& objects, const TreeReader* there);

}  // namespace gradus
