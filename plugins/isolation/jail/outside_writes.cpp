#include "plugins/isolation/jail/outside_writes.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>

namespace gradus {

namespace {

constexpr std::size_t kMostListed = 32;  // of one place
constexpr std::uint64_t kMostSeen = 10'000;

/// One walk over all places. Directories that the plan made on the way to its own entries are looked into; anything
/// else that is there is the command's.
class Walk {
  public:
    Walk(const JailSetup& setup, JailEffects& effects) : effects_(effects) {
        for (const JailOverlay& entry : setup.overlays) planned_.insert(entry.target);
        for (const JailBind& entry : setup.binds) planned_.insert(entry.target);
        for (const JailPrivate& entry : setup.privates) planned_.insert(entry.target);
        for (const JailFile& entry : setup.files) planned_.insert(entry.target);
        for (const std::string& entry : setup.hidden) planned_.insert(entry);
    }

    void lookInto(Descriptor directory, const std::string& path) {
        listed_ = 0;
        look(std::move(directory), path);
    }

  private:
    bool isOnTheWay(const std::string& path) const {
        const auto next = planned_.lower_bound(path + "/");
        return next != planned_.end() && next->starts_with(path + "/");
    }

    void look(Descriptor directory, const std::string& path) {
        const int fd = directory ? ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        const std::unique_ptr<DIR, int (*)(DIR*)> names(fd < 0 ? nullptr : ::fdopendir(fd), &::closedir);
        while (const dirent* entry = names ? ::readdir(names.get()) : nullptr) {
            const std::string name = entry->d_name;
            if (name == "." || name == "..") continue;
            const std::string inside = path + "/" + name;
            if (planned_.contains(inside)) continue;
            if (entry->d_type == DT_DIR && isOnTheWay(inside))
                look(openPath(directory.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), inside);
            else if (!note(inside))
                return;
        }
    }

    bool note(const std::string& path) {
        if (++seen_ > kMostSeen) return false;
        if (listed_ < kMostListed) {
            ++listed_;
            effects_.writes.push_back(path);
        } else {
            ++effects_.moreWrites;
        }
        return true;
    }

    JailEffects& effects_;
    std::set<std::string> planned_;
    std::size_t listed_ = 0;
    std::uint64_t seen_ = 0;
};

bool isOfTheProject(const JailSetup& setup, const std::string& target) {
    return std::any_of(setup.projectPlaces.begin(), setup.projectPlaces.end(), [&](const std::string& place) {
        return target == place || (target.starts_with(place) && target[place.size()] == '/');
    });
}

// Nothing on the way to a place of the plan is a link: whoever made one has not made that place.
Descriptor openPlace(const std::string& path) {
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return Descriptor(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
}

}  // namespace

void findOutsideWrites(const JailSetup& setup, const std::vector<Descriptor>& uppers, JailEffects& effects) {
    Walk walk(setup, effects);
    for (const JailPrivate& directory : setup.privates)
        if (!isOfTheProject(setup, directory.target)) walk.lookInto(openPlace(directory.target), directory.target);
    for (std::size_t i = 0; i < setup.overlays.size() && i < uppers.size(); ++i)
        if (!isOfTheProject(setup, setup.overlays[i].target))
            walk.lookInto(openPath(uppers[i].get(), ".", O_RDONLY | O_DIRECTORY), setup.overlays[i].target);
}

}  // namespace gradus
