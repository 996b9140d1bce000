#include "stages/changes/tree_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kChunk = std::size_t{128} * 1024;
constexpr std::size_t kLongestLink = 4096;

void must(int error, std::string_view action, std::string_view path) {
    if (error != 0) throwFault(action, path, error);
}

bool cannotShare(int error) {
    return error == EOPNOTSUPP || error == EXDEV || error == EINVAL || error == ENOTTY || error == ENOSYS ||
           error == EPERM;
}

/// Only the system may set these, and a copy without them is what anybody else could make.
bool isSystemsOwn(std::string_view attribute) {
    return attribute.starts_with("security.") || attribute.starts_with("trusted.");
}

bool isAllZero(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

class Copier {
  public:
    Copier(const TreeRoot& from, const TreeRoot& to, FileOperations& files, Owners owners)
        : from_(from), to_(to), files_(files), owners_(owners) {}

    void run(const TreeRecord& record) {
        for (const RecordedPath& path : record.paths) make(path);
        // From the inside out: a directory may not let us in any more, and its time moves with every name in it.
        for (auto path = record.paths.rbegin(); path != record.paths.rend(); ++path)
            if (path->entry.type == EntryType::kDirectory) finishDirectory(*path);
    }

  private:
    void make(const RecordedPath& path) {
        const Place source = placeIn(from_, path.path);
        const Place target = placeIn(to_, path.path);
        if (path.entry.type == EntryType::kDirectory)
            must(files_.makeDirectory(target.at(), target.name), "create", path.path);
        else if (path.entry.type == EntryType::kSymlink)
            makeLink(path, source, target);
        else
            makeFile(path, source, target);
    }

    static Place placeIn(const TreeRoot& root, const std::string& path) {
        Place place = root.place(path);
        if (!place)
            throw Error(ErrorCode::kNotAllowed, "'{}' in {} cannot be reached any more", printable(path),
                        root.path().native())
                .hint("something else writes in this directory; stop it, then try again");
        return place;
    }

    [[noreturn]] void throwChanged(const std::string& path) const {
        throw Error(ErrorCode::kNotAllowed, "'{}' in {} was changed while it was copied", printable(path),
                    from_.path().native())
            .hint("something else writes in this directory; stop it, then try again");
    }

    void makeLink(const RecordedPath& path, const Place& source, const Place& target) {
        std::array<char, kLongestLink> text{};
        const ssize_t length = ::readlinkat(source.at(), source.name.c_str(), text.data(), text.size());
        const std::string_view seen(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
        if (length <= 0 || sha256(seen) != path.entry.digest) throwChanged(path.path);
        must(files_.makeLink(target.at(), target.name, std::string(seen)), "create", path.path);
        const FileDescriptor made(::openat(target.at(), target.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!made) throwFault("open", path.path, errno);
        keepOwner(made.get(), path);
        must(files_.setModified(made.get(), path.modified), "set the time of", path.path);
    }

    void makeFile(const RecordedPath& path, const Place& source, const Place& target) {
        const FileDescriptor original(
            ::openat(source.at(), source.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        if (!original && isMoved(errno)) throwChanged(path.path);
        if (!original) throwFault("open", path.path, errno);
        const Sighting before = sight(original.get());
        if (!couldBe(before, path.entry)) throwChanged(path.path);
        FileDescriptor made;
        must(files_.createFile(target.at(), target.name, made), "create", path.path);
        fill(path, original.get(), made.get(), before);
        dress(path, original.get(), made.get());
    }

    void fill(const RecordedPath& path, int original, int made, const Sighting& before) {
        if (path.entry.size == 0) return;
        const int error = canShare_ ? files_.shareContent(made, original) : EOPNOTSUPP;
        if (error != 0 && !cannotShare(error)) throwFault("copy", path.path, error);
        if (error != 0) {
            canShare_ = false;
            return write(path, original, made);
        }
        // What was not read is what was recorded only if nobody touched it before and while it was shared.
        const bool isKnown = before.inode == path.inode && before.changed.tv_sec == path.changed.tv_sec &&
                             before.changed.tv_nsec == path.changed.tv_nsec;
        if (!sight(original).isSameAs(before) || !(isKnown || hasContent(made, path))) throwChanged(path.path);
    }

    static bool hasContent(int made, const RecordedPath& path) {
        std::vector<char> buffer(kChunk);
        Hasher hasher;
        for (std::uint64_t total = 0; total < path.entry.size;) {
            const ssize_t got = ::pread(made, buffer.data(), buffer.size(), static_cast<off_t>(total));
            if (got <= 0) return false;
            hasher.update({buffer.data(), static_cast<std::size_t>(got)});
            total += static_cast<std::uint64_t>(got);
        }
        return hasher.finish() == path.entry.digest;
    }

    // Stretches of nothing are left out, so that a sparse file stays one.
    void write(const RecordedPath& path, int original, int made) {
        std::uint64_t total = 0;
        Hasher hasher;
        while (total <= path.entry.size) {
            const ssize_t got = ::read(original, buffer_.data(), buffer_.size());
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) throwFault("read", path.path, errno);
            if (got == 0) break;
            const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(got));
            hasher.update(bytes);
            if (!isAllZero(bytes)) must(writeFully(files_, made, bytes, total), "write", path.path);
            total += bytes.size();
        }
        if (total != path.entry.size || hasher.finish() != path.entry.digest) throwChanged(path.path);
        if (sight(made).size != total) must(files_.resize(made, total), "write", path.path);
    }

    // Owner first: the kernel takes rights away from a file that changes hands. The time last: everything else moves
    // it.
    void dress(const RecordedPath& path, int original, int made) {
        keepOwner(made, path);
        for (const Attribute& attribute : attributesOf(original)) {
            const int error = files_.setAttribute(made, attribute.name, attribute.value);
            if (error != 0 && !isSystemsOwn(attribute.name)) throwFault("keep the attributes of", path.path, error);
        }
        must(files_.setMode(made, path.entry.mode), "set the mode of", path.path);
        must(files_.setModified(made, path.modified), "set the time of", path.path);
    }

    void keepOwner(int made, const RecordedPath& path) {
        const Sighting now = sight(made);
        if (now.user == path.user && now.group == path.group) return;
        const int error = files_.setOwner(made, path.user, path.group);
        if (error == EPERM && owners_ == Owners::kKeptIfCan) return;
        if (error == EPERM)
            throw Error(ErrorCode::kNotAllowed, "'{}' in {} belongs to user {} and group {}, which only root can keep",
                        printable(path.path), from_.path().native(), path.user, path.group)
                .hint("promote as that user or as root, or give the files to the one who promotes");
        must(error, "keep the owner of", path.path);
    }

    void finishDirectory(const RecordedPath& path) {
        Obstacle obstacle = Obstacle::kNone;
        const FileDescriptor original = from_.directory(path.path, O_RDONLY, obstacle);
        if (!original) throwChanged(path.path);
        const FileDescriptor made = to_.directory(path.path, O_RDONLY, obstacle);
        if (!made) throwFault("open", path.path, EACCES);
        dress(path, original.get(), made.get());
    }

    const TreeRoot& from_;
    const TreeRoot& to_;
    FileOperations& files_;
    Owners owners_;
    bool canShare_ = true;
    std::vector<char> buffer_ = std::vector<char>(kChunk);
};

void removeInside(int directory, const std::string& name, FileOperations& files) {
    const FileDescriptor node(::openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!node) throwFault("open", name, errno);
    if ((sight(node.get()).permissions() & 0700) != 0700) must(files.setMode(node.get(), 0700), "open up", name);
    const FileDescriptor inner(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inner) throwFault("open", name, errno);
    for (const std::string& inside : namesBeneath(inner.get(), SIZE_MAX)) removeTree(inner.get(), inside, files);
}

}  // namespace

void copyTree(const TreeRoot& from, const TreeRecord& record, const TreeRoot& to, FileOperations& files,
              Owners owners) {
    Copier(from, to, files, owners).run(record);
}

void removeTree(int directory, const std::string& name, FileOperations& files) {
    const Sighting seen = sight(directory, name);
    if (!seen.exists) return;
    if (seen.isMountPoint)
        throw Error(ErrorCode::kNotAllowed, "'{}' cannot be removed: something is mounted there", printable(name))
            .hint("unmount it, then try again");
    if (!seen.isDirectory()) return must(files.removeFile(directory, name), "remove", name);
    removeInside(directory, name, files);
    must(files.removeDirectory(directory, name), "remove", name);
}

}  // namespace gradus
