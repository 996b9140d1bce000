// Files in and out of kept sandboxes, from outside: nothing runs, and what a command left there is never trusted.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "stages/changes/link_rule.h"
#include "stages/sandbox/clone_view.h"
#include "stages/sandbox/layer_entries.h"
#include "stages/sandbox/layered_tree.h"
#include "stages/sandbox/sandboxes_inside.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

constexpr std::size_t kDeepestCopy = 200;  // a descriptor per level and layer

Names with(Names names, const std::string& name) {
    names.push_back(name);
    return names;
}

fs::path pathOf(const Names& names) {
    fs::path path;
    for (const std::string& name : names) path /= name;
    return path;
}

std::string linkTarget(int directory, const std::string& name) {
    char text[4097];
    const ssize_t length = ::readlinkat(directory, name.c_str(), text, sizeof text - 1);
    if (length < 0) failEntry("read link", name);
    return {text, static_cast<std::size_t>(length)};
}

FileDescriptor openRegular(int directory, const std::string& name, struct stat& info) {
    FileDescriptor file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) failEntry("open", name);
    if (::fstat(file.get(), &info) != 0) failEntry("look at", name);
    if (!S_ISREG(info.st_mode))
        throw Error(ErrorCode::kUsage, "'{}' is {}, not a file", printable(name), fileTypeName(info.st_mode));
    return file;
}

bool isCopied(mode_t mode) { return S_ISREG(mode) || S_ISLNK(mode) || S_ISDIR(mode); }

[[noreturn]] void refuseType(const fs::path& path, mode_t mode) {
    throw Error(ErrorCode::kUsage, "{} is {}: only files, links and directories are copied", printable(path.native()),
                fileTypeName(mode))
        .hint("nothing was copied; name what lies beside it, or take it away first");
}

void refuseDepth(const Names& names) {
    if (names.size() > kDeepestCopy)
        throw Error(ErrorCode::kNotAllowed, "directories nest deeper than {} levels", kDeepestCopy);
}

/// What is to be brought in, looked at before anything is written.
class Inspection {
  public:
    explicit Inspection(const fs::path& state) { isThere_ = ::stat(state.c_str(), &state_) == 0; }

    void entry(int directory, const std::string& name, const fs::path& path, std::size_t depth = 0) const {
        struct stat info {};
        if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) refuseUnreadable(path);
        if (!isCopied(info.st_mode)) refuseType(path, info.st_mode);
        if (!S_ISDIR(info.st_mode)) return;
        if (isThere_ && info.st_dev == state_.st_dev && info.st_ino == state_.st_ino)
            throw Error(ErrorCode::kNotAllowed, "{} is where Gradus keeps its state, all sandboxes among it",
                        printable(path.native()))
                .hint("nothing was copied; name what lies beside it");
        if (depth > kDeepestCopy) return;  // refused when it is copied
        const FileDescriptor open(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!open) refuseUnreadable(path);
        for (const std::string& below : namesIn(open.get())) entry(open.get(), below, path / below, depth + 1);
    }

  private:
    [[noreturn]] static void refuseUnreadable(const fs::path& path) {
        const bool isMissing = errno == ENOENT || errno == ENOTDIR;
        throw Error(isMissing ? ErrorCode::kNotFound : ErrorCode::kNotAllowed, "cannot read {}: {}",
                    printable(path.native()), errnoText(errno))
            .hint("nothing was copied");
    }

    struct stat state_ {};
    bool isThere_ = false;
};

/// From the host into the topmost layer.
class Bringing {
  public:
    Bringing(const LayerWriter& writer, CopyReport& report) : writer_(writer), report_(report) {}

    void entry(int directory, const std::string& name, const Names& inside) {
        refuseDepth(inside);
        struct stat info {};
        if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) failEntry("look at", name);
        if (S_ISDIR(info.st_mode)) return tree(directory, name, inside);
        if (S_ISLNK(info.st_mode)) {
            writer_.link(inside, linkTarget(directory, name));
        } else if (S_ISREG(info.st_mode)) {
            const FileDescriptor file = openRegular(directory, name, info);
            writer_.file(inside, file.get(), info);
            report_.bytes += static_cast<std::uint64_t>(info.st_size);
        } else {
            refuseType(pathOf(inside), info.st_mode);  // it became that meanwhile
        }
        ++report_.files;
    }

  private:
    void tree(int directory, const std::string& name, const Names& inside) {
        static_cast<void>(writer_.open(inside));
        const FileDescriptor source(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!source) failEntry("open", name);
        for (const std::string& below : namesIn(source.get())) entry(source.get(), below, with(inside, below));
    }

    const LayerWriter& writer_;
    CopyReport& report_;
};

/// From what the layers show to the host.
class Taking {
  public:
    Taking(Names top, const std::function<bool(const Names&)>& isHidden, CopyReport& report)
        : top_(std::move(top)), isHidden_(isHidden), report_(report) {}

    /// Before anything is written.
    void inspect(const LayeredTree::Entry& entry, const Names& inside) const {
        if (isHidden_(inside)) return;
        if (!isCopied(entry.info.st_mode)) refuseType(pathOf(inside), entry.info.st_mode);
        if (!entry.isDirectory() || inside.size() > kDeepestCopy) return;
        for (const std::string& below : LayeredTree::names(entry.directory))
            if (const auto found = LayeredTree::step(entry.directory, below)) inspect(*found, with(inside, below));
    }

    void entry(const LayeredTree::Entry& entry, const Names& inside, int directory, const std::string& name) {
        refuseDepth(inside);
        if (isHidden_(inside)) return leaveOut(inside, "the sandbox shows something else there");
        if (entry.isDirectory()) return tree(entry, inside, directory, name);
        if (S_ISLNK(entry.info.st_mode)) return link(entry, inside, directory, name);
        file(entry, directory, name);
        ++report_.files;
    }

    /// Whole, or not there; `replace`: in the place of another file.
    void file(const LayeredTree::Entry& entry, int directory, const std::string& name, bool replace = false) {
        struct stat info {};
        const FileDescriptor source = openRegular(entry.parent.get(), entry.name, info);
        const std::string fresh = fmt::format(".{}.{}.gradus", name.substr(0, 200), ::getpid());
        {
            const FileDescriptor made(::openat(
                directory, fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, info.st_mode & 0777));
            if (!made) failEntry("make", fresh);
            report_.bytes += copyContent(source.get(), made.get(), name);
            const timespec times[2] = {info.st_atim, info.st_mtim};
            ::futimens(made.get(), times);
        }
        const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
        if (::renameat2(directory, fresh.c_str(), directory, name.c_str(), flags) == 0) return;
        const int error = errno;
        ::unlinkat(directory, fresh.c_str(), 0);
        errno = error;
        failEntry("put", name);
    }

  private:
    void leaveOut(const Names& inside, const std::string& why) {
        report_.leftOut.push_back(fmt::format("{}: {}", printable(pathOf(inside).native()), why));
    }

    void tree(const LayeredTree::Entry& entry, const Names& inside, int directory, const std::string& name) {
        if (::mkdirat(directory, name.c_str(), (entry.info.st_mode & 0777) | 0700) != 0) failEntry("make", name);
        const FileDescriptor made(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!made) failEntry("open", name);
        for (const std::string& below : LayeredTree::names(entry.directory))
            if (const auto found = LayeredTree::step(entry.directory, below))
                this->entry(*found, with(inside, below), made.get(), below);
    }

    void link(const LayeredTree::Entry& entry, const Names& inside, int directory, const std::string& name) {
        const std::string target = linkTarget(entry.parent.get(), entry.name);
        const Names below(inside.begin() + static_cast<std::ptrdiff_t>(top_.size()), inside.end());
        if (!staysInside(pathOf(below).native(), target))
            return leaveOut(inside, "a link that could lead out of what is copied");
        if (::symlinkat(target.c_str(), directory, name.c_str()) != 0) failEntry("make", name);
        ++report_.files;
    }

    Names top_;
    const std::function<bool(const Names&)>& isHidden_;
    CopyReport& report_;
};

/// Places of the project where a sandbox shows something else than its layers have.
class Covered {
  public:
    Covered(const ClonePlan& plan, const fs::path& project) {
        for (const std::string& place : plan.notOurs)
            if (place != ".git") add(place);
        const auto below = [&](const fs::path& target) {
            if (target != project && isWithin(target, project)) add(target.lexically_relative(project));
        };
        for (std::size_t i = 0; i < plan.workspace.overlays.size(); ++i)
            if (i != plan.projectOverlay) below(plan.workspace.overlays[i].target);
        for (const ReadOnlyBind& bind : plan.workspace.binds) below(bind.target);
        for (const PrivateDirectory& directory : plan.workspace.directories) below(directory.target);
        for (const PrivateFile& file : plan.workspace.files) below(file.target);
        for (const fs::path& hidden : plan.workspace.hidden) below(hidden);
    }
    bool holds(const Names& names) const {
        const fs::path path = pathOf(names);
        return std::any_of(places_.begin(), places_.end(),
                           [&](const fs::path& place) { return isWithin(path, place); });
    }

  private:
    void add(fs::path place) { places_.push_back(std::move(place)); }
    std::vector<fs::path> places_;
};

void refuseCovered(const Covered& covered, const Names& names) {
    if (covered.holds(names))
        throw Error(ErrorCode::kNotAllowed, "the sandbox shows something else at '{}' than its files",
                    printable(pathOf(names).native()))
            .hint("it is hidden by the rules, or lies on another file system");
}

/// A directory out here that the caller named.
FileDescriptor openHosts(const fs::path& directory) {
    FileDescriptor open(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (open) return open;
    const bool isMissing = errno == ENOENT || errno == ENOTDIR;
    throw Error(isMissing ? ErrorCode::kNotFound : ErrorCode::kNotAllowed, "cannot open the directory {}: {}",
                printable(directory.native()), errnoText(errno))
        .hint("nothing was copied");
}

LayeredTree::Entry demanded(const LayeredTree& tree, const Names& names, std::int64_t sandbox) {
    auto entry = tree.find(names);
    if (!entry)
        throw Error(ErrorCode::kNotFound, "there is no '{}' in sandbox s{}", printable(pathOf(names).native()), sandbox)
            .hint("paths are relative to the project");
    return std::move(*entry);
}

void refuseOwnState(const fs::path& path, const fs::path& state, const std::string& instead) {
    if (!isWithin(fs::weakly_canonical(path.parent_path()) / path.filename(), fs::weakly_canonical(state))) return;
    throw Error(ErrorCode::kNotAllowed, "{} is part of Gradus's own state", printable(path.native())).hint(instead);
}

}  // namespace

/// A held sandbox, opened for files.
struct Sandboxes::Inside::Files {
    HeldSandbox held;
    OpenTree open;
    Covered covered;
    FileOwner owner;
};

// The own layer is opened once: an image is written through one mount, or read through any number.
Sandboxes::Inside::OpenTree Sandboxes::Inside::openTree(const std::vector<LayerRecord>& chain, const fs::path& base,
                                                        Layers::Access access) {
    OpenLayer own = layers().open(chain.front().id, access);
    std::vector<FileDescriptor> stack;
    stack.push_back(own.upper());
    for (std::size_t i = 1; i < chain.size(); ++i) stack.push_back(layers().openUpper(chain[i].id));
    stack.push_back(openFile(base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    return {std::move(own), LayeredTree(std::move(stack))};
}

Sandboxes::Inside::Files Sandboxes::Inside::files(std::int64_t sandbox, const CommandRequest& request,
                                                  Layers::Access access, const Patience& patience) {
    HeldSandbox held = hold(sandbox, patience);
    if (access == Layers::Access::kWrite) {
        Limits limits;
        useStandingLimit(held, limits);
        boundLayers(held, request, limits);
    }
    CommandRequest atTheTop = request;
    atTheTop.directory.clear();
    const ClonePlan plan = planClone(cloneRequest(held.project.path, atTheTop));
    OpenTree open = treeOf(held, access);
    Covered covered(plan, held.project.path);
    return {std::move(held), std::move(open), std::move(covered), {plan.identity.uid, plan.identity.gid}};
}

// A directory that is there takes what is put at its path.
std::vector<std::string> Sandboxes::Inside::placeFor(const Files& files, const fs::path& inside,
                                                     const std::string& name) {
    Names names = inside == "." || inside == "./" ? Names() : namesOf(inside);
    const bool asDirectory = names.empty() || inside.native().ends_with('/');
    const auto there = files.open.tree.find(names);
    if (!name.empty() && (asDirectory || (there && there->isDirectory()))) names.push_back(name);
    if (const auto taken = files.open.tree.find(names);
        names.empty() || (taken && taken->isDirectory() && name.empty()))
        throw Error(ErrorCode::kNotAllowed, "'{}' is a directory", printable(inside.native()))
            .hint("name the file, too");
    refuseCovered(files.covered, names);
    return names;
}

// What was left half written says whether there was room for it.
Error Sandboxes::Inside::explained(const Error& error, const Files& files) {
    struct statvfs disk {};
    // The file system keeps some blocks for its own.
    constexpr std::uint64_t kNoRoom = std::uint64_t{256} << 10;
    const bool isFull =
        ::fstatvfs(files.open.own.get(), &disk) == 0 && (disk.f_bavail * disk.f_frsize < kNoRoom || disk.f_favail == 0);
    const std::int64_t sandbox = files.held.record.id;
    if (!isFull || !layers().imageOf(files.held.record.layer)) return error;
    return Error(error.code(), "{}: {} has no more room within its disk limit", error.what(), sandboxHandle(sandbox))
        .hint(fmt::format("give it more: gradus sandbox exec {} --disk SIZE -- true", sandboxHandle(sandbox)));
}

void Sandboxes::Inside::writeFiles(const Files& files, const std::function<void(const LayerWriter&)>& work) {
    files.open.own.renewWork();
    // From now on a missing layer is a loss, not a creation that was cut short.
    write([&](SandboxWriter& writer, Writer&) { writer.touch(files.held.record.id); });
    try {
        work(LayerWriter(files.open.tree, files.open.own.upper(), files.open.own.work(), files.owner));
    } catch (const Error& error) {
        const Error told = explained(error, files);
        files.open.own.renewWork();
        throw told;
    }
    files.open.own.renewWork();
}

CopyReport Sandboxes::put(std::int64_t sandbox, const fs::path& source, const fs::path& inside,
                          const CommandRequest& request, const Patience& patience) {
    const fs::path whole = fs::absolute(source).lexically_normal();
    const fs::path from = whole.has_filename() ? whole : whole.parent_path();
    const std::string name = from.filename();
    if (name.empty()) throw Error(ErrorCode::kNotAllowed, "the whole file system is not copied");
    const FileDescriptor parent = openHosts(from.parent_path());
    const fs::path& state = inside_->around.state.root;
    refuseOwnState(from, state, "files of a sandbox are copied with `gradus sandbox get`");
    Inspection(state).entry(parent.get(), name, from);
    const Inside::Files files = inside_->files(sandbox, request, Layers::Access::kWrite, patience);
    const Names names = inside_->placeFor(files, inside, name);
    CopyReport report;
    inside_->writeFiles(files,
                        [&](const LayerWriter& writer) { Bringing(writer, report).entry(parent.get(), name, names); });
    return report;
}

CopyReport Sandboxes::putBytes(std::int64_t sandbox, std::string_view bytes, const fs::path& inside,
                               const CommandRequest& request, const Patience& patience) {
    const Inside::Files files = inside_->files(sandbox, request, Layers::Access::kWrite, patience);
    const Names names = inside_->placeFor(files, inside, "");
    const auto there = files.open.tree.find(names);
    const mode_t mode = there && S_ISREG(there->info.st_mode) ? there->info.st_mode : 0644;
    inside_->writeFiles(files, [&](const LayerWriter& writer) { writer.bytes(names, bytes, mode); });
    return {1, bytes.size(), {}};
}

CopyReport Sandboxes::get(std::int64_t sandbox, const fs::path& inside, const fs::path& target, bool replace,
                          const CommandRequest& request, const Patience& patience) {
    const Inside::Files files = inside_->files(sandbox, request, Layers::Access::kRead, patience);
    const Names names = namesOf(inside);
    refuseCovered(files.covered, names);
    const LayeredTree::Entry entry = demanded(files.open.tree, names, sandbox);
    fs::path to = fs::absolute(target).lexically_normal();
    if (fs::is_directory(fs::symlink_status(to))) to = to / names.back();
    if (!to.has_filename()) to = to.parent_path();
    refuseOwnState(to, inside_->around.state.root, "name another place");
    const FileDescriptor parent = openHosts(to.parent_path());
    struct stat info {};
    const bool isThere = ::fstatat(parent.get(), to.filename().c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    const bool isFile = S_ISREG(entry.info.st_mode);
    if (isThere && !(replace && isFile && S_ISREG(info.st_mode)))
        throw Error(ErrorCode::kNotAllowed, "{} is there already, {}", printable(to.native()),
                    fileTypeName(info.st_mode))
            .hint(isFile && S_ISREG(info.st_mode) ? "name another place, or replace it with --force"
                                                  : "name another place: only a file takes a file's place");
    CopyReport report;
    const std::function<bool(const Names&)> isHidden = [&](const Names& path) { return files.covered.holds(path); };
    Taking taking(names, isHidden, report);
    taking.inspect(entry, names);
    if (!isFile || !isThere) {
        taking.entry(entry, names, parent.get(), to.filename());
    } else {
        taking.file(entry, parent.get(), to.filename(), true);
        report.files = 1;
    }
    return report;
}

CopyReport Sandboxes::getBytes(std::int64_t sandbox, const fs::path& inside,
                               const std::function<void(std::string_view)>& take, const CommandRequest& request,
                               const Patience& patience) {
    const Inside::Files files = inside_->files(sandbox, request, Layers::Access::kRead, patience);
    const Names names = namesOf(inside);
    refuseCovered(files.covered, names);
    const LayeredTree::Entry entry = demanded(files.open.tree, names, sandbox);
    struct stat info {};
    const FileDescriptor file = openRegular(entry.parent.get(), entry.name, info);
    CopyReport report{1, 0, {}};
    char buffer[65536];
    for (ssize_t got = 0; (got = ::read(file.get(), buffer, sizeof buffer)) > 0;) {
        take({buffer, static_cast<std::size_t>(got)});
        report.bytes += static_cast<std::uint64_t>(got);
    }
    return report;
}

FilePlace Sandboxes::where(std::int64_t sandbox, const fs::path& inside, const CommandRequest& request) {
    const SandboxRecord record = inside_->living(sandbox);
    ProjectIdentity project;
    const auto chain = inside_->read([&](const Records& records) {
        project = records.project(record.project).value_or(ProjectIdentity());
        return records.sandboxes().chain(record.layer);
    });
    CommandRequest atTheTop = request;
    atTheTop.directory.clear();
    const Names names = namesOf(inside);
    if (Covered(planClone(inside_->cloneRequest(project.path, atTheTop)), project.path).holds(names))
        return {FilePlace::Where::kHidden, {}, {}};
    const Inside::Ground ground = inside_->groundOf(record, project, chain);
    const auto entry = inside_->openTree(chain, ground.base, Layers::Access::kBeside).tree.find(names);
    if (!entry) return {};
    const std::string type(fileTypeName(entry->info.st_mode));
    if (entry->directory.size() > 1) return {FilePlace::Where::kMerged, {}, type};
    if (entry->layer == chain.size())
        return {ground.stands ? FilePlace::Where::kFrozen : FilePlace::Where::kBase, ground.base / pathOf(names), type};
    const std::int64_t layer = chain[entry->layer].id;
    if (inside_->layers().imageOf(layer)) return {FilePlace::Where::kImage, {}, type};
    return {entry->layer == 0 ? FilePlace::Where::kOwn : FilePlace::Where::kFrozen,
            inside_->layers().upper(layer) / pathOf(names), type};
}

}  // namespace gradus
