#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_set>

#include "pipeline/service/service.h"
#include "store/change_sets.h"
#include "store/file.h"
#include "store/model/change_set.h"
#include "store/model/checkpoint.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostCheckpoint = std::uint64_t{256} << 20;

/// What a row names, and what the change sets and checkpoints among those name in turn.
std::unordered_set<Digest> liveObjects(const Records& records, const Objects& objects) {
    std::unordered_set<Digest> live;
    for (const Digest& digest : records.referencedObjects()) live.insert(digest);
    for (const Digest& digest : records.changeSets()) {
        if (!objects.contains(digest)) continue;
        const ChangeSet changeSet = readChanges(objects, digest);
        for (const PathChange& change : changeSet.changes()) {
            if (change.before) live.insert(change.before->digest);
            if (change.after) live.insert(change.after->digest);
        }
    }
    for (const Digest& digest : records.outputs()) {
        if (!objects.contains(digest)) continue;
        const ChangeSet outputs = readChanges(objects, digest);
        for (const PathChange& built : outputs.changes()) live.insert(built.after->digest);
    }
    for (const Digest& digest : records.checkpoints()) {
        if (!objects.contains(digest)) continue;
        for (const Digest& needed : Checkpoint::decode(objects.readAll(digest, kMostCheckpoint)).objects)
            live.insert(needed);
    }
    return live;
}

// One that was not made to its end holds nothing, and a full disk may be why: opening it would go on making it.
bool isMade(const fs::path& objects) { return fs::exists(objects / "format"); }

std::uintmax_t sizeOf(const fs::path& path) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    return error ? 0 : size;
}

/// Absolute and without the slash a shell's completion leaves at the end.
fs::path plainPath(const fs::path& target) {
    if (target.empty()) throw Error(ErrorCode::kUsage, "the backup needs a name").hint("give a new directory");
    fs::path whole = fs::absolute(target).lexically_normal();
    return whole.has_filename() ? whole : whole.parent_path();
}

void refuseToReplace(const fs::path& target) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(target, error);
    if (fs::exists(status))
        throw Error(ErrorCode::kUsage, "{} is there already", target.native())
            .hint("give a new name; a backup replaces nothing");
    if (status.type() == fs::file_type::none)
        throw Error(ErrorCode::kInfrastructure, "cannot look at {}: {}", target.native(), error.message());
}

/// A copy in there would be mistaken for a part of the store, and go away with it.
void refuseInside(const fs::path& root, const fs::path& target) {
    std::error_code error;
    const fs::path parent = fs::canonical(target.parent_path(), error);
    if (error) return;  // there is none, which is said where it is needed
    const fs::path way = parent.lexically_relative(fs::canonical(root));
    if (!way.empty() && *way.begin() != "..")
        throw Error(ErrorCode::kUsage, "{} lies inside of {}, which it is to be a backup of", target.native(),
                    root.native())
            .hint("give a directory elsewhere, best on another disk");
}

/// Beside the target under a name that is nobody's; gone with this unless it was renamed.
class PartialCopy {
  public:
    explicit PartialCopy(const fs::path& target) {
        // Made up here, a missing parent would hide that the backup disk is not mounted.
        if (!fs::is_directory(target.parent_path()))
            throw Error(ErrorCode::kUsage, "there is no directory {} to put the backup in",
                        target.parent_path().native())
                .hint("make it, or mount it, first");
        std::string name = target.native() + ".part-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr)
            throw Error(ErrorCode::kInfrastructure, "cannot write the backup {}: {}", target.native(),
                        errnoText(errno));
        path_ = name;
    }
    ~PartialCopy() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    PartialCopy(const PartialCopy&) = delete;
    PartialCopy& operator=(const PartialCopy&) = delete;
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

}  // namespace

StoreReport Service::checkStore() {
    Store& store = existing();
    StoreReport report;
    report.problems = store.check();
    report.counts = store.records().counts();
    if (!isMade(state().objects())) return report;
    const Objects all = objects();
    report.objects = all.check();
    for (const Digest& digest : store.records().referencedObjects())
        if (!fs::exists(all.pathOf(digest)))
            report.problems.push_back(
                fmt::format("{}: missing, though something refers to it", all.pathOf(digest).native()));
    return report;
}

StatsReport Service::stats() {
    Store& store = existing();
    StatsReport report{state().root, store.records().counts(), store.sizes(), sizeOf(state().anchor()), 0, 0};
    std::error_code error;
    for (fs::recursive_directory_iterator it(state().objects(), error), end; !error && it != end; it.increment(error)) {
        if (it.depth() == 0 || !it->is_regular_file(error)) continue;  // on top is only the format file
        ++report.objects;
        report.objectBytes += it->file_size(error);
    }
    return report;
}

void Service::rebuild() {
    writingIfThere();
    Store& store = existing();
    const AuditVerdict verdict = gradus::verifyAudit(store.sql(), store.anchor());
    const bool trustworthy = verdict.kind == Tampering::kNone || verdict.kind == Tampering::kStateMismatch ||
                             verdict.kind == Tampering::kUnanchoredSince;
    if (!trustworthy)
        throw Error(ErrorCode::kNotAllowed,
                    "the audit log itself is not whole ({} at event {}): nothing is rebuilt from it",
                    nameOf(kTamperings, verdict.kind), verdict.seq)
            .hint("run `gradus audit verify`, then restore the latest backup");
    writing().rebuild();
}

SweepReport Service::sweep(Milliseconds grace) {
    if (writingIfThere() == nullptr || !isMade(state().objects())) return {};
    const Time now = around_.clock.now();
    Objects all = objects();
    const auto live = liveObjects(store_->records(), all);
    return all.sweep([&](const Digest& digest) { return live.contains(digest); }, now, grace);
}

void Service::backup(const fs::path& target) {
    Store& store = existing();
    const fs::path whole = plainPath(target);
    refuseToReplace(whole);
    refuseInside(state().root, whole);
    const PartialCopy partial(whole);
    const StateDirectory copy{partial.path()};
    try {
        // The database first: objects are never changed, so whatever it refers to is still there afterwards.
        store.backup(copy.database());
        store.copyAnchor(copy);
        if (fs::exists(state().objects())) fs::copy(state().objects(), copy.objects(), fs::copy_options::recursive);
        const FileDescriptor directory = openFile(copy.root, O_RDONLY | O_DIRECTORY);
        if (::syncfs(directory.get()) != 0)
            throw Error(ErrorCode::kInfrastructure, "cannot sync {}: {}", copy.root.native(), errnoText(errno));
        fs::rename(copy.root, whole);
    } catch (const fs::filesystem_error& e) {
        throw Error(ErrorCode::kInfrastructure, "cannot write the backup {}: {}", whole.native(), e.code().message());
    }
    syncDirectory(whole.parent_path());
}

}  // namespace gradus
