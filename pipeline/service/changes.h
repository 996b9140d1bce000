#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/merge.h"
#include "store/model/actor.h"
#include "store/model/change.h"
#include "store/model/change_set.h"
#include "store/model/names.h"

namespace gradus {

/// Where a change is to be taken from. One of them.
struct ChangeSource {
    std::optional<std::string> sandbox;  ///< handle or name
    std::optional<std::string> patch;    ///< its text
    std::optional<std::string> commit;   ///< against its first parent
    std::optional<std::string> range;    ///< "A..B"
    std::optional<std::string> files;    ///< a JSON list, its text
    bool worktree = false;               ///< from HEAD to the files
    bool withIgnored = false;            ///< of a sandbox
};

struct SubmitRequest {
    ChangeSource source;
    std::optional<std::string> title;
    std::vector<std::string> labels;
    std::optional<std::string> sponsor;  ///< the person an agent acts for
    bool dryRun = false;                 ///< nothing is recorded
};

/// Whether the words are a handle of a change, rather than a sandbox's handle or name.
bool namesChange(const std::string& words);

/// What was submitted, or why not.
struct SubmitReport {
    std::optional<Change> change;  ///< as recorded; nothing after a dry run, or if there is nothing to submit
    ChangeSet changes;
    BaseFingerprint base;
    std::string title;
    std::vector<std::string> notes;   ///< what was left alone or refused
    std::vector<std::string> faults;  ///< why there is no change
};

/// A change with what it holds.
struct ChangeView {
    Change change;
    ChangeSet changes;
    BaseFingerprint base;
    std::string actor;                   ///< "agent:fixer"
    std::optional<std::string> sponsor;  ///< "ann"
};

/// Where the project's HEAD stands, seen from the commit that a change was made on.
struct BaseDrift {
    enum class Kind { kNoCommit, kSame, kAhead, kDiverged, kGone };
    Kind kind = Kind::kNoCommit;
    std::uint64_t ahead = 0;   ///< commits that came since
    std::uint64_t behind = 0;  ///< commits that are not there any more
};

inline constexpr std::array kBaseDrifts{
    Name<BaseDrift::Kind>{BaseDrift::Kind::kNoCommit, "no-commit"},
    Name<BaseDrift::Kind>{BaseDrift::Kind::kSame, "same"},
    Name<BaseDrift::Kind>{BaseDrift::Kind::kAhead, "ahead"},
    Name<BaseDrift::Kind>{BaseDrift::Kind::kDiverged, "diverged"},
    Name<BaseDrift::Kind>{BaseDrift::Kind::kGone, "gone"},
};

/// A change as a commit of the user's repository.
struct ExportedCommit {
    std::string id;
    std::string branch;  ///< "gradus/c12.1", made for it
};

struct RebaseReport {
    Change change;  ///< the newest revision, a new one if it had to be
    bool revised = false;
    MergeResult merge;
};

}  // namespace gradus
