#include <fcntl.h>
#include <unistd.h>

#include <unordered_set>

#include "pipeline/service/service.h"
#include "store/file.h"
#include "store/model/change_set.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostChangeSet = std::uint64_t{256} << 20;

/// What a row names, and what the change sets among those name in turn.
std::unordered_set<Digest> liveObjects(const Records& records, const Objects& objects) {
    std::unordered_set<Digest> live;
    for (const Digest& digest : records.referencedObjects()) live.insert(digest);
    for (const Digest& digest : records.changeSets()) {
        if (!objects.contains(digest)) continue;
        const ChangeSet changeSet = ChangeSet::decode(objects.readAll(digest, kMostChangeSet));
        for (const PathChange& change : changeSet.changes()) {
            if (change.before) live.insert(change.before->digest);
            if (change.after) live.insert(change.after->digest);
        }
    }
    return live;
}

std::uintmax_t sizeOf(const fs::path& path) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    return error ? 0 : size;
}

}  // namespace

StoreReport Service::checkStore() {
    Store& store = existing();
    StoreReport report;
    report.problems = store.check();
    report.counts = store.records().counts();
    if (!fs::exists(state().objects())) return report;
    const Objects all = objects();
    report.objects = all.check();
    for (const Digest& digest : store.records().referencedObjects())
        if (!all.contains(digest))
            report.problems.push_back(fmt::format("the object {} is referred to and missing", digest.brief()));
    return report;
}

StatsReport Service::stats() {
    Store& store = existing();
    StatsReport report{state().root, store.records().counts(), store.sizes(), sizeOf(state().anchor()), 0, 0};
    std::error_code error;
    for (fs::recursive_directory_iterator it(state().objects(), error), end; !error && it != end; it.increment(error)) {
        // Objects lie one folder deep; beside those folders is only the mark of the format.
        if (it.depth() == 0 || !it->is_regular_file(error)) continue;
        ++report.objects;
        report.objectBytes += it->file_size(error);
    }
    return report;
}

void Service::rebuild() {
    existing();
    writing().rebuild();
}

SweepReport Service::sweep(Milliseconds grace) {
    if (reading() == nullptr || !fs::exists(state().objects())) return {};
    const Time now = around_.clock.now();
    Objects all = objects();
    const auto live = liveObjects(store_->records(), all);
    return all.sweep([&](const Digest& digest) { return live.contains(digest); }, now, grace);
}

void Service::backup(const fs::path& target) {
    Store& store = existing();
    if (fs::exists(fs::symlink_status(target)))
        throw Error(ErrorCode::kUsage, "{} is there already", target.native())
            .hint("give a new name; a backup replaces nothing");
    StateDirectory copy{fs::absolute(target)};
    copy.root += ".part";
    std::error_code ignored;
    fs::remove_all(copy.root, ignored);
    try {
        makeDirectories(copy.root);
        // The database first: objects are never changed, so whatever it refers to is still there afterwards.
        store.backup(copy.database());
        store.copyAnchor(copy);
        if (fs::exists(state().objects())) fs::copy(state().objects(), copy.objects(), fs::copy_options::recursive);
        const FileDescriptor directory = openFile(copy.root, O_RDONLY | O_DIRECTORY);
        if (::syncfs(directory.get()) != 0)
            throw Error(ErrorCode::kInfrastructure, "cannot sync {}", copy.root.native());
        fs::rename(copy.root, target);
        syncDirectory(fs::absolute(target).parent_path());
    } catch (const fs::filesystem_error& e) {
        fs::remove_all(copy.root, ignored);
        throw Error(ErrorCode::kInfrastructure, "cannot write the backup {}: {}", target.native(), e.code().message());
    } catch (...) {
        fs::remove_all(copy.root, ignored);
        throw;
    }
}

}  // namespace gradus
