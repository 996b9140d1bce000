#include "pipeline/service/drill_ground.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>

#include "policies/language/rule_files.h"
#include "stages/changes/tree_copy.h"
#include "stages/changes/tree_reader.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/paths.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kSpareBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kLargestEdited = std::uint64_t{1} << 20;
constexpr std::string_view kAdded = "gradus-drill.txt";

/// "4711-a1b2c3" while process 4711 is alive.
bool isLeftBehind(const std::string& name) {
    int pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end == name.data() + name.size() || *end != '-' || pid <= 0) return false;
    return ::kill(pid, 0) != 0 && errno == ESRCH;
}

bool isGit(const std::string& path) { return fs::path(path).filename() == ".git"; }

void requireSpace(const fs::path& where, std::uint64_t bytes) {
    struct statvfs info {};
    if (::statvfs(where.c_str(), &info) != 0) return;
    const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
    // The copy, and what the driver makes beside it.
    if (free < 2 * bytes + kSpareBytes)
        throw Error(ErrorCode::kInfrastructure, "a copy of the target takes {} MiB twice, and {} has {} MiB left",
                    bytes >> 20, where.native(), free >> 20)
            .hint("make room there, or set GRADUS_HOME to a larger file system");
}

/// A copy of one tree, told in the report.
void copyInto(const fs::path& from, const fs::path& to, FileOperations& files, DrillReport& report) {
    RecordRequest request;
    request.isLeftOut = isGit;
    request.strange = [&](const std::string& path, const std::string& reason) {
        report.notes.push_back(fmt::format("'{}' is not copied: {}", path, reason));
    };
    const TreeRoot source(from);
    const TreeRecord record = recordTree(source, request);
    requireSpace(to.parent_path(), record.bytes());
    makeDirectories(to);
    copyTree(source, record, TreeRoot(to), files, Owners::kKeptIfCan);
    fs::permissions(to, fs::perms(source.own().permissions()));
    report.copiedPaths += record.paths.size();
    report.copiedBytes += record.bytes();
}

void setText(Settings& settings, const std::string& key, const std::string& text) {
    Value value;
    if (const Value* old = settings.find(key)) value = *old;
    value.text = text;
    settings.set(key, value);
}

DrillTarget copyWorkTree(const DrillOriginal& original, const DrillGround& ground, FileOperations& files,
                         DrillReport& report) {
    DrillTarget target{original.stage, ground.path() / "tree", ground.path() / "state", {}};
    copyInto(original.project, target.project, files, report);
    report.notes.emplace_back("the repository is not copied");
    if (target.stage.settings.flag("commit")) {
        target.stage.settings.erase("commit");
        report.notes.emplace_back("the commit is not rehearsed, only the files");
    }
    target.place.target = target.project;
    return target;
}

/// The places are there, what lies in them is not: it belongs to no release.
void standInForShared(const DrillOriginal& original, const fs::path& to, DrillReport& report) {
    const std::vector<std::string> shared = original.stage.settings.list("shared");
    for (const std::string& path : shared) {
        const fs::path from = original.target / "shared" / path;
        std::error_code ignored;
        const auto type = fs::symlink_status(from, ignored).type();
        if (type == fs::file_type::directory) makeDirectories(to / "shared" / path);
        if (type != fs::file_type::regular) continue;
        makeDirectories((to / "shared" / path).parent_path());
        openFile(to / "shared" / path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    }
    if (!shared.empty()) report.notes.emplace_back("what releases share is not copied");
}

void copyRecords(const fs::path& from, const fs::path& to) {
    makeDirectories(to);
    std::error_code ignored;
    if (!fs::is_directory(from, ignored)) return;
    for (const auto& entry : fs::directory_iterator(from))
        if (entry.is_regular_file()) fs::copy_file(entry.path(), to / entry.path().filename());
}

DrillTarget copyReleases(const DrillOriginal& original, const DrillGround& ground, FileOperations& files,
                         DrillReport& report) {
    DrillTarget target{original.stage, original.project, ground.path() / "state", {}};
    const fs::path root = ground.path() / "target";
    setText(target.stage.settings, "path", root.native());
    target.place.target = root;
    target.place.isLeftOut = [](const std::string& path) { return path.starts_with(".gradus-target"); };
    target.place.isRemade = [](const std::string& path) { return path == "current"; };
    if (!original.held) return target;
    const std::string id = original.held->directory.filename();
    makeDirectories(root / "releases");
    copyInto(original.held->directory, root / "releases" / id, files, report);
    fs::create_symlink("releases/" + id, root / "current");
    standInForShared(original, root, report);
    copyRecords(original.state / "releases", target.state / "releases");
    report.notes.emplace_back("of the releases, the one in use is copied");
    return target;
}

/// Nothing that rules or git read: those ask for more than a drill is about.
bool isPlain(const Manifest::Item& path) {
    return path.entry.type == EntryType::kFile && path.entry.size <= kLargestEdited && !isRulePath(path.path) &&
           !fs::path(path.path).filename().native().starts_with(".");
}

Manifest treeIn(const fs::path& directory) {
    RecordRequest request;
    request.isLeftOut = isGit;
    request.strange = [](const std::string&, const std::string&) {};
    return recordTree(TreeRoot(directory), request).manifest();
}

bool touches(const ChangeSet& changes, const std::string& path) {
    return std::ranges::any_of(changes.changes(), [&](const PathChange& change) {
        return isAtOrBelow(change.path, path) || isAtOrBelow(path, change.path);
    });
}

/// Why the stages of a driver are not drilled, and what to do instead.
struct Undrilled {
    std::string_view driver;
    std::string_view why;
    std::string_view instead;
};

constexpr std::array kUndrilled{
    Undrilled{"sandbox", "a sandbox stage writes nowhere, so there is nothing to take back",
              "stages with the drivers worktree and release-directory can"},
    Undrilled{"branch",
              "a drill compares files, and a branch has none: it is moved to a new commit, and back to the one before, "
              "which stays as it is",
              "`gradus plan CHANGE --to {}` says whether a change fits; to see one enter and leave, promote it into a "
              "stage whose `repository` is a clone, and roll it back"},
    Undrilled{"command", "only its own commands know what they change, and a drill runs none of them",
              "`gradus plan CHANGE --to {}` says whether a change fits; to see one enter and leave, promote it into a "
              "stage whose commands lead to a copy, and roll it back"},
};

/// Of a driver that copyTarget() knows nothing of.
constexpr Undrilled kUnknown{"", "what its driver changes cannot be copied",
                             "stages with the drivers worktree and release-directory can"};

}  // namespace

void requireDrillable(const Stage& stage) {
    if (stage.driver == "worktree" || stage.driver == "release-directory") return;
    const auto* const known = std::ranges::find(kUndrilled, stage.driver, &Undrilled::driver);
    const Undrilled& said = known == kUndrilled.end() ? kUnknown : *known;
    throw Error(ErrorCode::kNotAllowed, "{} cannot be drilled: {}", stage.name, said.why)
        .hint(fmt::format(fmt::runtime(said.instead), stage.name));
}

DrillGround::DrillGround(const fs::path& state, Random& random, FileOperations& files)
    : above_(state / "drills"), files_(files) {
    makeDirectories(above_);
    removeLeftovers();
    path_ = above_ / fmt::format("{}-{}", ::getpid(), toHex(random.bytes(4)));
    makeDirectories(path_);
}

DrillGround::~DrillGround() {
    try {
        const FileDescriptor above = openFile(above_, O_RDONLY | O_DIRECTORY);
        removeTree(above.get(), path_.filename(), files_);
    } catch (const Error&) {
        // The next drill finds it.
    }
}

void DrillGround::removeLeftovers() {
    const FileDescriptor above = openFile(above_, O_RDONLY | O_DIRECTORY);
    for (const std::string& name : namesBeneath(above.get(), SIZE_MAX))
        if (isLeftBehind(name)) removeTree(above.get(), name, files_);
}

DrillTarget copyTarget(const DrillOriginal& original, const DrillGround& ground, FileOperations& files,
                       DrillReport& report) {
    const auto began = std::chrono::steady_clock::now();
    DrillTarget target = original.stage.driver == "worktree" ? copyWorkTree(original, ground, files, report)
                                                             : copyReleases(original, ground, files, report);
    report.copyTime = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);
    return target;
}

ChangeSet madeUpChange(const fs::path& directory, const std::optional<Manifest>& source, Objects& objects) {
    std::vector<PathChange> changes;
    const DirectoryReader tree(directory);
    const std::string added = "added by a drill\n";
    if (!tree.at(std::string(kAdded)))
        changes.push_back(
            {std::string(kAdded), std::nullopt, Entry{EntryType::kFile, 0644, objects.put(added), added.size()}});
    const Manifest held = source ? *source : treeIn(directory);
    for (const Manifest::Item& item : held.items()) {
        if (!isPlain(item)) continue;
        const auto before = tree.keep(item.path, objects);
        if (!before || changes.size() >= 3) break;
        std::optional<Entry> after;
        if (changes.size() == 1) {
            const std::string edited = objects.readAll(before->digest, kLargestEdited) + added;
            after = Entry{EntryType::kFile, before->mode, objects.put(edited), edited.size()};
        }
        changes.push_back({item.path, before, after});
    }
    return ChangeSet(std::move(changes));
}

ChangeSet builtAgain(const HeldTree& held, const ChangeSet& changes, Objects& objects) {
    const DirectoryReader tree(held.directory);
    std::vector<PathChange> built;
    for (const std::string& path : held.outputs) {
        if (touches(changes, path)) return ChangeSet();
        if (auto entry = tree.keep(path, objects)) built.push_back({path, std::nullopt, entry});
    }
    return ChangeSet(std::move(built));
}

}  // namespace gradus
