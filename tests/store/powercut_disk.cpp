#include "tests/store/powercut_disk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "store/file.h"
#include "store/model/error.h"
#include "tests/store/own_mounts.h"

namespace gradus::test {

namespace fs = std::filesystem;

namespace {

int runProgram(std::vector<std::string> words) {
    const pid_t child = ::fork();
    if (child == 0) {
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    int status = -1;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

void mustRun(const std::vector<std::string>& words) {
    if (runProgram(words) == 0) return;
    std::string line;
    for (const std::string& word : words) line += word + " ";
    throw std::runtime_error("failed: " + line);
}

bool isInPath(const std::string& program) {
    for (const char* directory : {"/usr/sbin", "/sbin", "/usr/bin", "/bin"})
        if (fs::exists(fs::path(directory) / program)) return true;
    return false;
}

void sparseFile(const fs::path& path, std::uintmax_t size) {
    const FileDescriptor file = openFile(path, O_RDWR | O_CREAT);
    fs::resize_file(path, size);
}

void unmount(const fs::path& path) { ::umount2(path.c_str(), MNT_DETACH); }

}  // namespace

std::optional<std::string> PowerCutDisk::whyNot() {
    if (::geteuid() != 0) return "mounting a disk image needs root";
    if (!fs::exists("/dev/loop-control")) return "there are no loop devices";
    for (const char* program : {"mkfs.xfs", "mkfs.ext4", "mount"})
        if (!isInPath(program)) return std::string(program) + " is not installed";
    try {
        const PowerCutDisk trial;
    } catch (const std::runtime_error& e) {
        return e.what();
    }
    return std::nullopt;
}

PowerCutDisk::PowerCutDisk() {
    enterOwnMounts();
    std::string name = (fs::temp_directory_path() / "gradus-disk-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
    base_ = name;
    // In memory: what the cut leaves is decided above the lower file system, so a real disk would only be slower.
    if (::mount("tmpfs", base_.c_str(), "tmpfs", 0, "size=768m,mode=0700") != 0)
        throw std::runtime_error("cannot mount a tmpfs: " + errnoText(errno));
    for (const char* directory : {"host", "disk", "after"}) fs::create_directory(base_ / directory);
    try {
        sparseFile(base_ / "host.img", std::uintmax_t{600} << 20);
        mustRun({"mkfs.xfs", "-q", "-m", "reflink=1", base_ / "host.img"});
        mustRun({"mount", "-o", "loop", base_ / "host.img", base_ / "host"});
        sparseFile(base_ / "host/disk.img", std::uintmax_t{96} << 20);
        mustRun({"mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", base_ / "host/disk.img"});
        mustRun({"mount", "-o", "loop", base_ / "host/disk.img", base_ / "disk"});
    } catch (...) {
        takeDown();
        throw;
    }
}

PowerCutDisk::~PowerCutDisk() { takeDown(); }

void PowerCutDisk::takeDown() noexcept {
    for (const char* directory : {"after", "disk", "host", ""}) unmount(base_ / directory);
    std::error_code ignored;
    fs::remove(base_, ignored);
}

void PowerCutDisk::cut() {
    const FileDescriptor from = openFile(base_ / "host/disk.img", O_RDONLY);
    const FileDescriptor to = openFile(base_ / "host/cut.img", O_RDWR | O_CREAT | O_TRUNC);
    if (::ioctl(to.get(), FICLONE, from.get()) != 0)
        throw std::runtime_error("cannot clone the disk: " + errnoText(errno));
}

std::unique_ptr<PowerCutDisk::Cut> PowerCutDisk::powerUp() {
    mustRun({"mount", "-o", "loop", base_ / "host/cut.img", base_ / "after"});
    return std::make_unique<Cut>(base_ / "after");
}

PowerCutDisk::Cut::~Cut() { unmount(root_); }

}  // namespace gradus::test
