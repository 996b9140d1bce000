#include "plugins/isolation/jail/image.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "plugins/isolation/jail/mount_calls.h"

namespace gradus {

namespace {

constexpr int kPatience = 5'000;  // tries, a millisecond apart
constexpr int kTries = 64;        // somebody else may take the free one first

Attempt attachLoop(int image, bool readOnly, Descriptor& device, std::string& path) {
    const Descriptor control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    if (!control) return failure("loop device", "/dev/loop-control");
    loop_config wanted{};
    wanted.fd = static_cast<__u32>(image);
    wanted.info.lo_flags = LO_FLAGS_AUTOCLEAR | (readOnly ? LO_FLAGS_READ_ONLY : 0);
    for (int attempt = 0; attempt < kTries; ++attempt) {
        const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
        if (number < 0) return failure("loop device", "none is free");
        path = "/dev/loop" + std::to_string(number);
        device = Descriptor(::open(path.c_str(), (readOnly ? O_RDONLY : O_RDWR) | O_CLOEXEC));
        if (!device) return failure("loop device", path);
        if (::ioctl(device.get(), LOOP_CONFIGURE, &wanted) == 0) return std::nullopt;
        if (errno != EBUSY) return failure("loop device", path);
    }
    return failure("loop device", "all are taken", EBUSY);
}

// The lock belongs to the open file, which the loop device keeps until it is let go of: nobody mounts an image that is
// still being written, not even one whose owner was killed a moment ago.
Attempt lockImage(int image, bool readOnly, const std::string& file) {
    const timespec pause{0, 1'000'000};
    for (int attempt = 0; attempt < kPatience; ++attempt) {
        if (::flock(image, (readOnly ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return std::nullopt;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        ::nanosleep(&pause, nullptr);
    }
    return failure("lock image", file);
}

}  // namespace

Attempt mountImage(const std::string& file, bool readOnly, Descriptor& mounted) {
    const Descriptor image(::open(file.c_str(), (readOnly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW));
    if (!image) return failure("open image", file);
    if (auto failed = lockImage(image.get(), readOnly, file)) return failed;
    Descriptor device;  // until the mount holds it
    std::string path;
    if (auto failed = attachLoop(image.get(), readOnly, device, path)) return failed;
    std::vector<MountOption> options = {{"source", path}};
    // What is deleted inside is given back to the disk that the file lies on.
    options.push_back({readOnly ? "ro" : "discard", ""});
    const unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME;
    Attempt failed = makeFileSystem("ext4", options, attributes | (readOnly ? MOUNT_ATTR_RDONLY : 0), mounted);
    if (failed) failed->detail = file + ": " + failed->detail;
    return failed;
}

}  // namespace gradus
