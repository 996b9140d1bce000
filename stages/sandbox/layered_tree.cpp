#include "stages/sandbox/layered_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "stages/sandbox/layer_entries.h"
#include "stages/sandbox/layer_tree.h"
#include "store/model/error.h"
#include "store/model/utf8.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestName = 255;
constexpr const char* kNew = "new";  // in the work directory, until it is whole

bool look(int directory, const std::string& name, struct stat& info) {
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    failEntry("look at", name);
}

FileDescriptor openDirectory(int parent, const std::string& name) {
    FileDescriptor directory(
        ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!directory) failEntry("open", name);
    return directory;
}

FileDescriptor same(int directory) {
    FileDescriptor copy(::fcntl(directory, F_DUPFD_CLOEXEC, 3));
    if (!copy) failEntry("open", ".");
    return copy;
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : "/") + name;
    return text;
}

void own(int directory, const char* name, const FileOwner& owner) {
    if (!isMachineRoot()) return;
    if (::fchownat(directory, name, owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW) != 0) failEntry("own", name);
}

}  // namespace

std::vector<std::string> namesOf(const fs::path& inside) {
    std::vector<std::string> names;
    bool isWrong = inside.is_absolute() || inside.native().find('\0') != std::string::npos;
    for (const fs::path& part : inside) {
        if (part.empty() || part == ".") continue;
        isWrong |= part == ".." || part.native().size() > kLongestName;
        names.push_back(part.native());
    }
    if (isWrong || names.empty())
        throw Error(ErrorCode::kUsage, "'{}' is no path below the project", printable(inside.native()))
            .hint("write it relative to the project, without '..'");
    return names;
}

LayeredTree::LayeredTree(std::vector<FileDescriptor> layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) root_.push_back({i, std::move(layers[i])});
}

std::optional<LayeredTree::Entry> LayeredTree::step(const Directory& directory, const std::string& name) {
    std::optional<Entry> found;
    for (const Piece& piece : directory) {
        struct stat info {};
        if (!look(piece.directory.get(), name, info)) continue;
        const bool isDirectory = S_ISDIR(info.st_mode);
        if (isWhiteout(info) || (found && !isDirectory)) break;
        if (!found) {
            found.emplace();
            found->layer = piece.layer;
            found->info = info;
            found->name = name;
            found->parent = same(piece.directory.get());
        }
        if (!isDirectory) break;
        found->directory.push_back({piece.layer, openDirectory(piece.directory.get(), name)});
        if (isOpaque(found->directory.back().directory.get())) break;
    }
    return found;
}

std::optional<LayeredTree::Entry> LayeredTree::find(const std::vector<std::string>& names) const {
    std::optional<Entry> entry;
    for (const std::string& name : names) {
        if (entry && !entry->isDirectory()) return std::nullopt;
        entry = step(entry ? entry->directory : root_, name);
        if (!entry) return std::nullopt;
    }
    return entry;
}

std::vector<std::string> LayeredTree::names(const Directory& directory) {
    std::set<std::string> all;
    for (const Piece& piece : directory)
        for (std::string& name : namesIn(piece.directory.get())) all.insert(std::move(name));
    std::vector<std::string> shown;
    for (const std::string& name : all)
        if (step(directory, name)) shown.push_back(name);
    return shown;
}

// Where the name was deleted in this layer, what lies below must not come back with the directory.
FileDescriptor LayerWriter::openIn(int top, const LayeredTree::Directory* shown, const std::string& name,
                                   std::optional<LayeredTree::Entry>& entry) const {
    entry = shown != nullptr ? LayeredTree::step(*shown, name) : std::nullopt;
    if (entry && !entry->isDirectory())
        throw Error(ErrorCode::kNotAllowed, "'{}' is {} there, not a directory", printable(name),
                    fileTypeName(entry->info.st_mode))
            .hint("name another path; links are not followed");
    struct stat info {};
    const bool isThere = look(top, name, info);
    if (isThere && S_ISDIR(info.st_mode)) return openDirectory(top, name);
    const bool wasDeleted = isThere && isWhiteout(info);
    if (wasDeleted && ::unlinkat(top, name.c_str(), 0) != 0) failEntry("lift the deletion of", name);
    if (::mkdirat(top, name.c_str(), 0755) != 0) failEntry("make", name);
    FileDescriptor made = openDirectory(top, name);
    if (entry)
        copyLook(entry->directory.front().directory.get(), made.get(), Marks::kLeave);
    else
        own(top, name.c_str(), owner_);
    if (wasDeleted) setOpaque(made.get());
    return made;
}

FileDescriptor LayerWriter::open(const std::vector<std::string>& names) const {
    FileDescriptor at = same(top_.get());
    const LayeredTree::Directory* shown = &tree_.root();
    std::optional<LayeredTree::Entry> held;
    for (const std::string& name : names) {
        std::optional<LayeredTree::Entry> entry;
        at = openIn(at.get(), shown, name, entry);
        held = std::move(entry);
        shown = held ? &held->directory : nullptr;
    }
    return at;
}

void LayerWriter::place(const std::vector<std::string>& names) const {
    if (const auto there = tree_.find(names); there && there->isDirectory())
        throw Error(ErrorCode::kNotAllowed, "'{}' is a directory there", printable(joined(names)))
            .hint("name another path");
    const FileDescriptor parent = open({names.begin(), names.end() - 1});
    own(work_.get(), kNew, owner_);
    if (::renameat(work_.get(), kNew, parent.get(), names.back().c_str()) == 0) return;
    const int error = errno;
    ::unlinkat(work_.get(), kNew, 0);
    errno = error;
    failEntry("put", joined(names));
}

namespace {

FileDescriptor makeNew(int work) {
    ::unlinkat(work, kNew, 0);
    FileDescriptor made(::openat(work, kNew, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made) failEntry("make", kNew);
    return made;
}

}  // namespace

void LayerWriter::file(const std::vector<std::string>& names, int source, const struct stat& like) const {
    {
        const FileDescriptor made = makeNew(work_.get());
        copyContent(source, made.get(), joined(names));
        const timespec times[2] = {like.st_atim, like.st_mtim};
        if (::fchmod(made.get(), like.st_mode & 0777) != 0 || ::futimens(made.get(), times) != 0)
            failEntry("write", joined(names));
    }
    place(names);
}

void LayerWriter::bytes(const std::vector<std::string>& names, std::string_view content, mode_t mode) const {
    {
        const FileDescriptor made = makeNew(work_.get());
        writeAll(made.get(), content, joined(names));
        if (::fchmod(made.get(), mode & 0777) != 0) failEntry("write", joined(names));
    }
    place(names);
}

void LayerWriter::link(const std::vector<std::string>& names, const std::string& target) const {
    ::unlinkat(work_.get(), kNew, 0);
    if (::symlinkat(target.c_str(), work_.get(), kNew) != 0) failEntry("make", joined(names));
    place(names);
}

void copyShown(const LayeredTree::Entry& entry, const std::vector<std::string>& inside, const LayerWriter& writer) {
    constexpr std::size_t kDeepestCopy = 200;
    if (inside.size() > kDeepestCopy)
        throw Error(ErrorCode::kNotAllowed, "directories nest deeper than {} levels", kDeepestCopy);
    if (entry.isDirectory()) {
        static_cast<void>(writer.open(inside));
        for (const std::string& name : LayeredTree::names(entry.directory)) {
            std::vector<std::string> below = inside;
            below.push_back(name);
            if (const auto found = LayeredTree::step(entry.directory, name)) copyShown(*found, below, writer);
        }
    } else if (S_ISREG(entry.info.st_mode)) {
        const FileDescriptor file(::openat(entry.parent.get(), entry.name.c_str(),
                                           O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        if (!file) failEntry("open", entry.name);
        writer.file(inside, file.get(), entry.info);
    } else if (S_ISLNK(entry.info.st_mode)) {
        char target[4097];
        const ssize_t length = ::readlinkat(entry.parent.get(), entry.name.c_str(), target, sizeof target - 1);
        if (length < 0) failEntry("read link", entry.name);
        writer.link(inside, {target, static_cast<std::size_t>(length)});
    }
}

std::uint64_t copyContent(int source, int target, const std::string& name) {
    std::uint64_t total = 0;
    char buffer[65536];
    while (true) {
        const ssize_t got = ::read(source, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) failEntry("read", name);
        if (got == 0) return total;
        writeAll(target, {buffer, static_cast<std::size_t>(got)}, name);
        total += static_cast<std::uint64_t>(got);
    }
}

}  // namespace gradus
