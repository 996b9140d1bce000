#include "stages/sandbox/clone_tree_writer.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

bool isGitName(std::string_view part) {
    return part.size() == 4 && part[0] == '.' && std::tolower(part[1]) == 'g' && std::tolower(part[2]) == 'i' &&
           std::tolower(part[3]) == 't';
}

bool isFit(std::string_view path) {
    if (path.empty() || path.front() == '/' || path.back() == '/') return false;
    for (std::size_t start = 0; start <= path.size();) {
        const std::size_t end = std::min(path.find('/', start), path.size());
        const std::string_view part = path.substr(start, end - start);
        if (part.empty() || part == "." || part == ".." || isGitName(part)) return false;
        start = end + 1;
    }
    return true;
}

[[noreturn]] void fail(const std::string& path, int error) {
    throw Error(ErrorCode::kInfrastructure, "cannot write '{}' of the commit: {}", path, errnoText(error));
}

}  // namespace

TreeFiles::TreeFiles(const fs::path& root, std::optional<uid_t> owner, gid_t group)
    : root_(root), owner_(owner), group_(group) {
    if (::mkdir(root.c_str(), 0755) != 0) fail(root.native(), errno);
    if (::chmod(root.c_str(), 0755) != 0) fail(root.native(), errno);
    if (owner_ && ::chown(root.c_str(), *owner_, group_) != 0) fail(root.native(), errno);
    top_ = openFile(root, O_RDONLY | O_DIRECTORY);
}

FileDescriptor TreeFiles::parentOf(const std::string& path, std::string& name) const {
    if (!isFit(path))
        throw Error(ErrorCode::kDamaged, "the commit holds a path that no work tree may have: '{}'", path)
            .hint("'git fsck' says more about it");
    const std::size_t slash = path.rfind('/');
    name = slash == std::string::npos ? path : path.substr(slash + 1);
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash);
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    FileDescriptor directory(static_cast<int>(::syscall(SYS_openat2, top_.get(), parent.c_str(), &how, sizeof how)));
    if (!directory) fail(path, errno);
    return directory;
}

void TreeFiles::own(int directory, const std::string& name) const {
    if (owner_ && ::fchownat(directory, name.c_str(), *owner_, group_, AT_SYMLINK_NOFOLLOW) != 0) fail(name, errno);
}

void TreeFiles::directory(const std::string& path) {
    std::string name;
    const FileDescriptor parent = parentOf(path, name);
    if (::mkdirat(parent.get(), name.c_str(), 0755) != 0) fail(path, errno);
    if (::fchmodat(parent.get(), name.c_str(), 0755, 0) != 0) fail(path, errno);
    own(parent.get(), name);
}

void TreeFiles::submodule(const std::string& path) {
    directory(path);
    notes_.push_back("the submodule " + path + " is empty: its files are in another repository");
}

void TreeFiles::link(const std::string& path, const std::string& text) {
    std::string name;
    const FileDescriptor parent = parentOf(path, name);
    if (::symlinkat(text.c_str(), parent.get(), name.c_str()) != 0) fail(path, errno);
    own(parent.get(), name);
}

void TreeFiles::beginFile(const std::string& path, bool executable) {
    std::string name;
    const FileDescriptor parent = parentOf(path, name);
    file_ = FileDescriptor(
        ::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_) fail(path, errno);
    fileName_ = path;
    executable_ = executable;
    isStart_ = true;
}

void TreeFiles::write(std::string_view bytes) {
    if (isStart_ && bytes.starts_with("version https://git-lfs.github.com/spec/") && ++lfsFiles_ == 1)
        notes_.push_back(fileName_ + " and perhaps others are kept by git LFS: the commit holds only their names");
    isStart_ = false;
    writeAll(file_.get(), bytes, root_ / fileName_);
}

void TreeFiles::endFile() {
    if (owner_ && ::fchown(file_.get(), *owner_, group_) != 0) fail(fileName_, errno);
    if (::fchmod(file_.get(), executable_ ? 0755 : 0644) != 0) fail(fileName_, errno);
    file_ = FileDescriptor();
}

}  // namespace gradus
