#pragma once

#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/directory_listing.h"
#include "stages/changes/file_scan.h"
#include "stages/changes/ignored_paths.h"
#include "stages/changes/side_by_side.h"
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
/// left out. Directories wait in a list and are opened one at a time, from the root and through no link; of a large
/// tree the files are looked at by several threads.
class WorkTreeWalk {
  public:
    WorkTreeWalk(const WalkRequest& request, StatCache& cache);
    void run();

    struct Found {
        std::string path;
        Entry entry;
        std::string blob;  ///< git's name for the content, if asked for
        mode_t mode = 0;   ///< with its type and all bits
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

    /// The files of one directory, and what came of looking at them.
    struct Batch {
        std::string path;
        FileDescriptor directory;
        StatCache::Directory* known = nullptr;
        struct Wanted {
            std::string path;
            bool isTracked = false;  ///< it must be readable
        };
        std::vector<Wanted> wanted;
        std::vector<Found> found{};
        std::vector<std::string> notes{};
        std::exception_ptr fault{};
    };

    void visit(const Place& place);
    bool isRepositoryOfItsOwn(const Place& place, const std::vector<DirectoryItem>& items) const;
    void judge(const Place& place, IgnoredPaths::Scope scope, const DirectoryItem& item, Batch& batch);
    void judgeDirectory(const Place& place, IgnoredPaths::Scope scope, const std::string& path);
    /// On any thread: touches the batch alone.
    void takeAll(Batch& batch) const;
    void take(const Batch::Wanted& wanted, Batch& batch) const;
    void gather();
    bool isTracked(const std::string& path) { return request_.tracked.has(path) || ignored_.isTracked(path); }

    const WalkRequest& request_;
    StatCache& cache_;
    FileDescriptor root_;
    IgnoredPaths ignored_;
    std::vector<Place> waiting_;
    std::deque<Batch> batches_;
    std::optional<SideBySide<Batch>> looking_;
    std::vector<Found> files_;
    std::map<std::string, std::uint32_t> directories_;
    std::vector<std::string> notes_;
};

}  // namespace gradus
