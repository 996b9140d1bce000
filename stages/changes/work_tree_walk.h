#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "stages/changes/directory_listing.h"
#include "stages/changes/file_scan.h"
#include "stages/changes/ignored_paths.h"
#include "stages/changes/stat_cache.h"
#include "store/file.h"

namespace gradus {

/// What a walk asks about paths that rules exclude.
struct TrackedElsewhere {
    std::function<bool(const std::string& path)> has = [](const std::string&) { return false; };
    std::function<bool(const std::string& directory)> hasBeneath = [](const std::string&) { return false; };
    std::function<bool(const std::string& path)> isSubmodule = [](const std::string&) { return false; };
};

struct WalkRequest {
    std::filesystem::path root;
    std::filesystem::path excludesFile;
    BlobNaming naming = BlobNaming::kNone;
    TrackedElsewhere tracked;
};

/// Every file and link of a directory that git would not ignore, with its digest; `.git` and repositories inside are
/// left out. Directories wait in a list and are opened one at a time, from the root and through no link.
class WorkTreeWalk {
  public:
    WorkTreeWalk(const WalkRequest& request, StatCache& cache);
    void run();

    struct Found {
        std::string path;
        FileScan scan;
    };
    std::vector<Found>& files() { return files_; }  ///< in no order
    /// Every directory that was entered and its permissions.
    const std::map<std::string, std::uint32_t>& directories() const { return directories_; }
    const std::vector<std::string>& notes() const { return notes_; }
    bool isSkipped(const std::string& path) { return ignored_.isSkipped(path); }
    /// Reads one again, for its content.
    FileScan keep(const std::string& path, Objects& objects) const;

  private:
    struct Place {
        std::string path{};
        IgnoredPaths::Scope scope = IgnoredPaths::kNone;
        bool onlyTracked = false;  ///< below something excluded
    };

    void visit(const Place& place);
    bool isRepositoryOfItsOwn(const Place& place, const std::vector<DirectoryItem>& items) const;
    void judge(const Place& place, IgnoredPaths::Scope scope, int directory, const DirectoryItem& item);
    void judgeDirectory(const Place& place, IgnoredPaths::Scope scope, const std::string& path);
    void take(int directory, const std::string& name, const std::string& path, bool isTracked);
    bool isTracked(const std::string& path) { return request_.tracked.has(path) || ignored_.isTracked(path); }

    const WalkRequest& request_;
    StatCache& cache_;
    FileDescriptor root_;
    IgnoredPaths ignored_;
    std::vector<Place> waiting_;
    std::vector<Found> files_;
    std::map<std::string, std::uint32_t> directories_;
    std::vector<std::string> notes_;
};

}  // namespace gradus
