#pragma once

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "stages/changes/git_work_tree.h"
#include "store/file.h"

namespace gradus {

/// Says in a repository that git moves a ref for gradus. The file is locked as long as gradus or that git lives:
/// whoever finds it unlocked knows that both were killed, and which lock files of git are theirs. A repository that
/// takes no such file (read-only, full) gets none: the move goes on without.
class RefNote {
  public:
    /// `to`: the commit that the ref is to lead to; empty for a ref that is to be deleted. Waits for another gradus, or
    /// a git that outlived its gradus. Throws Error(kBusy) if that takes too long.
    RefNote(const GitWorkTree& git, std::string ref, std::string to);

    /// For the child, so that the note stays locked as long as that lives; -1 without a note.
    int descriptor() const { return file_.get(); }
    /// The child was killed: deletes the lock files that it left. Only such as it can have made: empty or with the
    /// commit in them, since the note was written, and unchanged for a moment.
    void clearAfterKill() const;
    /// The child ended by itself, or what it left is cleared.
    void finish();

  private:
    bool open();

    GitWorkTree git_;
    std::string ref_;
    std::string to_;
    std::filesystem::path path_;
    FileDescriptor file_;
    timespec since_{};  ///< when the move began
};

/// The lock files of git that keep `ref` from being moved, as they lie there now.
std::vector<std::filesystem::path> locksOf(const GitWorkTree& git, const std::string& ref);

}  // namespace gradus
