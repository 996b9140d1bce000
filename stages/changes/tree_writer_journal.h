#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/file_operations.h"
#include "store/model/change_set.h"
#include "store/model/digest.h"

namespace gradus {

/// How far an apply has come, as its journal says it.
enum class WriteState {
    kPlanned,  ///< not sealed: nothing was touched, nothing will be
    kSealed,   ///< can be undone; how much was done is to be seen in the tree
    kApplied,  ///< all of it, to last
    kUndoing,  ///< was applied; how much is undone is to be seen in the tree
    kUndone,
};

inline constexpr std::array kWriteStates{
    Name<WriteState>{WriteState::kPlanned, "planned"}, Name<WriteState>{WriteState::kSealed, "sealed"},
    Name<WriteState>{WriteState::kApplied, "applied"}, Name<WriteState>{WriteState::kUndoing, "undoing"},
    Name<WriteState>{WriteState::kUndone, "undone"},
};

/// A directory whose own mode keeps its owner from writing in it. It is opened to the owner while names in it change,
/// and gets its mode back. "" is the root.
struct LockedDirectory {
    std::string path;
    std::uint32_t mode = 0;

    bool operator==(const LockedDirectory&) const = default;
};

/// Names a sealed journal. Whoever remembers the seal notices a journal that was changed or exchanged.
struct JournalRef {
    std::string name;
    std::optional<Digest> seal;  ///< absent: take the journal as it is

    bool operator==(const JournalRef&) const = default;
};

/// A path that undo did not restore.
struct Kept {
    std::string path;
    std::string reason;

    bool operator==(const Kept&) const = default;
};

/// What one apply needs to be finished or undone by another process.
struct Journal {
    std::string name;
    WriteState state = WriteState::kPlanned;
    std::string root;             ///< where it was, for people
    std::uint64_t rootInode = 0;  ///< the device's number may change with every boot
    std::string staging;          ///< the name of the directory of temporaries in the root
    ChangeSet changes;
    std::vector<LockedDirectory> locked;
    Digest undo;                    ///< the object with everything that was there before
    std::vector<std::string> kept;  ///< paths that somebody had edited when the undoing of an applied change began
    std::vector<Kept> left;         ///< of an undone one: what was not restored, and why
    Digest seal;

    JournalRef ref() const { return {name, seal}; }
};

/// The journals of one caller, a file each (docs/writing.md has the format). All writing goes through `files`.
class JournalDirectory {
  public:
    /// Makes the directory where it is missing. `files` is borrowed.
    JournalDirectory(std::filesystem::path path, FileOperations& files);

    /// Writes a new journal, planned and sealed in one. When this returns it survives a power cut; when it throws there
    /// is none. Sets the seal and the state.
    void create(Journal& journal);
    /// Appends the new state, to last when this returns.
    void advance(Journal& journal, WriteState state);
    /// Throws Error(kNotFound), or Error(kDamaged) when the seal is not the one remembered or bytes are wrong before
    /// the last record. A last record that is not whole was never promised to anybody and does not count.
    Journal read(const JournalRef& ref) const;
    /// Every journal in the directory, for who forgot.
    std::vector<JournalRef> list() const;
    /// For one that nobody will want to undo any more.
    void remove(const JournalRef& ref);
    /// For one that was not finished and whose directory is gone: nothing reads it again, a person may.
    void setAside(const JournalRef& ref);

  private:
    std::filesystem::path path_;
    FileOperations& files_;
};

}  // namespace gradus
