#include "plugins/isolation/jail/outside_writes.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
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

    void lookInto(int directory, const std::string& path) {
        listed_ = 0;
        look(directory, path);
    }

  private:
    bool isOnTheWay(const std::string& path) const {
        const auto next = planned_.lower_bound(path + "/");
        return next != planned_.end() && next->starts_with(path + "/");
    }

    // Read without the C library's stream, which takes twice as many calls: this is on the way of every run.
    void look(int directory, const std::string& path) {
        alignas(std::uint64_t) char entries[4096];
        while (true) {
            const long got = directory < 0 ? 0 : ::syscall(SYS_getdents64, directory, entries, sizeof entries);
            if (got <= 0) return;
            for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
                std::uint16_t length = 0;
                std::memcpy(&length, entries + at + offsetof(dirent64, d_reclen), sizeof length);
                const auto type = static_cast<unsigned char>(entries[at + offsetof(dirent64, d_type)]);
                if (!judge(directory, path, entries + at + offsetof(dirent64, d_name), type)) return;
                at += length;
            }
        }
    }

    /// False: enough was seen.
    bool judge(int directory, const std::string& path, const std::string& name, unsigned char type) {
        if (name == "." || name == "..") return true;
        const std::string inside = path + "/" + name;
        if (planned_.contains(inside)) return true;
        if (type != DT_DIR || !isOnTheWay(inside)) return note(inside);
        look(openPath(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).get(), inside);
        return true;
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
        if (!isOfTheProject(setup, directory.target))
            walk.lookInto(openPlace(directory.target).get(), directory.target);
    for (std::size_t i = 0; i < setup.overlays.size() && i < uppers.size(); ++i)
        if (!isOfTheProject(setup, setup.overlays[i].target))
            walk.lookInto(openPath(uppers[i].get(), ".", O_RDONLY | O_DIRECTORY).get(), setup.overlays[i].target);
}

}  // namespace gradus
