#include "stages/changes/file_operations.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>

#include "stages/changes/tree_writer_beneath.h"

namespace gradus {

namespace {

/// fchmodat2 is newer than this C library; its number is the same on every architecture.
constexpr long kFchmodat2 = 452;
constexpr std::size_t kSyncsPerThread = 4;
constexpr std::size_t kMostSyncThreads = 7;

template <typename Call>
int errnoOf(const Call& call) {
    while (true) {
        if (call() >= 0) return 0;
        if (errno != EINTR) return errno;
    }
}

std::string throughProc(int file) { return "/proc/self/fd/" + std::to_string(file); }

}  // namespace

std::optional<FileOperations::SyncFault> FileOperations::syncAll(const std::vector<int>& files) {
    for (std::size_t i = 0; i < files.size(); ++i)
        if (const int error = sync(files[i])) return SyncFault{i, error};
    return std::nullopt;
}

int RealFileOperations::createFile(int directory, const std::string& name, FileDescriptor& made) {
    int fd = -1;
    const int error = errnoOf([&] {
        fd = ::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fd;
    });
    if (error == 0) made = FileDescriptor(fd);
    return error;
}

int RealFileOperations::write(int file, std::string_view bytes, std::uint64_t offset, std::size_t& written) {
    ssize_t put = 0;
    const int error = errnoOf([&] {
        put = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        return put;
    });
    written = error == 0 ? static_cast<std::size_t>(put) : 0;
    return error;
}

int RealFileOperations::resize(int file, std::uint64_t size) {
    return errnoOf([&] { return ::ftruncate(file, static_cast<off_t>(size)); });
}

int RealFileOperations::shareContent(int file, int source) {
    return errnoOf([&] { return ::ioctl(file, FICLONE, source); });
}

int RealFileOperations::makeDirectory(int directory, const std::string& name) {
    return errnoOf([&] { return ::mkdirat(directory, name.c_str(), 0700); });
}

int RealFileOperations::makeLink(int directory, const std::string& name, const std::string& text) {
    return errnoOf([&] { return ::symlinkat(text.c_str(), directory, name.c_str()); });
}

int RealFileOperations::move(int fromDirectory, const std::string& from, int toDirectory, const std::string& to,
                             Move how) {
    const unsigned flags = how == Move::kExchange ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    return errnoOf([&] { return ::renameat2(fromDirectory, from.c_str(), toDirectory, to.c_str(), flags); });
}

int RealFileOperations::removeFile(int directory, const std::string& name) {
    return errnoOf([&] { return ::unlinkat(directory, name.c_str(), 0); });
}

int RealFileOperations::removeDirectory(int directory, const std::string& name) {
    return errnoOf([&] { return ::unlinkat(directory, name.c_str(), AT_REMOVEDIR); });
}

// Never by name: chmod follows links, and there is no older call that does not.
int RealFileOperations::setMode(int file, mode_t mode) {
    const int error = errnoOf([&] { return ::syscall(kFchmodat2, file, "", mode, AT_EMPTY_PATH); });
    if (error != ENOSYS && error != EPERM) return error;
    return errnoOf([&] { return ::chmod(throughProc(file).c_str(), mode); });
}

int RealFileOperations::setOwner(int file, uid_t user, gid_t group) {
    return errnoOf([&] { return ::fchownat(file, "", user, group, AT_EMPTY_PATH); });
}

int RealFileOperations::setModified(int file, const timespec& time) {
    const timespec times[2] = {{0, UTIME_OMIT}, time};
    return errnoOf([&] { return ::utimensat(file, "", times, AT_EMPTY_PATH); });
}

int RealFileOperations::setAttribute(int file, const std::string& name, std::string_view value) {
    return errnoOf([&] { return ::fsetxattr(file, name.c_str(), value.data(), value.size(), 0); });
}

int RealFileOperations::sync(int file) {
    return errnoOf([&] { return ::fsync(file); });
}

// The disk takes several at once in little more than the time of one; a few are not worth a thread.
std::optional<FileOperations::SyncFault> RealFileOperations::syncAll(const std::vector<int>& files) {
    const std::size_t others = std::min(files.size() / kSyncsPerThread, kMostSyncThreads);
    if (others == 0) return FileOperations::syncAll(files);
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::optional<SyncFault> fault;
    const auto work = [&] {
        for (std::size_t i = next++; i < files.size(); i = next++) {
            const int error = sync(files[i]);
            if (error == 0) continue;
            const std::lock_guard lock(mutex);
            if (!fault || i < fault->file) fault = SyncFault{i, error};
        }
    };
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < others; ++i) threads.emplace_back(work);
        work();
    }
    return fault;
}

int RealFileOperations::syncFileSystem(int anyFile) {
    return errnoOf([&] { return ::syncfs(anyFile); });
}

int RealFileOperations::delegate(std::string_view, const std::function<int()>& act) { return act(); }

int writeFully(FileOperations& files, int file, std::string_view bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        std::size_t written = 0;
        if (const int error = files.write(file, bytes, offset, written)) return error;
        // A file system that takes nothing and does not say why would keep us here for ever.
        if (written == 0) return EIO;
        bytes.remove_prefix(written);
        offset += written;
    }
    return 0;
}

namespace {

void must(int error, std::string_view action, std::string_view path) {
    if (error != 0) throwFault(action, path, error);
}

int dropIfThere(FileOperations& files, int directory, const std::string& name) {
    const int error = files.removeFile(directory, name);
    return error == ENOENT ? 0 : error;
}

}  // namespace

FileDescriptor putFile(FileOperations& files, int directory, const std::string& name, std::string_view bytes,
                       mode_t mode, const std::function<void(int)>& beforeNaming) {
    const std::string part = name + ".part";
    FileDescriptor file;
    int error = files.createFile(directory, part, file);
    if (error == EEXIST && (error = dropIfThere(files, directory, part)) == 0)
        error = files.createFile(directory, part, file);
    must(error, "create", part);
    must(writeFully(files, file.get(), bytes, 0), "write", part);
    if (mode != 0600) must(files.setMode(file.get(), mode), "set the mode of", part);
    must(files.sync(file.get()), "sync", part);
    if (beforeNaming) beforeNaming(file.get());
    error = files.move(directory, part, directory, name, Move::kNoReplace);
    if (error == EEXIST) {
        must(files.move(directory, part, directory, name, Move::kExchange), "replace", name);
        error = dropIfThere(files, directory, part);
    }
    must(error, "name", name);
    must(files.sync(directory), "sync the directory of", name);
    return file;
}

}  // namespace gradus
