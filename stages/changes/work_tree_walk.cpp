#include "stages/changes/work_tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <thread>

#include "stages/changes/base_view.h"
#include "stages/changes/git_work_tree.h"
#include "stages/changes/harvest.h"
#include "stages/changes/tree_writer_staging.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::string_view kGit = ".git";
constexpr std::string_view kRules = ".gitignore";
// The kernel's share of a look is divided well by a few; more would mostly wait for the same locks.
constexpr std::size_t kMostThreads = 4;

std::string join(const std::string& directory, const std::string& name) {
    return directory.empty() ? name : directory + '/' + name;
}

bool hasName(const std::vector<DirectoryItem>& items, std::string_view name) {
    return std::any_of(items.begin(), items.end(), [&](const DirectoryItem& item) { return item.name == name; });
}

std::size_t otherThreads() {
    const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
    return std::min(cores, kMostThreads) - 1;
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
    looking_.emplace(otherThreads(), [this](Batch& batch) { takeAll(batch); });
    waiting_.push_back({.scope = ignored_.outermost()});
    while (!waiting_.empty()) {
        const Place place = std::move(waiting_.back());
        waiting_.pop_back();
        visit(place);
    }
    looking_->finish();
    gather();
    std::sort(notes_.begin(), notes_.end());
}

void WorkTreeWalk::gather() {
    std::size_t count = 0;
    for (const Batch& batch : batches_) count += batch.found.size();
    files_.reserve(count);
    for (Batch& batch : batches_) {
        if (batch.fault) std::rethrow_exception(batch.fault);
        std::move(batch.found.begin(), batch.found.end(), std::back_inserter(files_));
        std::move(batch.notes.begin(), batch.notes.end(), std::back_inserter(notes_));
    }
    batches_.clear();
}

void WorkTreeWalk::visit(const Place& place) {
    FileDescriptor directory = openOrThrow(root_.get(), place.path);
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
    Batch batch{.path = place.path, .directory = std::move(directory), .known = nullptr, .wanted = {}};
    for (const DirectoryItem& item : items) judge(place, scope, item, batch);
    if (batch.wanted.empty()) return;
    batch.known = &cache_.directory(place.path);
    looking_->add(batches_.emplace_back(std::move(batch)));
}

bool WorkTreeWalk::isRepositoryOfItsOwn(const Place& place, const std::vector<DirectoryItem>& items) const {
    if (place.path.empty() || !hasName(items, kGit) || request_.tracked.hasBeneath(place.path)) return false;
    const std::filesystem::path here = request_.root / place.path;
    const auto tree = findWorkTree(here);
    return tree && tree->root == here;
}

void WorkTreeWalk::judge(const Place& place, IgnoredPaths::Scope scope, const DirectoryItem& item, Batch& batch) {
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
    const bool mustBeRead = excluded || request_.tracked.has(path);
    batch.wanted.push_back({std::move(path), mustBeRead});
}

void WorkTreeWalk::judgeDirectory(const Place& place, IgnoredPaths::Scope scope, const std::string& path) {
    // Temporaries of the writer, whosever they are, are no part of what anybody made here.
    const bool isStaging = path.compare(path.rfind('/') + 1, Staging::kPrefix.size(), Staging::kPrefix) == 0;
    if (isStaging && !request_.tracked.hasBeneath(path)) return;
    Place below{.path = path, .scope = scope, .onlyTracked = place.onlyTracked};
    if (place.onlyTracked || ignored_.isExcluded(scope, path, true)) {
        if (!request_.tracked.hasBeneath(path) && !ignored_.hasTrackedBeneath(path)) return;
        below.onlyTracked = true;
    }
    waiting_.push_back(std::move(below));
}

void WorkTreeWalk::takeAll(Batch& batch) const {
    try {
        batch.found.reserve(batch.wanted.size());
        for (const Batch::Wanted& wanted : batch.wanted) take(wanted, batch);
    } catch (...) {
        batch.fault = std::current_exception();
    }
    batch.directory = FileDescriptor();
    batch.wanted = {};
}

void WorkTreeWalk::take(const Batch::Wanted& wanted, Batch& batch) const {
    const std::string& path = wanted.path;
    const char* const name = path.c_str() + (batch.path.empty() ? 0 : batch.path.size() + 1);
    struct stat info {};
    if (::fstatat(batch.directory.get(), name, &info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) return;
    if (auto known = batch.known->find(name, info, request_.naming)) {
        batch.found.push_back({path, known->entry, std::move(known->blob), info.st_mode});
        return;
    }
    const timespec since = fileSystemNow();
    try {
        FileScan scan = scanFile(batch.directory.get(), name, path, {.blob = request_.naming});
        batch.known->remember(name, scan, since);
        batch.found.push_back({path, scan.entry, std::move(scan.blob), scan.info.st_mode});
    } catch (const Error& e) {
        if (wanted.isTracked || e.code() == ErrorCode::kBusy) throw;
        batch.notes.push_back(fmt::format("{}: left out: {}", printable(path), e.what()));
    }
}

FileScan WorkTreeWalk::keep(const std::string& path, Objects& objects) const {
    const std::size_t slash = path.rfind('/');
    const FileDescriptor parent =
        openOrThrow(root_.get(), slash == std::string::npos ? std::string() : path.substr(0, slash));
    return scanFile(parent.get(), path.substr(slash + 1), path, {.keep = &objects, .blob = request_.naming});
}

}  // namespace gradus
