#include "stages/sandbox/change_layer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include "stages/sandbox/layer_entries.h"
#include "stages/sandbox/layer_tree.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::uint64_t kLongestLink = 4096;
/// Of directories that a change needs without naming them, as the TreeWriter makes them.
constexpr mode_t kUnnamedDirectory = 0755;

/// A place in the layer: a path of the change, or one on the way to such a path.
struct Place {
    const PathChange* change = nullptr;
    bool leftOut = false;
    bool holds = false;  ///< something is there afterwards, or below it, that the change put there
    std::map<std::string, std::unique_ptr<Place>> below;

    const std::optional<Entry>& after() const {
        static const std::optional<Entry> kNothing;
        return change != nullptr ? change->after : kNothing;
    }
};

Place& placeOf(Place& top, const std::string& path, bool holds) {
    Place* at = &top;
    for (std::size_t start = 0; start < path.size();) {
        const std::size_t end = std::min(path.find('/', start), path.size());
        auto& next = at->below[path.substr(start, end - start)];
        if (!next) next = std::make_unique<Place>();
        at = next.get();
        at->holds = at->holds || holds;
        start = end + 1;
    }
    return *at;
}

[[noreturn]] void refuse(const std::string& path) {
    throw Error(ErrorCode::kNotAllowed, "the change leads through {}, which is no directory there", path)
        .hint("the tree moved since the change was made: `gradus rebase` makes it fit again");
}

class Writing {
  public:
    Writing(const ChangeLayer& layer, const Objects& objects) : layer_(layer), objects_(objects) {}

    /// `below`: the directory that this one is shown over; -1 where there is none.
    void fill(const Place& place, int target, int below, const std::string& path) const {
        for (const auto& [name, next] : place.below) {
            const std::string inner = path.empty() ? name : path + "/" + name;
            write(*next, {target, below, name, inner}, lookAt(below, name));
        }
    }

  private:
    struct Spot {
        int target;
        int below;
        const std::string& name;
        const std::string& path;
    };
    using There = std::optional<struct stat>;

    static There lookAt(int below, const std::string& name) {
        struct stat info {};
        if (below < 0) return std::nullopt;
        if (::fstatat(below, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return info;
        if (errno != ENOENT) failEntry("look at", name);
        return std::nullopt;
    }

    void write(const Place& place, const Spot& spot, const There& there) const {
        const auto& after = place.after();
        if (after && after->type != EntryType::kDirectory) return writeEntry(place, spot, there);
        if (after || place.holds) return writeDirectory(place, spot, there);
        if (!there) return;
        if (place.change != nullptr || place.leftOut) return writeMark(spot);
        if (S_ISDIR(there->st_mode)) writeDirectory(place, spot, there);
    }

    static void writeMark(const Spot& spot) {
        if (::mknodat(spot.target, spot.name.c_str(), S_IFCHR, 0) != 0) failEntry("mark", spot.name);
    }

    void writeEntry(const Place& place, const Spot& spot, const There& there) const {
        for (const auto& [name, next] : place.below)
            if (next->holds) refuse(spot.path);
        const Entry& entry = *place.after();
        if (entry.type == EntryType::kSymlink)
            writeLink(entry, spot);
        else
            writeFile(entry, spot);
        const bool replaces = there && !place.leftOut && !S_ISDIR(there->st_mode);
        own(spot, replaces ? there->st_uid : layer_.uid, replaces ? there->st_gid : layer_.gid);
        // A change of owner takes set-user-ID bits away and nothing else, but the order should not matter.
        if (entry.type == EntryType::kFile && ::fchmodat(spot.target, spot.name.c_str(), entry.mode, 0) != 0)
            failEntry("set the mode of", spot.name);
    }

    void writeFile(const Entry& entry, const Spot& spot) const {
        const FileDescriptor file(
            ::openat(spot.target, spot.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file) failEntry("write", spot.name);
        if (entry.size == 0) return;
        ObjectReader content = objects_.open(entry.digest);
        if (content.size() != entry.size)
            throw Error(ErrorCode::kDamaged, "the stored content of {} has {} bytes, not {}", spot.path, content.size(),
                        entry.size);
        std::array<char, 65536> buffer;
        while (const std::size_t got = content.read(buffer)) writeAll(file.get(), {buffer.data(), got}, spot.path);
    }

    void writeLink(const Entry& entry, const Spot& spot) const {
        const std::string text = objects_.readAll(entry.digest, kLongestLink);
        if (::symlinkat(text.c_str(), spot.target, spot.name.c_str()) != 0) failEntry("make link", spot.name);
    }

    // What is below is merged with it unless it is left out, or no directory.
    void writeDirectory(const Place& place, const Spot& spot, const There& there) const {
        const bool isShown = there && !place.leftOut;
        const bool isNew = place.after() && place.change->before && place.change->before->type != EntryType::kDirectory;
        if (isShown && !S_ISDIR(there->st_mode) && !isNew) refuse(spot.path);
        if (place.change != nullptr && !place.after()) refuse(spot.path);
        if (::mkdirat(spot.target, spot.name.c_str(), 0700) != 0) failEntry("make", spot.name);
        const FileDescriptor made = open(spot.target, spot.name);
        FileDescriptor lower;
        if (isShown && S_ISDIR(there->st_mode)) lower = open(spot.below, spot.name);
        if (place.leftOut && there && S_ISDIR(there->st_mode)) setOpaque(made.get());
        fill(place, made.get(), lower.get(), spot.path);
        dress(place, made.get(), lower.get());
    }

    void dress(const Place& place, int made, int lower) const {
        if (lower >= 0) copyLook(lower, made, Marks::kLeave);
        if (lower < 0 && ::geteuid() == 0 && ::fchown(made, layer_.uid, layer_.gid) != 0)
            failEntry("own", "a directory");
        const auto& after = place.after();
        if (lower >= 0 && !after) return;
        if (::fchmod(made, after ? after->mode : kUnnamedDirectory) != 0) failEntry("set the mode of", "a directory");
    }

    static FileDescriptor open(int directory, const std::string& name) {
        FileDescriptor opened(
            ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
        if (!opened) failEntry("open", name);
        return opened;
    }

    static void own(const Spot& spot, uid_t uid, gid_t gid) {
        if (::geteuid() != 0) return;
        if (::fchownat(spot.target, spot.name.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) != 0) failEntry("own", spot.name);
    }

    const ChangeLayer& layer_;
    const Objects& objects_;
};

}  // namespace

void writeChangeLayer(const ChangeLayer& layer, const Objects& objects, int target) {
    Place top;
    for (const PathChange& change : layer.changes.changes())
        placeOf(top, change.path, change.after.has_value()).change = &change;
    for (const std::string& path : layer.leftOut) placeOf(top, path, false).leftOut = true;
    const FileDescriptor below = openFile(layer.below, O_RDONLY | O_DIRECTORY);
    Writing(layer, objects).fill(top, target, below.get(), "");
    copyLook(below.get(), target, Marks::kLeave);
}

}  // namespace gradus
