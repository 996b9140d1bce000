#include "stages/changes/work_tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "stages/changes/base_view.h"
#include "stages/changes/git_work_tree.h"
#include "stages/changes/harvest.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::string_view kGit = ".git";
constexpr std::string_view kRules = ".gitignore";

std::string join(const std::string& directory, const std::string& name) {
    return directory.empty() ? name : directory + '/' + name;
}

bool hasName(const std::vector<DirectoryItem>& items, std::string_view name) {
    return std::any_of(items.begin(), items.end(), [&](const DirectoryItem& item) { return item.name == name; });
}

FileDescriptor openOrThrow(int root, const std::string& path) {
    FileDescriptor directory = openBeneath(root, path, false);
    if (!directory && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
        throw Error(ErrorCode::kInfrastructure, "cannot open '{}': {}", printable(path), errnoText(errno));
    return directory;
}

}  // namespace

WorkTreeWalk::WorkTreeWalk(const WalkRequest& request, StatCache& cache)
    : request_(request),
      cache_(cache),
      root_(openFile(request.root, O_RDONLY | O_DIRECTORY)),
      ignored_(request.root, request.excludesFile) {}

void WorkTreeWalk::run() {
    waiting_.push_back({.scope = ignored_.outermost()});
    while (!waiting_.empty()) {
        const Place place = std::move(waiting_.back());
        waiting_.pop_back();
        visit(place);
    }
    std::sort(notes_.begin(), notes_.end());
}

void WorkTreeWalk::visit(const Place& place) {
    const FileDescriptor directory = openOrThrow(root_.get(), place.path);
    if (!directory) return;  // gone, or something else by now: no directory, then
    std::vector<DirectoryItem> items;
    if (const int error = listDirectory(directory.get(), 0, items); error != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot list '{}': {}", printable(place.path), errnoText(error));
    if (isRepositoryOfItsOwn(place, items))
        return notes_.push_back(fmt::format("{}: a repository of its own, left alone", printable(place.path)));
    struct stat info {};
    ::fstat(directory.get(), &info);
    directories_[place.path] = info.st_mode & 0777;
    IgnoredPaths::Scope scope = place.scope;
    if (scope != IgnoredPaths::kNone && hasName(items, kRules))
        if (const auto rules = readPlainFile(directory.get(), std::string(kRules), IgnoredPaths::kRulesCap))
            scope = ignored_.within(scope, place.path, *rules);
    for (const DirectoryItem& item : items) judge(place, scope, directory.get(), item);
}

bool WorkTreeWalk::isRepositoryOfItsOwn(const Place& place, const std::vector<DirectoryItem>& items) const {
    if (place.path.empty() || !hasName(items, kGit) || request_.tracked.hasBeneath(place.path)) return false;
    const std::filesystem::path here = request_.root / place.path;
    const auto tree = findWorkTree(here);
    return tree && tree->root == here;
}

void WorkTreeWalk::judge(const Place& place, IgnoredPaths::Scope scope, int directory, const DirectoryItem& item) {
    if (item.name == kGit) return;
    std::string path = join(place.path, item.name);
    if (request_.tracked.isSubmodule(path))
        return notes_.push_back(fmt::format("{}: a submodule, left alone", printable(path)));
    if (item.type == DT_DIR) return judgeDirectory(place, scope, path);
    if (item.type != DT_REG && item.type != DT_LNK) return;
    const bool excluded = place.onlyTracked || ignored_.isExcluded(scope, path, false);
    if (excluded && !isTracked(path)) return;
    if (const auto fault = pathFault(path))
        return notes_.push_back(
            fmt::format("{}: left out, as a change cannot have that name: {}", printable(path), *fault));
    take(directory, item.name, path, excluded || request_.tracked.has(path));
}

void WorkTreeWalk::judgeDirectory(const Place& place, IgnoredPaths::Scope scope, const std::string& path) {
    Place below{.path = path, .scope = scope, .onlyTracked = place.onlyTracked};
    if (place.onlyTracked || ignored_.isExcluded(scope, path, true)) {
        if (!request_.tracked.hasBeneath(path) && !ignored_.hasTrackedBeneath(path)) return;
        below.onlyTracked = true;
    }
    waiting_.push_back(std::move(below));
}

void WorkTreeWalk::take(int directory, const std::string& name, const std::string& path, bool isTracked) {
    struct stat info {};
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) return;
    if (auto known = cache_.find(path, info, request_.naming)) {
        files_.push_back({path, std::move(*known)});
        return;
    }
    const timespec since = fileSystemNow();
    try {
        FileScan scan = scanFile(directory, name, path, {.blob = request_.naming});
        cache_.remember(path, scan, since);
        files_.push_back({path, std::move(scan)});
    } catch (const Error& e) {
        if (isTracked || e.code() == ErrorCode::kBusy) throw;
        notes_.push_back(fmt::format("{}: left out: {}", printable(path), e.what()));
    }
}

FileScan WorkTreeWalk::keep(const std::string& path, Objects& objects) const {
    const std::size_t slash = path.rfind('/');
    const FileDescriptor parent =
        openOrThrow(root_.get(), slash == std::string::npos ? std::string() : path.substr(0, slash));
    return scanFile(parent.get(), path.substr(slash + 1), path, {.keep = &objects, .blob = request_.naming});
}

}  // namespace gradus
