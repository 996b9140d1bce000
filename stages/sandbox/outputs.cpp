#include "stages/sandbox/outputs.h"

#include <sys/stat.h>

#include <map>

#include "stages/changes/link_rule.h"
#include "stages/changes/source_tree.h"
#include "stages/changes/tree_record.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLongestLink = 4096;

class Collection {
  public:
    Collection(int upper, const ResultingTree& tree, const OutputRequest& request, Objects& objects)
        : upper_(upper),
          written_(fs::path("/proc/self/fd") / std::to_string(upper)),
          patterns_(request.patterns),
          request_(request),
          objects_(objects),
          reader_(written_),
          below_(tree.directory),
          source_(below_, tree.leftOut) {
        for (const PathChange& change : tree.changes.changes()) changed_[change.path] = &change;
    }

    ChangeSet run() {
        const TreeRecord record = look();
        for (const RecordedPath& found : record.paths)
            if (found.entry.type != EntryType::kDirectory && patterns_.matches(found.path)) take(found, record);
        std::vector<PathChange> all;
        for (const auto& [path, entry] : built_) all.push_back({path, std::nullopt, entry});
        return ChangeSet(std::move(all));
    }

  private:
    TreeRecord look() const {
        RecordRequest request;
        request.isLeftOut = [&](const std::string& path) {
            return !patterns_.matches(path) && !patterns_.mayMatchBelow(path);
        };
        request.strange = [&](const std::string& path, const std::string& reason) {
            if (!isWhiteout(path) && patterns_.matches(path))
                throw Error(ErrorCode::kNotAllowed, "'{}' cannot be an output: {}", printable(path), reason);
        };
        return recordTree(TreeRoot(written_), request);
    }

    /// What overlayfs leaves where something was removed.
    bool isWhiteout(const std::string& path) const {
        struct stat info {};
        return ::fstatat(upper_, path.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(info.st_mode) &&
               info.st_rdev == 0;
    }

    std::optional<Entry> inTree(const std::string& path) const {
        const auto change = changed_.find(path);
        return change != changed_.end() ? change->second->after : source_.at(path);
    }

    void take(const RecordedPath& found, const TreeRecord& record) {
        const std::string& path = found.path;
        if (const auto there = inTree(path)) {
            if (there->type == found.entry.type && there->digest == found.entry.digest) return;
            throw Error(ErrorCode::kNotAllowed, "'{}' is a file of the tree itself, and what builds may not change it",
                        printable(path))
                .hint("take it out of the repository, or name other files in `outputs`");
        }
        count(found.entry);
        const auto entry = reader_.keep(path, objects_);
        if (!entry || entry->digest != found.entry.digest)
            throw Error(ErrorCode::kInfrastructure, "'{}' changed while it was read", printable(path));
        if (entry->type == EntryType::kSymlink && !staysInside(path, objects_.readAll(entry->digest, kLongestLink)))
            throw Error(ErrorCode::kNotAllowed, "the link '{}' leads out of the tree", printable(path))
                .hint("make it relative, up first and then down");
        built_[path] = *entry;
        takeParents(path, record);
    }

    void takeParents(const std::string& path, const TreeRecord& record) {
        for (std::size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0;
             slash = path.rfind('/', slash - 1)) {
            const std::string parent = path.substr(0, slash);
            if (built_.contains(parent)) return;
            const auto there = inTree(parent);
            if (there && there->type == EntryType::kDirectory) return;
            const RecordedPath* made = record.find(parent);
            if (there || made == nullptr)
                throw Error(ErrorCode::kNotAllowed,
                            "'{}' is a file of the tree itself, and what builds may not change "
                            "it",
                            printable(parent));
            built_[parent] = made->entry;
        }
    }

    void count(const Entry& entry) {
        bytes_ += entry.size;
        if (++paths_ > request_.mostPaths)
            throw Error(ErrorCode::kNotAllowed, "it built more than {} files", request_.mostPaths)
                .hint("name fewer of them in `outputs`, or pack them into one");
        if (bytes_ > request_.mostBytes)
            throw Error(ErrorCode::kNotAllowed, "it built more than {} MiB", request_.mostBytes >> 20)
                .hint("name fewer files in `outputs`");
    }

    int upper_;
    fs::path written_;
    OutputPatterns patterns_;
    const OutputRequest& request_;
    Objects& objects_;
    DirectoryReader reader_;
    DirectoryReader below_;
    PartialReader source_;
    std::map<std::string, const PathChange*> changed_;
    std::map<std::string, Entry> built_;
    std::uint64_t paths_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace

ChangeSet collectOutputs(int upper, const ResultingTree& tree, const OutputRequest& request, Objects& objects) {
    ChangeSet built = Collection(upper, tree, request, objects).run();
    if (built.empty())
        throw Error(ErrorCode::kNotAllowed, "it built nothing that `outputs` names")
            .hint("the patterns are relative to the project, whatever `directory` says");
    return built;
}

}  // namespace gradus
