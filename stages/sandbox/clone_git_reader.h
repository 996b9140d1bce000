#pragma once

#include <filesystem>
#include <string>

#include "stages/changes/git_objects.h"
#include "stages/sandbox/clone_tree_writer.h"

namespace gradus {

/// Writes everything in the tree of `commit` below `prefix`.
void writeTree(const GitObjects& objects, const std::string& commit, const std::filesystem::path& prefix,
               TreeFiles& files);

}  // namespace gradus
