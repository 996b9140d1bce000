#include "stages/sandbox/image_in_use.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/isolation/jail/mount_calls.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

bool isWritableLoopOver(int device, const struct stat& image) {
    loop_info64 info{};
    return ::ioctl(device, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == image.st_dev &&
           info.lo_inode == image.st_ino && (info.lo_flags & LO_FLAGS_READ_ONLY) == 0;
}

/// Open, so that it is over the same image for as long as this is looked at.
std::optional<std::pair<FileDescriptor, std::string>> loopOver(const fs::path& image) {
    struct stat file {};
    if (::stat(image.c_str(), &file) != 0) return std::nullopt;
    std::error_code error;
    for (fs::directory_iterator it("/sys/block", error); !error && it != fs::directory_iterator();
         it.increment(error)) {
        if (::access((it->path() / "loop/backing_file").c_str(), F_OK) != 0) continue;
        std::string path = "/dev/" + it->path().filename().native();
        FileDescriptor device(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        if (device && isWritableLoopOver(device.get(), file)) return std::pair(std::move(device), std::move(path));
    }
    return std::nullopt;
}

}  // namespace

// The kernel gives every mount of one device the same file system, so this sees what the other one wrote. Asked for as
// it is, to write, or it would be refused; what is read-only is the mount.
std::optional<FileDescriptor> openImageInUse(const fs::path& image) {
    const auto device = loopOver(image);
    if (!device) return std::nullopt;
    Descriptor mounted;
    const unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME | MOUNT_ATTR_RDONLY;
    if (makeFileSystem("ext4", {{"source", device->second}}, attributes, mounted)) return std::nullopt;
    FileDescriptor top(::openat(mounted.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!top) return std::nullopt;
    return top;
}

}  // namespace gradus
