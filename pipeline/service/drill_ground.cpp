#include "pipeline/service/drill_ground.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>

#include "policies/language/rule_files.h"
#include "stages/changes/tree_copy.h"
#include "stages/changes/tree_reader.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/hex.h"

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
bool isPlain(const RecordedPath& path) {
    return path.entry.type == EntryType::kFile && path.entry.size <= kLargestEdited && !isRulePath(path.path) &&
           !fs::path(path.path).filename().native().starts_with(".");
}

}  // namespace

void requireDrillable(const Stage& stage) {
    if (stage.driver == "worktree" || stage.driver == "release-directory") return;
    const std::string why = stage.driver == "sandbox"
                                ? "a sandbox stage writes nowhere, so there is nothing to take back"
                                : fmt::format(
                                      "only its own commands know what the driver '{}' changes, and a drill "
                                      "runs none of them",
                                      stage.driver);
    throw Error(ErrorCode::kNotAllowed, "{} cannot be drilled: {}", stage.name, why)
        .hint("stages with the drivers worktree and release-directory can");
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

ChangeSet madeUpChange(const fs::path& directory, Objects& objects) {
    RecordRequest request;
    request.isLeftOut = isGit;
    request.strange = [](const std::string&, const std::string&) {};
    std::vector<PathChange> changes;
    const DirectoryReader tree(directory);
    const std::string added = "added by a drill\n";
    if (!tree.at(std::string(kAdded)))
        changes.push_back(
            {std::string(kAdded), std::nullopt, Entry{EntryType::kFile, 0644, objects.put(added), added.size()}});
    for (const RecordedPath& path : recordTree(TreeRoot(directory), request).paths) {
        if (!isPlain(path)) continue;
        const auto before = tree.keep(path.path, objects);
        if (!before || changes.size() >= 3) break;
        std::optional<Entry> after;
        if (changes.size() == 1) {
            const std::string edited = objects.readAll(before->digest, kLargestEdited) + added;
            after = Entry{EntryType::kFile, before->mode, objects.put(edited), edited.size()};
        }
        changes.push_back({path.path, before, after});
    }
    return ChangeSet(std::move(changes));
}

}  // namespace gradus
