#pragma once

#include <map>
#include <set>
#include <string>

#include "stages/changes/tree_writer.h"
#include "stages/changes/tree_writer_staging.h"

namespace gradus {

/// Somebody was faster; thrown inside the writer only.
struct Collision {
    Conflict conflict;
};

/// What applying and undoing share: directories to sync, modes to set, one set of temporaries.
class TreeWork {
  public:
    TreeWork(const TreeRoot& root, FileOperations& files, const Journal& journal)
        : root_(root), files_(files), journal_(journal), staging_(root, files, journal) {}

  protected:
    const std::vector<PathChange>& changes() const { return journal_.changes.changes(); }
    void must(int error, std::string_view action, std::string_view path) const {
        if (error != 0) throwFault(action, path, error);
    }
    /// Sets it without following a link; the directory is synced later.
    void setDirectoryMode(const std::string& path, std::uint32_t mode);
    void giveTo(int file, uid_t user, gid_t group, std::string_view path);
    void touch(std::string_view path) { touched_.emplace(directoryOf(path)); }
    void syncTouched();

    const TreeRoot& root_;
    FileOperations& files_;
    const Journal& journal_;
    Staging staging_;
    std::set<std::string> touched_;
};

/// Carries one sealed plan out. After it has thrown, the tree is somewhere in between.
class Applier : private TreeWork {
  public:
    Applier(const TreeRoot& root, FileOperations& files, const Journal& journal, Objects& objects)
        : TreeWork(root, files, journal), objects_(objects) {}

    /// All in place, to last. Throws Collision or Error.
    void run();
    /// Ends the temporaries; what was edited at the very last moment is named.
    std::vector<std::string> tidy() { return staging_.remove(proven_); }

  private:
    void unlock();
    void stage(std::size_t change);
    void stageCopy(std::size_t change, const Looks& looks);
    Looks looksOf(const PathChange& change) const;
    void ownNew(Looks& looks, std::string_view path) const;
    void takeAway(std::size_t change);
    void put(std::size_t change);
    void removeDirectory(std::size_t change, const Place& place);
    void makeDirectory(std::size_t change, const Place& place);
    void proveTaken(std::size_t change, const Place& place, Move back);
    void verify(std::size_t change) const;
    bool isStillProven(std::size_t change) const;
    void setModes();
    Place placeOf(const PathChange& change) const;
    FileDescriptor openToCopy(const PathChange& change, const Place& place) const;
    [[noreturn]] void collide(ConflictKind kind, const PathChange& change, const Sighting& seen) const;

    Objects& objects_;
    std::map<std::size_t, Sighting> placed_;  ///< what was put into the tree
    std::map<std::size_t, Sighting> proven_;  ///< what came out of it and was found to be the `before`
};

/// The conflict's words, from what was seen.
Conflict conflictOf(ConflictKind kind, const PathChange& change, const Sighting& seen);
std::string describe(const Sighting& seen);

}  // namespace gradus
