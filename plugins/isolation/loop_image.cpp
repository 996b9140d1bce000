#include "plugins/isolation/loop_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "plugins/host/child_process.h"
#include "plugins/isolation/jail/image.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr Milliseconds kPatience{30'000};

fs::path makerProgram() {
    for (const char* candidate : {"/usr/sbin/mke2fs", "/sbin/mke2fs", "/usr/bin/mke2fs"})
        if (::access(candidate, X_OK) == 0) return candidate;
    throw Error(ErrorCode::kInfrastructure, "mke2fs, which makes the image that bounds a sandbox, is not installed")
        .hint("install it (Debian and Ubuntu: apt-get install e2fsprogs)");
}

// A name of its own, then renamed: a half made one is never taken for a whole one.
fs::path unfinished(const fs::path& file) {
    static std::atomic<std::uint64_t> count{0};
    return file.native() + fmt::format(".new.{}.{}", ::getpid(), ++count);
}

void put(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) == 0) return;
    const int error = errno;
    ::unlink(from.c_str());
    throw Error(ErrorCode::kInfrastructure, "cannot put {} in its place: {}", to.native(), errnoText(error));
}

// No journal: a sandbox need not survive a power cut, and it would take its share of a small limit.
void makeTemplate(const fs::path& file, std::uint64_t bytes) {
    const fs::path made = unfinished(file);
    {
        const FileDescriptor image = openFile(made, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (::ftruncate(image.get(), static_cast<off_t>(bytes)) != 0)
            throw Error(ErrorCode::kInfrastructure, "cannot size {}: {}", made.native(), errnoText(errno));
    }
    ChildProcess maker(
        {makerProgram(),
         {"mke2fs", "-q", "-F", "-t", "ext4", "-b", std::to_string(kBlock), "-m", "0", "-i", "8192", "-O",
          "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard,root_owner=0:0", made.native()},
         {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
         {}});
    const auto status = maker.wait(kPatience);
    if (!status || *status != 0) {
        ::unlink(made.c_str());
        throw Error(ErrorCode::kInfrastructure, "mke2fs could not make an image of {} bytes", bytes)
            .hint("give a larger disk limit, or free space where the state directory lies");
    }
    put(made, file);
}

// Only what holds something: an empty file system of a gigabyte is some hundred kilobytes.
void copyData(int from, int to, off_t size, const fs::path& path) {
    const auto failed = [&] {
        throw Error(ErrorCode::kInfrastructure, "cannot write {}: {}", path.native(), errnoText(errno));
    };
    if (::ftruncate(to, size) != 0) failed();
    for (off_t at = 0; (at = ::lseek(from, at, SEEK_DATA)) >= 0 && at < size;) {
        const off_t end = ::lseek(from, at, SEEK_HOLE);
        loff_t source = at;
        loff_t target = at;
        while (source < end) {
            const ssize_t copied =
                ::copy_file_range(from, &source, to, &target, static_cast<std::size_t>(end - source), 0);
            if (copied <= 0) failed();
        }
        at = end;
    }
}

}  // namespace

void makeLoopImage(const fs::path& file, std::uint64_t bytes, const fs::path& templates) {
    bytes -= bytes % kBlock;
    const fs::path model = templates / fmt::format("ext4-{}", bytes);
    std::error_code error;
    if (!fs::is_regular_file(fs::symlink_status(model, error))) {
        makeDirectories(templates);
        makeTemplate(model, bytes);
    }
    const FileDescriptor source = openFile(model, O_RDONLY | O_NOFOLLOW);
    ::futimens(source.get(), nullptr);  // used now: it is worth keeping
    const fs::path made = unfinished(file);
    {
        const FileDescriptor target = openFile(made, O_RDWR | O_CREAT | O_EXCL, 0600);
        try {
            copyData(source.get(), target.get(), static_cast<off_t>(bytes), made);
        } catch (const Error&) {
            ::unlink(made.c_str());
            throw;
        }
    }
    put(made, file);
}

FileDescriptor openLoopImage(const fs::path& file, bool readOnly) {
    Descriptor mounted;
    if (const Attempt failed = mountImage(file.native(), readOnly, mounted))
        throw Error(ErrorCode::kInfrastructure, "{} cannot be mounted: {}: {} ({})", file.native(), failed->step,
                    failed->detail, errnoText(failed->error))
            .hint("loop devices are needed: modprobe loop; in a container, --privileged or --device /dev/loop-control");
    const int top = ::openat(mounted.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0) throw Error(ErrorCode::kInfrastructure, "{} cannot be read: {}", file.native(), errnoText(errno));
    return FileDescriptor(top);
}

}  // namespace gradus
