#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/changes/git_objects.h"
#include "stages/changes/tree_reader.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// A change as it was found somewhere, its contents among the objects.
struct FoundChange {
    ChangeSet changes;
    BaseFingerprint base;
    std::string title;                      ///< as the source has it; empty where it has none
    std::string message;                    ///< what follows the title
    std::string author;                     ///< of a commit: "Name <mail>"
    std::vector<std::string> notes;         ///< what was left alone
    std::vector<std::string> faults;        ///< why there is no change: each with its place; safe to show
    std::optional<std::int64_t> sandbox{};  ///< that it was made in
};

/// From the tree of one commit to that of another, below `prefix`. Without `from`: from nothing. Title and message are
/// those of `to`. Modes are 644 and 755.
FoundChange changeOfCommits(const GitObjects& git, const std::filesystem::path& prefix,
                            const std::optional<std::string>& from, const std::string& to, Objects& objects);

/// A JSON list of {relative_path, operation: create|modify|delete, new_content}, made on `tree`.
FoundChange changeOfFiles(std::string_view json, const TreeReader& tree, Objects& objects);

/// The same change with every content that it names among the objects. What is missing of the befores is read from
/// `before`; where that has something else by now, what was there becomes unknown. Throws Error(kDamaged) when a new
/// content is missing.
ChangeSet withContents(const ChangeSet& changes, const TreeReader& before, Objects& objects);

}  // namespace gradus
