#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "stages/changes/tree_record.h"
#include "stages/drivers/driver.h"
#include "stages/drivers/release_base.h"
#include "stages/drivers/release_layout.h"
#include "stages/drivers/release_shelf.h"

namespace gradus {

/// Builds one release beside those that are there; nobody sees it before the link is switched.
class ReleaseBuilder {
  public:
    ReleaseBuilder(const DriverContext& context, const ReleaseLayout& layout, ReleaseShelf& shelf);

    /// Durable when this returns. When it throws, nothing is left but what the shelf says has begun.
    ReleaseHead build(const std::string& id, const ReleaseBase& base, const StageChange& change);

  private:
    void makeKnown(const std::string& path);
    void note(const MadePath& made);
    void makeDirectory(const std::string& path);
    void makeShared(const std::string& path, const ReleaseBase& base);
    void copyShared(const std::string& path, const TreeRecord& record, const std::filesystem::path& from);
    void linkShared(const TreeRoot& release);
    void copyBase(const std::string& id, const ReleaseBase& base);
    struct Written {
        Manifest manifest;
        std::vector<std::string> outputs;  ///< and the directories that were made for them alone
    };
    Written applyTo(const std::filesystem::path& release, const ReleaseBase& base, const StageChange& change);
    ChangeSet write(const std::filesystem::path& release, const ChangeSet& changes,
                    const std::vector<std::string>& granted);

    const DriverContext& context_;
    const ReleaseLayout& layout_;
    ReleaseShelf& shelf_;
    TreeRoot root_;
};

}  // namespace gradus
