#include "stages/drivers/release_build.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "stages/changes/tree_copy.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNewShared = ".gradus-new";

void must(int error, std::string_view action, std::string_view path) {
    if (error != 0) throwFault(action, path, error);
}

Manifest changed(const TreeRecord& base, const std::vector<ChangeSet>& steps) {
    std::map<std::string, Entry> entries;
    for (const RecordedPath& path : base.paths) entries[path.path] = path.entry;
    for (const ChangeSet& changes : steps)
        for (const PathChange& change : changes.changes()) {
            if (change.after)
                entries[change.path] = *change.after;
            else
                entries.erase(change.path);
        }
    std::vector<Manifest::Item> items;
    items.reserve(entries.size());
    for (auto& [path, entry] : entries) items.push_back({path, entry});
    return Manifest(std::move(items));
}

std::vector<std::string> pathsOf(const ChangeSet& changes) {
    std::vector<std::string> paths;
    for (const PathChange& change : changes.changes()) paths.push_back(change.path);
    return paths;
}

}  // namespace

ReleaseBuilder::ReleaseBuilder(const DriverContext& context, const ReleaseLayout& layout, ReleaseShelf& shelf)
    : context_(context), layout_(layout), shelf_(shelf), root_(layout.root()) {}

ReleaseHead ReleaseBuilder::build(const std::string& id, const ReleaseBase& base, const StageChange& change) {
    shelf_.begin(id);
    makeKnown(std::string(ReleaseLayout::kReleases));
    for (const std::string& path : layout_.shared()) makeShared(path, base);
    copyBase(id, base);
    const TreeRoot release(layout_.release(id));
    linkShared(release);
    const Written written = applyTo(layout_.release(id), base, change);
    const std::string record = recordKnown(release, written.manifest).encode();
    // One call for all of it, its shared paths and its own name: by the time the link is switched, a power cut finds
    // the new release whole.
    must(context_.files.syncFileSystem(release.descriptor()), "sync", release.path().native());
    context_.objects.put(record);
    return shelf_.finish(id, record, written.manifest.digest(), toMillis(context_.clock.now()), written.outputs);
}

void ReleaseBuilder::makeDirectory(const std::string& path) {
    const Place place = root_.place(path);
    if (!place) throwFault("reach", (layout_.root() / path).native(), ENOTDIR);
    must(context_.files.makeDirectory(place.at(), place.name), "create", (layout_.root() / path).native());
    Obstacle obstacle = Obstacle::kNone;
    const FileDescriptor made = root_.directory(path, O_RDONLY, obstacle);
    if (!made) throwFault("open", (layout_.root() / path).native(), EACCES);
    must(context_.files.setMode(made.get(), 0755), "set the mode of", (layout_.root() / path).native());
}

// Noted before it is made: whatever happens in between, it is known to be ours.
void ReleaseBuilder::note(const MadePath& made) {
    std::vector<MadePath> all = shelf_.made();
    if (std::ranges::find(all, made.path, &MadePath::path) != all.end()) return;
    all.push_back(made);
    shelf_.setMade(all);
}

void ReleaseBuilder::makeKnown(const std::string& path) {
    const Place place = root_.place(path);
    if (place && sight(place.at(), place.name).exists) return;
    note({path, std::nullopt});
    makeDirectory(path);
}

void ReleaseBuilder::makeShared(const std::string& path, const ReleaseBase& base) {
    const std::string here = std::string(ReleaseLayout::kShared) + "/" + path;
    const Place place = root_.place(here);
    if (place && sight(place.at(), place.name).exists) return;
    for (std::size_t slash = here.find('/'); slash != std::string::npos; slash = here.find('/', slash + 1))
        makeKnown(here.substr(0, slash));
    TreeRecord own;
    if (base.isSeed && !base.directory.empty()) own = recordBelow(TreeRoot(base.directory), path);
    if (own.paths.empty()) return makeKnown(here);
    note({here, digestBelow(own, path)});
    copyShared(path, own, base.directory);
}

// Whole or not at all: what is half copied has another name.
void ReleaseBuilder::copyShared(const std::string& path, const TreeRecord& record, const fs::path& from) {
    const fs::path shared = layout_.root() / ReleaseLayout::kShared;
    const FileDescriptor directory = openFile(shared, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    removeTree(directory.get(), kNewShared, context_.files);
    must(context_.files.makeDirectory(directory.get(), kNewShared), "create", kNewShared);
    const TreeRoot fresh(shared / kNewShared);
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        const Place parent = fresh.place(path.substr(0, slash));
        must(context_.files.makeDirectory(parent.at(), parent.name), "create", path);
    }
    copyTree(TreeRoot(from), record, fresh, context_.files, Owners::kKeptIfCan);
    const Place source = fresh.place(path);
    const Place target = TreeRoot(shared).place(path);
    must(context_.files.syncFileSystem(directory.get()), "sync", shared.native());
    must(context_.files.move(source.at(), source.name, target.at(), target.name, Move::kNoReplace), "name", path);
    removeTree(directory.get(), kNewShared, context_.files);
}

void ReleaseBuilder::linkShared(const TreeRoot& release) {
    for (const std::string& path : layout_.shared()) {
        for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
            const Place parent = release.place(path.substr(0, slash));
            if (!parent || sight(parent.at(), parent.name).exists) continue;
            must(context_.files.makeDirectory(parent.at(), parent.name), "create", path);
            const FileDescriptor made = openFile(release.path() / path.substr(0, slash), O_RDONLY | O_DIRECTORY);
            must(context_.files.setMode(made.get(), 0755), "set the mode of", path);
        }
        const Place place = release.place(path);
        if (!place) throwFault("reach", (release.path() / path).native(), ENOTDIR);
        must(context_.files.makeLink(place.at(), place.name, ReleaseLayout::linkToShared(path)), "link", path);
    }
}

void ReleaseBuilder::copyBase(const std::string& id, const ReleaseBase& base) {
    makeDirectory(ReleaseLayout::linkTo(id));
    if (base.directory.empty()) return;
    const TreeRoot from(base.directory);
    const TreeRoot to(layout_.release(id));
    copyTree(from, base.record, to, context_.files, base.isSeed ? Owners::kKeptIfCan : Owners::kKept);
    const Sighting& root = from.own();
    if (to.own().user != root.user || to.own().group != root.group) {
        const int error = context_.files.setOwner(to.descriptor(), root.user, root.group);
        if (error != EPERM) must(error, "keep the owner of", to.path().native());
    }
    must(context_.files.setMode(to.descriptor(), root.permissions() & 0777), "set the mode of", to.path().native());
}

// First the tree, then what was built of it: a path of both was refused before.
ReleaseBuilder::Written ReleaseBuilder::applyTo(const fs::path& release, const ReleaseBase& base,
                                                const StageChange& change) {
    const ChangeSet changes = write(release, change.changes, change.granted);
    const ChangeSet outputs = write(release, change.outputs, pathsOf(change.outputs));
    return {changed(base.record, {changes, outputs}), pathsOf(outputs)};
}

ChangeSet ReleaseBuilder::write(const fs::path& release, const ChangeSet& changes,
                                const std::vector<std::string>& granted) {
    if (changes.empty()) return {};
    const fs::path journals = context_.state / "journals";
    TreeWriter writer(release, journals, context_.objects, context_.files, context_.random);
    const Plan plan = writer.plan(changes, {granted});
    const JournalRef journal = writer.seal(plan);
    const ApplyReport report = writer.apply(journal);
    if (!report.applied)
        throw Error(ErrorCode::kNotAllowed, "somebody writes in {}, which nobody should know yet: {}", release.native(),
                    report.conflicts.empty() ? "" : describe(report.conflicts.front()))
            .hint("find out who, then try again");
    // Nobody will undo it: a release that is not wanted goes as a whole.
    JournalDirectory(journals, context_.files).remove(journal);
    return plan.changes;
}

}  // namespace gradus
