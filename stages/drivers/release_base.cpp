#include "stages/drivers/release_base.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "store/model/error.h"
#include "store/model/utf8.h"
#include "store/paths.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostShown = 5;

std::string_view lastOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Asked for every path of a seed, parents first.
class SeedFilter {
  public:
    SeedFilter(const ReleaseLayout& layout, const StageChange& change)
        : layout_(layout), seed_(*change.seed), leftOut_(change.leftOut.begin(), change.leftOut.end()) {}

    bool operator()(const std::string& path) {
        return lastOf(path) == ".git" || leftOut_.contains(path) || leftOut_.contains(path + "/") ||
               layout_.isShared(path) || isInRepository(path);
    }

  private:
    // A submodule is a directory and nothing more in the tree of a commit.
    bool isInRepository(const std::string& path) {
        const std::string parent(directoryOf(path));
        if (parent.empty()) return false;
        const auto [known, isNew] = repositories_.emplace(parent, false);
        struct stat info {};
        if (isNew) known->second = ::lstat((seed_ / parent / ".git").c_str(), &info) == 0;
        return known->second;
    }

    const ReleaseLayout& layout_;
    fs::path seed_;
    std::set<std::string> leftOut_;
    std::map<std::string, bool> repositories_;
};

std::string shown(const std::vector<Departure>& departures) {
    std::string text;
    for (std::size_t i = 0; i < std::min(departures.size(), kMostShown); ++i)
        text += fmt::format("{}'{}': {}", i == 0 ? " " : "; ", printable(departures[i].path), departures[i].reason);
    if (departures.size() > kMostShown) text += fmt::format("; and {} more", departures.size() - kMostShown);
    return text;
}

}  // namespace

ReleaseBase seedBase(const ReleaseLayout& layout, const StageChange& change) {
    ReleaseBase base;
    base.isSeed = true;
    if (!change.seed) return base;
    base.directory = *change.seed;
    RecordRequest request;
    request.isLeftOut = SeedFilter(layout, change);
    base.record = recordTree(TreeRoot(base.directory), request);
    return base;
}

bool isAboutTheTree(const Conflict& conflict) {
    return conflict.kind != ConflictKind::kNotEmpty && conflict.kind != ConflictKind::kNoPermission &&
           conflict.kind != ConflictKind::kNoSpace && conflict.kind != ConflictKind::kMountPoint;
}

ReleaseBase recordedBase(const ReleaseLayout& layout, const ReleaseShelf& shelf, const ReleaseHead& head,
                         const std::string& stage) {
    ReleaseBase base{layout.release(head.id), shelf.record(head), false};
    const Departures departures = departuresOf(layout, base.record, base.directory, Scrutiny::kTouched);
    if (departures.changed.empty()) {
        base.record = withoutOutputs(std::move(base.record), shelf.outputs(head.id));
        return base;
    }
    throw Error(ErrorCode::kNotAllowed, "somebody changed the release in use, {}:{}", base.directory.native(),
                shown(departures.changed))
        .hint(fmt::format("put it back, or take it as it is: gradus adopt {}", stage));
}

TreeRecord withoutOutputs(TreeRecord record, const std::vector<std::string>& outputs) {
    const std::set<std::string> built(outputs.begin(), outputs.end());
    std::erase_if(record.paths, [&](const RecordedPath& path) { return built.contains(path.path); });
    return record;
}

Departures departuresOf(const ReleaseLayout& layout, const TreeRecord& record, const fs::path& release,
                        Scrutiny scrutiny) {
    const auto isShared = [&](const std::string& path) { return layout.isShared(path); };
    Departures departures;
    for (Departure& departure : compareTree(TreeRoot(release), record, scrutiny, isShared)) {
        if (record.find(departure.path) != nullptr)
            departures.changed.push_back(std::move(departure));
        else if (!layout.leadsToShared(departure.path))
            departures.added.push_back(std::move(departure));
    }
    return departures;
}

TreeRecord recordBelow(const TreeRoot& root, const std::string& path) {
    RecordRequest request;
    request.isLeftOut = [&](const std::string& other) {
        return !isAtOrBelow(other, path) && !isAtOrBelow(path, other);
    };
    TreeRecord record = recordTree(root, request);
    std::erase_if(record.paths, [&](const RecordedPath& found) { return !isAtOrBelow(found.path, path); });
    return record;
}

Digest digestBelow(const TreeRecord& record, const std::string& path) {
    std::vector<Manifest::Item> items;
    for (const RecordedPath& found : record.paths)
        items.push_back({"it" + found.path.substr(path.size()), found.entry});
    return Manifest(std::move(items)).digest();
}

}  // namespace gradus
