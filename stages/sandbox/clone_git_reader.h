#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stages/sandbox/clone_tree_writer.h"

namespace gradus {

/// Reads objects of a repository with the user's own git: `rev-parse`, `ls-tree` and `cat-file`, which look at no work
/// tree and run neither hooks nor filters; without configuration of user or machine, without network, without prompts
/// (docs/decisions: commits are read by git).
class GitReader {
  public:
    /// `git`: the directory, or the file that names one. Throws Error if there is no git program.
    explicit GitReader(std::filesystem::path git);

    /// The full name of a commit. Throws Error if there is none of that name.
    std::string resolveCommit(const std::string& name) const;
    /// Everything in the tree of `commit` below `prefix`.
    void readTree(const std::string& commit, const std::filesystem::path& prefix, TreeFiles& files) const;

  private:
    std::filesystem::path git_;
    std::filesystem::path program_;
};

}  // namespace gradus
