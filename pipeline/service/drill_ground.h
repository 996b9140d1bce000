#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/service/drill.h"
#include "policies/language/pipeline.h"
#include "stages/changes/file_operations.h"
#include "stages/drivers/driver.h"

namespace gradus {

/// Throws Error(kNotAllowed) saying why a stage of this driver cannot be drilled.
void requireDrillable(const Stage& stage);

/// A directory of this process's own for one drill. Gone when this is gone; what dead processes left goes when the next
/// one is made.
class DrillGround {
  public:
    DrillGround(const std::filesystem::path& state, Random& random, FileOperations& files);
    ~DrillGround();
    DrillGround(const DrillGround&) = delete;
    DrillGround& operator=(const DrillGround&) = delete;

    const std::filesystem::path& path() const { return path_; }

  private:
    void removeLeftovers();
    std::filesystem::path above_;
    std::filesystem::path path_;
    FileOperations& files_;
};

/// A copy of a stage's target, and the stage as if that were its own.
struct DrillTarget {
    Stage stage;
    std::filesystem::path project;
    std::filesystem::path state;
    RehearsalPlace place;
};

/// What is copied, and from where; the original is only read.
struct DrillOriginal {
    const Stage& stage;
    std::filesystem::path project;
    std::filesystem::path state;     ///< of its driver
    std::optional<HeldTree> held;    ///< what it shows now
    std::filesystem::path target;    ///< a release directory's own
    std::optional<Manifest> source;  ///< the tree that it holds, where its driver knows that without reading all
};

/// Adds what it did, and what it left out, to `report`.
DrillTarget copyTarget(const DrillOriginal& original, const DrillGround& ground, FileOperations& files,
                       DrillReport& report);

/// A change that adds a file, edits one and removes one of the tree that `directory` holds; contents go to `objects`.
/// What lies there beside `source`, built by a check or added by a program, is no part of the tree: no change is about
/// it.
ChangeSet madeUpChange(const std::filesystem::path& directory, const std::optional<Manifest>& source, Objects& objects);

/// What checks built of the tree that is held, as additions for the next one; contents go to `objects`. Nothing where
/// `changes` touches a place of it: what would be built there then, only the checks know.
ChangeSet builtAgain(const HeldTree& held, const ChangeSet& changes, Objects& objects);

}  // namespace gradus
