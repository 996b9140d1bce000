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
    std::filesystem::path state;   ///< of its driver
    std::optional<HeldTree> held;  ///< what it shows now
    std::filesystem::path target;  ///< a release directory's own
};

/// Adds what it did, and what it left out, to `report`.
DrillTarget copyTarget(const DrillOriginal& original, const DrillGround& ground, FileOperations& files,
                       DrillReport& report);

/// A change that adds a file, edits one and removes one of what `directory` holds; contents go to `objects`.
ChangeSet madeUpChange(const std::filesystem::path& directory, Objects& objects);

}  // namespace gradus
