#include "stages/changes/harvester.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "store/model/error.h"
#include "store/model/utf8.h"
#include "store/privilege.h"

namespace gradus {

namespace {

/// Stands for the base among the layers: below all of them.
constexpr std::size_t kBaseLayer = std::numeric_limits<std::size_t>::max();
/// A name may be in every layer, and is one entry.
constexpr std::size_t kLayersSpan = 40;

std::string join(const std::string& directory, std::string_view name) {
    std::string path;
    path.reserve(directory.size() + 1 + name.size());
    path += directory;
    if (!directory.empty()) path += '/';
    path += name;
    return path;
}

bool isAbove(const DirectoryItem& a, const DirectoryItem& b) {
    const int order = a.name.compare(b.name);
    return order != 0 ? order < 0 : a.layer < b.layer;
}

}  // namespace

Harvester::Harvester(const HarvestSource& source, const HarvestOptions& options)
    : source_(source),
      options_(options),
      marks_(source.marks.value_or(isMachineRoot() ? MarkSpace::kTrusted : MarkSpace::kUser)),
      base_(source.base, source.since, source.pinned),
      contents_({options.maxBytes, options.maxHoles, options.maxExtents}, [this] { goOn(); }),
      ignored_(source.repository.empty() ? source.base : source.repository, source.excludesFile),
      notOurs_(source.notOurs.begin(), source.notOurs.end()) {}

Harvester::Place Harvester::topmost() const {
    Place top;
    for (std::size_t i = 0; i < source_.layers.size(); ++i) top.layers.push_back(i);
    top.base = base_.probe(base_.root(), ".", true);
    return top;
}

Harvest Harvester::run() {
    Place top = topmost();
    top.scope = ignored_.outermost();
    visitAll(std::move(top));
    return finish();
}

std::uint64_t Harvester::countRepository() {
    Place top = topmost();
    top.inRepository = true;
    visitAll(std::move(top));
    return result_.inRepository;
}

void Harvester::visitAll(Place top) {
    waiting_.push_back(std::move(top));
    while (!waiting_.empty()) {
        goOn();
        Place place = std::move(waiting_.back());
        waiting_.pop_back();
        visit(place);
    }
}

void Harvester::visit(Place& place) {
    Visit visit{.place = place, .scope = place.scope};
    visit.firstDraft = drafts_.size();
    if (!openLayers(visit)) return;
    if (ignoresItself(visit)) {
        place.ignored = Ignored::kWholly;
        place.bySelf = true;
    }
    if (!judgeDirectory(visit) || !openBase(visit)) return;
    visit.firstDraft = drafts_.size();
    visit.firstChild = waiting_.size();
    std::vector<DirectoryItem> items = listNames(visit);
    std::sort(items.begin(), items.end(), isAbove);
    if (place.ignored != Ignored::kWholly) readRules(visit);
    judgeNames(visit, items);
    settleAbsent(visit);
}

// False when the directory cannot be told of.
bool Harvester::openLayers(Visit& visit) {
    visit.shines = visit.place.shines;
    for (const std::size_t number : visit.place.layers) {
        FileDescriptor layer = openBeneath(source_.layers[number], visit.place.path, false);
        struct stat info {};
        if (!layer || ::fstat(layer.get(), &info) != 0) {
            if ((errno == EACCES || errno == ENAMETOOLONG) && !visit.place.path.empty()) {
                refuse(visit.place.path, "the directory cannot be read: " + errnoText(errno));
                return false;
            }
            throw Error(ErrorCode::kInfrastructure, "cannot open '{}' of a sandbox's layer: {}",
                        printable(visit.place.path), errnoText(errno));
        }
        const OverlayMarks marks = readMarks(layer.get(), marks_);
        reportForged(visit.place.path, marks);
        if (marks.unbelievable) {
            refuse(visit.place.path, "it has the attribute " + *marks.unbelievable + ", which no sandbox writes");
            return false;
        }
        if (visit.layers.empty()) visit.top = info;
        visit.layers.push_back(std::move(layer));
        visit.numbers.push_back(number);
        visit.origin = marks.origin;
        if (!marks.opaque) continue;
        visit.shines = false;
        break;
    }
    return true;
}

bool Harvester::openBase(Visit& visit) {
    const Place& place = visit.place;
    visit.absentKnown = place.base.known || isNew(visit);
    visit.trusted = place.trusted;
    if (!place.base.isDirectory()) return true;
    FileDescriptor base = openBeneath(base_.root(), place.path, true);
    if (!base && (errno == EACCES || errno == EXDEV)) {
        refuse(place.path, errno == EXDEV ? "another file system is mounted there in the base"
                                          : "the base's directory cannot be read: " + errnoText(errno));
        return false;
    }
    struct stat info {};
    const bool same = base && ::fstat(base.get(), &info) == 0 && info.st_ino == place.base.info.st_ino &&
                      info.st_dev == place.base.info.st_dev;
    visit.absentKnown = false;
    visit.trusted = same && (place.path.empty() || isTheSame(visit, base.get(), info));
    if (same) visit.base = std::move(base);
    return true;
}

// A name leads to another directory only after a stamp on the directory above, and on the one that was moved there.
// Where others have come and gone in both, overlayfs may have noted which one was copied up.
bool Harvester::isTheSame(const Visit& visit, int directory, const struct stat& info) const {
    const Place& place = visit.place;
    return place.trusted && (place.unmoved || base_.isOld(info) || isOrigin(visit.origin, directory));
}

// Made inside: the base has nothing there, and no layer's directory is a copy of one that it had.
bool Harvester::isNew(const Visit& visit) {
    return !visit.place.base.present && !visit.layers.empty() && visit.origin.empty();
}

// The change of the directory itself. False when nothing in it can be told of either.
bool Harvester::judgeDirectory(const Visit& visit) {
    const Place& place = visit.place;
    if (place.path.empty() || place.judged || (place.ignored == Ignored::kWholly && !options_.withIgnored)) return true;
    std::optional<Entry> after;
    if (!visit.layers.empty()) after = Entry{EntryType::kDirectory, visit.top.st_mode & 0777, {}, 0};
    std::optional<Entry> before = place.before;
    if (place.base.isDirectory()) {
        // Others who add or remove a file there stamp the directory too: that alone does not change it.
        if (after && (place.base.info.st_mode & 07777) == (visit.top.st_mode & 07777)) return true;
        if (place.base.known) before = Entry{EntryType::kDirectory, place.base.info.st_mode & 0777, {}, 0};
    }
    BaseEntry base = place.base;
    base.known = base.known || isNew(visit);
    const bool told = record(place.path, base, before, after, visit.top.st_mode);
    if (!told && !after) keepInPlace(Subject{.path = place.path, .base = place.base}, false);
    return told || place.base.isDirectory();
}

std::vector<DirectoryItem> Harvester::listNames(const Visit& visit) {
    std::vector<DirectoryItem> items;
    const auto list = [&](int directory, std::size_t layer) {
        const int error = listDirectory(directory, layer, items, [&] {
            goOn();
            // Before each is looked at: their names alone fill the memory.
            if (items.size() > kLayersSpan * options_.maxEntries) tooMany();
        });
        if (error != 0)
            throw Error(ErrorCode::kInfrastructure, "cannot list '{}': {}", printable(visit.place.path),
                        errnoText(error));
    };
    for (std::size_t i = 0; i < visit.layers.size(); ++i) list(visit.layers[i].get(), i);
    if (!visit.shines && visit.base) list(visit.base.get(), kBaseLayer);
    return items;
}

// The base's: whoever makes the change must not hide a part of it from those who look.
void Harvester::readRules(Visit& visit) {
    if (visit.scope == IgnoredPaths::kNone || !visit.base) return;
    if (const auto rules = readPlainFile(visit.base.get(), ".gitignore", IgnoredPaths::kRulesCap))
        visit.scope = ignored_.within(visit.scope, visit.place.path, *rules);
}

// A directory that a tool made for itself, with a ".gitignore" that ignores everything in it: .pytest_cache and the
// like. One that the base has is not the change's to hide.
bool Harvester::ignoresItself(const Visit& visit) {
    const Place& place = visit.place;
    if (visit.scope == IgnoredPaths::kNone || place.base.present || place.path.empty() || place.inRepository ||
        place.ignored == Ignored::kWholly || visit.layers.empty())
        return false;
    for (const FileDescriptor& layer : visit.layers) {
        struct stat info {};
        if (::fstatat(layer.get(), ".gitignore", &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        const auto text = readPlainFile(layer.get(), ".gitignore", IgnoredPaths::kRulesCap);
        if (!text) return false;
        const IgnoreRules rules(*text);
        const auto excludes = [&](std::string_view name) { return rules.judge(name, false).value_or(false); };
        return excludes(".gitignore") && excludes("any-other-name") && !ignored_.hasTrackedBeneath(place.path);
    }
    return false;
}

void Harvester::judgeNames(Visit& visit, std::span<const DirectoryItem> items) {
    while (!items.empty()) {
        std::size_t same = 1;
        while (same < items.size() && items[same].name == items.front().name) ++same;
        const bool inBase = items[same - 1].layer == kBaseLayer;
        judgeName(visit, items.first(inBase ? same - 1 : same), items.front().name.c_str());
        items = items.subspan(same);
    }
}

void Harvester::settleAbsent(const Visit& visit) {
    bool known = visit.absentKnown;
    struct stat info {};
    // After the last name was looked up: whoever made or removed one before that has stamped the directory.
    if (visit.base) known = visit.trusted && ::fstat(visit.base.get(), &info) == 0 && base_.isOld(info);
    // Others who make a file there stamp the directory too. What is new inside and still not there outside is an
    // addition all the same: nobody's bytes are in its place, and whoever writes it looks again.
    for (std::size_t i = visit.firstDraft; i < drafts_.size(); ++i) {
        Draft& draft = drafts_[i];
        if (draft.wasAbsent) draft.change.beforeKnown = known || (draft.change.after && !draft.isCopy);
    }
    for (std::size_t i = visit.firstChild; i < waiting_.size(); ++i) {
        if (!waiting_[i].base.present) waiting_[i].base.known = known;
        waiting_[i].unmoved = known;
    }
    if (!known) return;
    // Gone here and known to have never been there: no change.
    const auto first = drafts_.begin() + static_cast<std::ptrdiff_t>(visit.firstDraft);
    drafts_.erase(
        std::remove_if(first, drafts_.end(), [](const Draft& draft) { return draft.wasAbsent && !draft.change.after; }),
        drafts_.end());
}

void Harvester::judgeName(Visit& visit, std::span<const DirectoryItem> items, const char* name) {
    Subject subject{.items = items, .name = name, .path = join(visit.place.path, name)};
    if (visit.place.inRepository)
        countRepositoryEntry();
    else
        countEntry(subject.path);
    if (visit.base) subject.base = base_.probe(visit.base.get(), name, visit.trusted);
    if (visit.place.inRepository) return countInRepository(visit, subject);
    if (isLeftAlone(subject)) {
        keepInPlace(subject, false);
        if (visit.place.ignored != Ignored::kWholly && !notOurs_.contains(subject.path))
            countInRepository(visit, subject);
        return;
    }
    const bool gone = isGone(visit, subject);
    const bool isDirectory = gone ? subject.base.isDirectory() : items.front().type == DT_DIR;
    subject.ignored = ignoredAt(visit, subject, isDirectory);
    if (countIgnored(visit, subject)) return;
    if (const auto fault = pathFault(subject.path)) {
        keepInPlace(subject, false);
        return refuse(subject.path, "the name cannot be part of a change: " + *fault);
    }
    judgeSubject(visit, subject);
}

bool Harvester::isLeftAlone(const Subject& subject) const {
    return std::string_view(subject.name) == ".git" || (!notOurs_.empty() && notOurs_.contains(subject.path));
}

// A whiteout, or a name that only the hidden base has.
bool Harvester::isGone(const Visit& visit, const Subject& subject) {
    if (subject.items.empty()) return true;
    if (subject.items.front().type != DT_CHR) return false;
    struct stat info {};
    return ::fstatat(layerOf(visit, subject), subject.name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(info.st_mode) &&
           info.st_rdev == 0;
}

int Harvester::layerOf(const Visit& visit, const Subject& subject) {
    return visit.layers[subject.items.front().layer].get();
}

Harvester::Ignored Harvester::ignoredAt(const Visit& visit, const Subject& subject, bool isDirectory) {
    if (visit.place.ignored == Ignored::kWholly) return Ignored::kWholly;
    if (visit.place.ignored == Ignored::kNo && !ignored_.isExcluded(visit.scope, subject.path, isDirectory))
        return Ignored::kNo;
    if (!isDirectory) return ignored_.isTracked(subject.path) ? Ignored::kNo : Ignored::kWholly;
    const bool wasTrackedFile = subject.base.present && !subject.base.isDirectory() && ignored_.isTracked(subject.path);
    return wasTrackedFile || ignored_.hasTrackedBeneath(subject.path) ? Ignored::kUnlessTracked : Ignored::kWholly;
}

// True when that was all there is to say.
bool Harvester::countIgnored(Visit& visit, const Subject& subject) {
    if (subject.ignored != Ignored::kWholly) return false;
    const bool gone = isGone(visit, subject);
    if (gone ? subject.base.present && !subject.base.isDirectory() : subject.items.front().type != DT_DIR)
        countIgnoredFile(visit);
    if (options_.withIgnored) return false;
    if (gone) keepInPlace(subject, true);
    if (!gone && subject.items.front().type == DT_DIR) {
        pushDirectory(visit, subject, std::nullopt);
    } else if (subject.base.isDirectory()) {
        pushGone(visit, subject, true);
    }
    return true;
}

void Harvester::countIgnoredFile(const Visit& visit) {
    ++result_.ignored;
    if (visit.place.bySelf) ++result_.ignoredBySelf;
}

void Harvester::pushDirectory(const Visit& visit, const Subject& subject, std::optional<Entry> before) {
    Place place{.path = subject.path, .base = subject.base, .before = before, .trusted = visit.trusted};
    place.shines = visit.shines;
    place.scope = visit.scope;
    place.ignored = subject.ignored;
    place.bySelf = visit.place.bySelf;
    for (const DirectoryItem& item : subject.items) {
        // Anything else in a lower layer hides what lies below it.
        if (item.type != DT_DIR) place.shines = false;
        if (item.type != DT_DIR) break;
        place.layers.push_back(visit.numbers[item.layer]);
    }
    waiting_.push_back(std::move(place));
}

void Harvester::pushGone(const Visit& visit, const Subject& subject, bool judged) {
    Place place{
        .path = subject.path, .base = subject.base, .trusted = visit.trusted, .shines = false, .judged = judged};
    place.scope = visit.scope;
    place.ignored = ignoredAt(visit, subject, true);
    waiting_.push_back(std::move(place));
}

void Harvester::refuse(std::string_view path, std::string reason) {
    result_.refused.push_back({path.empty() ? "." : printable(path), std::move(reason)});
}

void Harvester::reportForged(std::string_view path, const OverlayMarks& marks) {
    for (const std::string& name : marks.forged)
        refuse(path, "its attribute " + printable(name) + " imitates an overlay's; it had no effect and is left out");
}

// What stays in the base keeps every directory above it in place.
void Harvester::keepInPlace(const Subject& subject, bool ignored) {
    if (!subject.base.present) return;
    const std::string& path = subject.path;
    for (std::size_t end = path.rfind('/'); end != std::string::npos; end = path.rfind('/', end - 1)) {
        Kept& kept = kept_.try_emplace(path.substr(0, end), Kept{path, ignored}).first->second;
        if (!ignored && kept.onlyIgnored) kept = {path, false};
        if (end == 0) break;
    }
}

void Harvester::tooMany() const {
    throw Error(ErrorCode::kNotAllowed, "file count limit: more than {} paths were changed", options_.maxEntries)
        .hint("remove what need not be part of the change");
}

void Harvester::countEntry(const std::string& path) {
    if (++entries_ > options_.maxEntries) tooMany();
    pathBytes_ += path.size();
    if (pathBytes_ > options_.maxPathBytes)
        throw Error(ErrorCode::kNotAllowed, "the changed paths are longer than {} bytes together",
                    options_.maxPathBytes)
            .hint("remove what need not be part of the change");
    goOn();
}

// Its directories count as well: nothing else ends a walk through a million empty ones.
void Harvester::countRepositoryEntry() {
    if (++inRepository_ > options_.maxEntries)
        throw Error(ErrorCode::kNotAllowed, "more than {} paths were changed in the repository's own directory",
                    options_.maxEntries);
    goOn();
}

void Harvester::goOn() const { goOnHarvesting(options_); }

bool Harvester::mayGo(const Draft& draft) {
    const auto& after = draft.change.after;
    if (!draft.wasDirectory || (after && after->type == EntryType::kDirectory)) return true;
    const auto kept = kept_.find(draft.change.path);
    if (kept == kept_.end()) return true;
    // As git: what is ignored stays, and so does the directory around it.
    if (after || !kept->second.onlyIgnored)
        refuse(draft.change.path,
               "the directory still holds '" + printable(kept->second.path) + "', which is not part of the change");
    return false;
}

Harvest Harvester::finish() {
    std::vector<PathChange> changes;
    for (Draft& draft : drafts_)
        if (mayGo(draft)) changes.push_back(std::move(draft.change));
    result_.changes = ChangeSet(std::move(changes));
    for (const PathChange& change : result_.changes.changes())
        if (!change.beforeKnown) result_.baseMoved.push_back(change.path);
    std::sort(result_.refused.begin(), result_.refused.end(),
              [](const Unharvested& a, const Unharvested& b) { return a.path < b.path; });
    return std::move(result_);
}

}  // namespace gradus
