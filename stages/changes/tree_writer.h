#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/file_operations.h"
#include "stages/changes/tree_writer_beneath.h"
#include "stages/changes/tree_writer_journal.h"
#include "store/model/change_set.h"
#include "store/model/clock.h"
#include "store/objects.h"

namespace gradus {

enum class ConflictKind {
    kEdited,          ///< what is there is not the change's `before`: somebody's edit, or another type
    kGone,            ///< the change's `before` is not there any more
    kInTheWay,        ///< the change adds it, and something nobody told us of is there
    kUnknownBefore,   ///< what was there is not known, so what would be lost is not either
    kNotEmpty,        ///< a directory that the change takes away holds what the change does not know
    kParentIsLink,    ///< a directory on the way is a symbolic link, now or in the change itself
    kParentMissing,   ///< a directory on the way is no directory, now or in the change itself
    kMountPoint,      ///< another file system is mounted there or on the way
    kSpecialMode,     ///< setuid, setgid or sticky
    kProtected,       ///< decides what git runs or fetches: needs a grant
    kReserved,        ///< looks like the writer's own temporaries
    kCaseClash,       ///< two names that this file system takes for one
    kNoPermission,    ///< the kernel would say no, or the owner could not be kept
    kNoSpace,         ///< the file system is too full
    kContentMissing,  ///< the new content is not among the objects
    kShared,          ///< all releases of the stage share it
    kForeign,         ///< it lies in another repository: a submodule, or a clone in the tree
    kNotCommitted,    ///< a commit of the change would take along what somebody has not committed yet
    kFiltered,        ///< git would store other bytes than the file has: git LFS, line ends
    kOtherTree,       ///< not a path but the stage: somebody has brought another tree there than the one on record
};

/// Why one path cannot be written, for a person.
struct Conflict {
    ConflictKind kind = ConflictKind::kEdited;
    std::string path;
    std::string expected;        ///< "a file of 12 bytes, mode 644, 5891b5b522d5"
    std::string found;           ///< the same for what is there; empty when that is not the point
    std::optional<uid_t> owner;  ///< whose it is that was found

    bool operator==(const Conflict&) const = default;
};

/// One line: the path made printable, the reason, what was expected and what is there.
std::string describe(const Conflict& conflict);
std::string describe(const std::optional<Entry>& entry);

struct PlanOptions {
    /// Protected paths that the rules allow this change to touch.
    std::vector<std::string> granted;
};

/// What would be written, and everything that speaks against it. Made by TreeWriter::plan().
struct Plan {
    /// The change, and the directories it needs without naming them (mode 0755).
    ChangeSet changes;
    std::vector<Conflict> conflicts;  ///< by path; nothing may be written unless there are none
    std::vector<LockedDirectory> locked;
    std::uint64_t newBytes = 0;

    bool isClear() const { return conflicts.empty(); }
};

struct ApplyReport {
    bool applied = false;             ///< false: somebody was faster, and what was written is taken back
    std::vector<Conflict> conflicts;  ///< what came in between
    std::vector<Kept> kept;           ///< as in UndoReport
    std::vector<std::string> saved;   ///< edits that lost their place and were kept beside it, under these names
};

struct UndoReport {
    std::vector<Kept> kept;  ///< by path: edited by somebody since, and left to them
    /// By path: a link, a mount or a closed directory is on the way now. Not done yet: undo again once the way is free.
    std::vector<Kept> blocked;
    std::vector<std::string> saved;  ///< as in ApplyReport
};

/// What undo() would write and meet now.
struct UndoOutlook {
    std::uint64_t bytes = 0;  ///< that it writes into the root before it takes anything away there, or less
    std::uint64_t files = 0;
    std::vector<Kept> blocked;  ///< as in UndoReport, and directories that cannot be written in
};

struct Observation {
    enum class State { kBefore, kAfter, kBetween };
    State state = State::kBefore;
    /// When in between: the paths that are as after, and those that are neither.
    std::vector<std::string> after;
    std::vector<std::string> neither;
};

class Applier;

/// The only code that writes file trees: one root, opened once; everything is reached beneath it without following a
/// link or leaving its mount. Sequence: plan, seal, (the caller remembers the reference), apply; undo or recover at any
/// time later, in any process. docs/writing.md has the promises and the format. One thread at a time; a second writer
/// on the same root is refused with Error(kBusy).
class TreeWriter {
  public:
    /// The parts are borrowed. `journals` is a directory of the caller's, outside the root. Throws when the root is not
    /// a directory that can be read.
    TreeWriter(const std::filesystem::path& root, std::filesystem::path journals, Objects& objects,
               FileOperations& files, Random& random);

    /// Reads and compares only. The answer is true for this instant; apply() looks again.
    Plan plan(const ChangeSet& changes, const PlanOptions& options = {}) const;

    /// Makes sure that it can be undone, before anything is done: the undo object and the journal last when this
    /// returns, the tree is untouched. Throws Error(kNotAllowed) for a plan with conflicts, or if a `before` no longer
    /// holds.
    JournalRef seal(const Plan& plan);

    /// All of it, durable, or nothing: what cannot be finished is undone before this returns or throws. A concurrent
    /// edit is an answer (applied = false), a fault is thrown. If even undoing failed, the thrown error says so and
    /// recover() goes on. Temporaries that cannot be removed once all is confirmed wait for recover(), too. Applying
    /// what is applied does nothing; what is undone cannot be applied again.
    ApplyReport apply(const JournalRef& ref);

    /// Restores every path that was written: bytes, type, mode, owner, modification time, attributes. What somebody
    /// edited since is kept and listed. Repeating it, also after a crash at any instant, ends in the same tree. Until
    /// nothing is blocked any more, the journal stays as it is.
    UndoReport undo(const JournalRef& ref);

    /// Reads only.
    UndoOutlook outlook(const JournalRef& ref) const;

    /// For one that is not finished, in a tree that somebody takes as it is: nothing is undone, its temporaries go, and
    /// the journal is set aside. Edits that were among them are named, as in UndoReport::saved.
    std::vector<std::string> letBe(const JournalRef& ref);

    /// After a crash: undoes what was not applied to its end, tidies up after what was.
    UndoReport recover(const JournalRef& ref);

    /// The journal's plan against the tree. Reads only.
    Observation observe(const JournalRef& ref) const;

    WriteState stateOf(const JournalRef& ref) const;

    /// Whether a journal speaks of this very directory, and not of one that was at its path before. Every call that
    /// needs the directory throws Error for another one's.
    bool isAboutHere(const Journal& journal) const;

  private:
    Journal open(const JournalRef& ref) const;
    UndoReport undoOpened(Journal& journal);
    std::vector<std::string> tidy(const Journal& journal);
    UndoReport takeBack(Journal& journal, const std::string& cause);
    static ApplyReport finished(Applier& applier);

    TreeRoot root_;
    JournalDirectory journals_;
    Objects& objects_;
    FileOperations& files_;
    Random& random_;
};

}  // namespace gradus
