#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/drivers/driver.h"
#include "store/file.h"

namespace gradus {

/// Where things lie in a release directory.
class ReleaseLayout {
  public:
    static constexpr std::string_view kReleases = "releases";
    static constexpr std::string_view kShared = "shared";
    static constexpr std::string_view kMarker = ".gradus-target";

    /// Throws Error for settings that cannot be meant: a target in the project or around it, shared paths that are not
    /// plain or lie in each other.
    explicit ReleaseLayout(const DriverContext& context);
    /// A directory of ours, with nothing shared.
    explicit ReleaseLayout(std::filesystem::path root) : root_(std::move(root)) {}

    const std::filesystem::path& root() const { return root_; }
    const std::vector<std::string>& shared() const { return shared_; }
    std::filesystem::path marker() const { return root_ / kMarker; }
    std::filesystem::path releases() const { return root_ / kReleases; }
    std::filesystem::path release(const std::string& id) const { return releases() / id; }

    /// The directory, open; none if it is not there.
    FileDescriptor open() const;

    /// A shared path or something below one.
    bool isShared(std::string_view path) const;
    /// A directory above a shared path: it may be in a release only because of that.
    bool leadsToShared(std::string_view path) const;

    /// "releases/ID": what `current` says.
    static std::string linkTo(const std::string& id);
    /// The release that a link leads to, however it is written; nothing if it leads elsewhere.
    std::optional<std::string> idOf(const std::string& link) const;
    /// What a release has in place of a shared path.
    static std::string linkToShared(const std::string& path);

  private:
    std::filesystem::path root_;
    std::vector<std::string> shared_;
};

}  // namespace gradus
