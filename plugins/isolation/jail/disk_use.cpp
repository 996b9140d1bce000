#include "plugins/isolation/jail/disk_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

constexpr int kDeepest = 200;          // what lies deeper is not counted: a watcher proves nothing anyway
constexpr std::uint64_t kBlock = 512;  // st_blocks counts in these

class DiskUse {
  public:
    explicit DiskUse(std::uint64_t most) : most_(most) {}

    void count(int directory, int depth) {
        const int again = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const std::unique_ptr<DIR, int (*)(DIR*)> list(again < 0 ? nullptr : ::fdopendir(again), &::closedir);
        while (const dirent* entry = list && used_ <= most_ ? ::readdir(list.get()) : nullptr) {
            const std::string name = entry->d_name;
            if (name != "." && name != "..") visit(directory, name, depth);
        }
    }
    std::uint64_t used() const { return used_; }

  private:
    void visit(int directory, const std::string& name, int depth) {
        struct stat info {};
        if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
        const bool isNew =
            info.st_nlink < 2 || S_ISDIR(info.st_mode) || seen_.insert({info.st_dev, info.st_ino}).second;
        if (isNew) used_ += static_cast<std::uint64_t>(info.st_blocks) * kBlock;
        if (!S_ISDIR(info.st_mode) || depth >= kDeepest) return;
        const Descriptor below = openPath(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (below) count(below.get(), depth + 1);
    }

    std::uint64_t most_;
    std::uint64_t used_ = 0;
    std::set<std::pair<dev_t, ino_t>> seen_;
};

}  // namespace

std::uint64_t diskUse(int directory, std::uint64_t most) {
    DiskUse use(most);
    use.count(directory, 0);
    return use.used();
}

}  // namespace gradus
