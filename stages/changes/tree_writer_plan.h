#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "stages/changes/tree_writer.h"

namespace gradus {

/// Finds everything that speaks against a change set. Reads only.
class Planner {
  public:
    Planner(const TreeRoot& root, const Objects& objects, const PlanOptions& options);

    Plan plan(const ChangeSet& changes);

  private:
    void addMissingDirectories(const ChangeSet& changes);
    void addParentsOf(const PathChange& change);
    void check(const PathChange& change);
    bool hasSoundName(const PathChange& change);
    bool hasSoundParents(const PathChange& change);
    void checkNow(const PathChange& change);
    void checkBefore(const PathChange& change, const Place& place, const Sighting& seen);
    void checkRights(const PathChange& change, const Sighting& seen);
    void checkEmptied(const PathChange& change);
    void checkContent(const PathChange& change);
    void checkDirectory(const std::string& path);
    void checkNames();
    void checkSpace();
    bool isCaseBlindAt(std::string_view path) const;
    bool isBehindNothing(std::string_view path) const;
    const PathChange* find(std::string_view path) const;
    void refuse(ConflictKind kind, const PathChange& change, const Sighting& seen = {});
    void refuse(ConflictKind kind, std::string_view path, std::string expected, std::string found = "");

    const TreeRoot& root_;
    const Objects& objects_;
    const PlanOptions& options_;
    bool isPrivileged_;
    std::map<std::string, PathChange, std::less<>> changes_;
    std::set<std::string, std::less<>> known_;  ///< directories that were seen to be there
    Plan plan_;
};

}  // namespace gradus
