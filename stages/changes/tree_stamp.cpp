#include "stages/changes/tree_stamp.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>

#include "stages/changes/base_view.h"
#include "stages/changes/directory_listing.h"
#include "stages/changes/harvest.h"
#include "stages/changes/ignored_paths.h"
#include "stages/changes/tree_writer_staging.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kGitDirectory = ".git";
constexpr std::string_view kIgnoreRules = ".gitignore";
// What git ignores may be a million files; of so many the rest is not looked at.
constexpr std::size_t kMostIgnored = 50'000;

bool isNotBefore(const timespec& time, const timespec& since) {
    return time.tv_sec != since.tv_sec ? time.tv_sec > since.tv_sec : time.tv_nsec >= since.tv_nsec;
}

}  // namespace

/// Visits a tree: of what git does not ignore every item, of what it ignores those that were touched since.
class TreeStamp::Walk {
  public:
    Walk(const fs::path& root, const timespec* since)
        : since_(since), ignored_(root, {}), root_(openFile(root, O_RDONLY | O_DIRECTORY)) {
        struct stat info {};
        if (::fstat(root_.get(), &info) == 0) items_.push_back(itemOf(".", info));
        waiting_.push_back({.path = "", .scope = ignored_.outermost()});
        while (!waiting_.empty()) {
            const Place place = std::move(waiting_.back());
            waiting_.pop_back();
            visit(place);
        }
        std::ranges::sort(items_, {}, &Item::path);
    }
    std::vector<Item>& items() { return items_; }
    std::vector<std::string>& touched() { return touched_; }

  private:
    struct Place {
        std::string path;
        IgnoredPaths::Scope scope = IgnoredPaths::kNone;
        bool isIgnored = false;
        bool onlyTracked = false;
    };

    static Item itemOf(std::string path, const struct stat& info) {
        return {std::move(path), info.st_dev, info.st_ino, info.st_ctim, S_ISDIR(info.st_mode)};
    }

    // What cannot be opened cannot be seen by a check either; its own change time is compared all the same.
    void visit(const Place& place) {
        const FileDescriptor directory = openBeneath(root_.get(), place.path, false);
        std::vector<DirectoryItem> found;
        if (!directory || listDirectory(directory.get(), 0, found) != 0) return;
        IgnoredPaths::Scope scope = place.scope;
        const bool hasRules = std::ranges::any_of(found, [](const auto& item) { return item.name == kIgnoreRules; });
        if (hasRules && scope != IgnoredPaths::kNone && !place.isIgnored)
            if (const auto rules = readPlainFile(directory.get(), std::string(kIgnoreRules), IgnoredPaths::kRulesCap))
                scope = ignored_.within(scope, place.path, *rules);
        for (const DirectoryItem& item : found) look(place, scope, directory.get(), item);
    }

    void look(const Place& place, IgnoredPaths::Scope scope, int directory, const DirectoryItem& found) {
        if (found.name == kGitDirectory || found.name.starts_with(Staging::kPrefix)) return;
        std::string path = place.path.empty() ? found.name : place.path + "/" + found.name;
        const bool isDirectory = found.type == DT_DIR;
        Place below{.path = path, .scope = scope, .isIgnored = place.isIgnored, .onlyTracked = place.onlyTracked};
        if (!below.isIgnored && (below.onlyTracked || ignored_.isExcluded(scope, path, isDirectory))) {
            below.onlyTracked = isDirectory && ignored_.hasTrackedBeneath(path);
            below.isIgnored = !below.onlyTracked && (isDirectory || !ignored_.isTracked(path));
        }
        if (below.isIgnored && (since_ == nullptr || ++countIgnored_ > kMostIgnored)) return;
        struct stat info {};
        if (::fstatat(directory, found.name.c_str(), &info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) return;
        if (!below.isIgnored)
            items_.push_back(itemOf(path, info));
        else if (isNotBefore(info.st_ctim, *since_) && !isDirectory)
            touched_.push_back(path);
        if (isDirectory) waiting_.push_back(std::move(below));
    }

    const timespec* since_;
    IgnoredPaths ignored_;
    FileDescriptor root_;
    std::vector<Place> waiting_;
    std::vector<Item> items_;
    std::vector<std::string> touched_;
    std::size_t countIgnored_ = 0;
};

bool TreeStamp::Item::isSame(const Item& other) const {
    return device == other.device && inode == other.inode && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
}

TreeStamp::TreeStamp(const fs::path& root) : root_(root), since_(fileSystemNow()) {
    items_ = std::move(Walk(root_, nullptr).items());
}

std::vector<std::string> TreeStamp::moved(std::size_t most) const {
    const std::vector<Item> now = std::move(Walk(root_, nullptr).items());
    std::vector<std::string> files;
    std::vector<std::string> directories;
    const auto add = [&](const Item& item) { (item.isDirectory ? directories : files).push_back(item.path); };
    auto was = items_.begin();
    for (auto is = now.begin(); was != items_.end() || is != now.end();) {
        if (is == now.end() || (was != items_.end() && was->path < is->path)) {
            add(*was++);
        } else if (was == items_.end() || is->path < was->path) {
            add(*is++);
        } else {
            if (!was->isSame(*is)) add(*is);
            ++was, ++is;
        }
    }
    files.insert(files.end(), directories.begin(), directories.end());
    if (files.size() > most) files.resize(most);
    return files;
}

std::vector<std::string> TreeStamp::movedIgnored(std::size_t most) const {
    std::vector<std::string> touched = std::move(Walk(root_, &since_).touched());
    std::ranges::sort(touched);
    if (touched.size() > most) touched.resize(most);
    return touched;
}

}  // namespace gradus
