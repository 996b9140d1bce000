#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "stages/changes/git_work_tree.h"
#include "stages/changes/ignore_rules.h"
#include "stages/changes/tracked_names.h"

namespace gradus {

/// What git would leave alone below one directory. The rules are asked from the directory upwards: a scope is the
/// chain of `.gitignore` files that hold at some place. Without a repository nothing is ignored.
class IgnoredPaths {
  public:
    /// A number that stands for a chain of rules; kNone where there is no repository.
    using Scope = int;
    static constexpr Scope kNone = -1;
    /// A larger file of rules is left unread: it was not written by hand, and all that follows is that more is shown.
    static constexpr std::uint64_t kRulesCap = 256 * 1024;

    /// `directory`: what paths are relative to. `excludesFile`: a person's own rules, the weakest; empty for none.
    IgnoredPaths(const std::filesystem::path& directory, const std::filesystem::path& excludesFile);

    Scope outermost() const { return outermost_; }
    /// The rules of a `.gitignore` in `directory` ("" or a relative path) before those of `parent`.
    Scope within(Scope parent, std::string_view directory, std::string_view rules);

    /// Whether the rules say so; nobody asked yet whether git has the path nevertheless.
    bool isExcluded(Scope scope, std::string_view path, bool isDirectory) const;
    /// In git's index. When that cannot be read everything is: rather show too much than hide a change.
    bool isTracked(std::string_view path);
    bool hasTrackedBeneath(std::string_view directory);
    /// In git's index, and left out of the work tree on purpose.
    bool isSkipped(std::string_view path);

  private:
    struct Link {
        IgnoreRules rules;
        std::size_t directoryLength = 0;  ///< with its '/', from the work tree's root
        Scope parent = kNone;
    };

    Scope add(Scope parent, std::size_t directoryLength, std::string_view rules);
    bool readAncestors();
    std::optional<bool> judge(Scope scope, std::string_view fullPath, bool isDirectory) const;
    void loadTracked();
    bool readIndex(const std::string& name);

    std::optional<GitWorkTree> tree_;
    std::deque<Link> links_;
    Scope outermost_ = kNone;
    bool loaded_ = false;
    bool unreadable_ = false;
    std::deque<TrackedNames> tracked_;
};

}  // namespace gradus
