#include "stages/drivers/release_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "stages/changes/tree_copy.h"
#include "stages/drivers/release_base.h"
#include "stages/drivers/release_build.h"
#include "stages/drivers/release_link.h"
#include "stages/drivers/target_lock.h"
#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kDomain = "gradus.release-checkpoint.1";
constexpr std::string_view kDropped = ".gradus-dropped-";
constexpr std::size_t kSuffixBytes = 3;

void must(int error, std::string_view action, std::string_view path) {
    if (error != 0) throwFault(action, path, error);
}

/// "20261116-105044-p31-a1b2c3": by time in a listing, and told apart from every other.
std::string freshId(const DriverContext& context, std::int64_t promotion) {
    std::string time = formatTime(context.clock.now()).substr(0, 19);
    std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
    std::ranges::replace(time, 'T', '-');
    return fmt::format("{}-p{}-{}", time, promotion, toHex(context.random.bytes(kSuffixBytes)));
}

/// Nobody has put anything else there.
bool isStill(const TreeRoot& root, const MadePath& made) {
    try {
        return digestBelow(recordBelow(root, made.path), made.path) == made.manifest;
    } catch (const Error& fault) {
        if (fault.code() != ErrorCode::kNotAllowed) throw;
        return false;
    }
}

std::string dropped(const std::string& id) { return std::string(kDropped) + id; }

}  // namespace

std::string ReleaseStep::encode() const {
    Canonical out(kDomain);
    out.number(promotion).text(handle).text(id).digest(manifest).list(previousLink ? 1 : 0);
    if (previousLink) out.text(*previousLink);
    return out.text(previous).bytes();
}

ReleaseStep ReleaseStep::decode(const Checkpoint& checkpoint) {
    CanonicalReader in(checkpoint.data, kDomain);
    ReleaseStep step;
    step.promotion = in.number();
    step.handle = in.text();
    step.id = in.text();
    step.manifest = in.digest();
    if (in.list() == 1) step.previousLink = in.text();
    step.previous = in.text();
    in.end();
    return step;
}

ReleaseDirectoryDriver::ReleaseDirectoryDriver(const DriverContext& context)
    : ReleaseDirectoryDriver(context, ReleaseLayout(context)) {}

ReleaseDirectoryDriver::ReleaseDirectoryDriver(const DriverContext& context, const ReleaseLayout& layout)
    : context_(context),
      layout_(layout),
      activate_(context.stage.settings.list("activate")),
      keep_(context.stage.settings.number("keep")),
      shelf_(context.state, context.files) {}

TargetIdentity ReleaseDirectoryDriver::identity() const {
    const fs::path parent = layout_.root().parent_path();
    struct stat info {};
    if (::stat(parent.c_str(), &info) != 0)
        throw Error(ErrorCode::kUsage, "stage '{}': {} is to be its target, and {} is not there", context_.stage.name,
                    layout_.root().native(), parent.native())
            .hint("make it first: mkdir -p " + parent.native());
    static_cast<void>(layout_.open());
    // By its parent and its name, so that it is the same before it is made.
    return {"release-directory", fmt::format("{}:{}/{}", info.st_dev, info.st_ino, layout_.root().filename().native()),
            layout_.marker()};
}

std::optional<ReleaseDirectoryDriver::Current> ReleaseDirectoryDriver::current() const {
    const FileDescriptor root = layout_.open();
    if (!root) return std::nullopt;
    const auto link = ReleaseLink(root.get(), context_.files).text();
    if (!link) return std::nullopt;
    const auto id = layout_.idOf(*link);
    const auto head = id ? shelf_.head(*id) : std::nullopt;
    if (!head)
        if (const auto claim = TargetLock::claimOf(layout_.marker()))
            TargetLock::refuseOtherProject(*claim, context_.project, layout_.marker());
    if (!head)
        throw Error(ErrorCode::kNotAllowed, "{}/current leads to '{}', which gradus did not put there",
                    layout_.root().native(), printable(*link))
            .hint(fmt::format("take it as the first stable state: gradus adopt {}", context_.stage.name));
    return Current{*link, *head};
}

/// What is there besides what we put there and what a person prepares for the first release.
std::vector<std::string> ReleaseDirectoryDriver::strangers() const {
    const FileDescriptor root = layout_.open();
    if (!root) return {};
    const std::set<std::string_view> known = {ReleaseLayout::kMarker, ReleaseLayout::kReleases, ReleaseLayout::kShared,
                                              ReleaseLink::kTemporary};
    std::vector<std::string> names = namesBeneath(root.get(), SIZE_MAX);
    std::erase_if(names, [&](const std::string& name) {
        return known.contains(name) || name.starts_with(std::string(ReleaseLayout::kMarker) + ".");
    });
    return names;
}

/// Asked without a `current`.
void ReleaseDirectoryDriver::requireUntouched() const {
    const auto names = strangers();
    if (!names.empty())
        throw Error(ErrorCode::kNotAllowed, "{} holds '{}', which gradus did not put there", layout_.root().native(),
                    printable(names.front()))
            .hint(fmt::format("move it away; or, if it is what is in use, to {}/current, then: gradus adopt {}",
                              layout_.root().native(), context_.stage.name));
}

std::optional<HeldTree> ReleaseDirectoryDriver::held() const {
    auto now = current();
    if (!now) {
        try {
            requireUntouched();
            return std::nullopt;
        } catch (const Error&) {
            // Looked at without the lock: the first release may have come in between.
            now = current();
            if (!now) throw;
        }
    }
    return HeldTree{layout_.release(now->head.id), now->head.manifest, shelf_.outputs(now->head.id)};
}

std::optional<Manifest> ReleaseDirectoryDriver::source() const {
    const auto now = current();
    if (!now) return std::nullopt;
    return withoutOutputs(shelf_.record(now->head), shelf_.outputs(now->head.id)).manifest();
}

StageTrees ReleaseDirectoryDriver::trees(const Checkpoint& checkpoint) const {
    const ReleaseStep step = ReleaseStep::decode(checkpoint);
    StageTrees trees{layout_.release(step.id), std::nullopt};
    if (!step.previous.empty()) trees.previous = layout_.release(step.previous);
    return trees;
}

std::optional<fs::path> ReleaseDirectoryDriver::shown() const {
    const auto now = held();
    return now ? std::optional(now->directory) : std::nullopt;
}

std::vector<Conflict> ReleaseDirectoryDriver::conflicts(const StageChange& change) const {
    std::vector<Conflict> found;
    for (const ChangeSet* changes : {&change.changes, &change.outputs})
        for (const PathChange& path : changes->changes())
            if (layout_.isShared(path.path)) found.push_back({ConflictKind::kShared, path.path, "", "", {}});
    const auto now = held();
    // What was built before is not there when the next release is made.
    const auto isBuilt = [&](const std::string& path) {
        return now && std::ranges::find(now->outputs, path) != now->outputs.end();
    };
    const fs::path base = now ? now->directory : change.seed.value_or(fs::path());
    if (!base.empty()) {
        const TreeWriter writer(base, context_.state / "journals", context_.objects, context_.files, context_.random);
        for (Conflict& conflict : writer.plan(change.changes, {change.granted}).conflicts)
            if ((now || isAboutTheTree(conflict)) && !layout_.isShared(conflict.path) && !isBuilt(conflict.path))
                found.push_back(std::move(conflict));
    }
    std::ranges::stable_sort(found, {}, &Conflict::path);
    return found;
}

Checkpoint ReleaseDirectoryDriver::checkpoint(const StageChange& change) {
    const auto now = current();
    if (!now) requireUntouched();
    for (const ChangeSet* changes : {&change.changes, &change.outputs})
        for (const PathChange& path : changes->changes()) {
            if (!layout_.isShared(path.path)) continue;
            throw Error(ErrorCode::kNotAllowed, "nothing was written: {}",
                        describe(Conflict{ConflictKind::kShared, path.path, "", "", {}}));
        }
    if (!layout_.open())
        throw Error(ErrorCode::kUsage, "{} is not there", layout_.root().native()).hint("lock the target first");
    ReleaseStep step{change.promotion, change.handle, freshId(context_, change.promotion), {}, std::nullopt, ""};
    if (now) step.previousLink = now->link;
    if (now) step.previous = now->head.id;
    // Before anything can be switched away from it: from then on it is one of those that are kept.
    if (now) shelf_.show(now->head.id);
    const ReleaseHead head = build(step.id, now, change);
    step.manifest = head.manifest;
    Checkpoint checkpoint{step.encode(), {head.record}};
    if (now) checkpoint.objects.push_back(now->head.record);
    return checkpoint;
}

ReleaseHead ReleaseDirectoryDriver::build(const std::string& id, const std::optional<Current>& now,
                                          const StageChange& change) {
    ReleaseBase base;
    if (now)
        base = recordedBase(layout_, shelf_, now->head, context_.stage.name);
    else
        base = seedBase(layout_, change);
    try {
        return ReleaseBuilder(context_, layout_, shelf_).build(id, base, change);
    } catch (const std::exception&) {
        // What cannot be removed now goes with tidy().
        try {
            std::vector<Kept> ignored;
            drop(id, ignored);
            if (!now) clearMade(ignored);
        } catch (const Error&) {
        }
        throw;
    }
}

HostOutcome ReleaseDirectoryDriver::activate(const ReleaseStep& step, bool isBack, std::string& log) {
    const std::string& now = isBack ? step.previous : step.id;
    HostCommand command;
    command.arguments = activate_;
    command.environment = context_.environment;
    std::erase_if(command.environment, [](const std::string& entry) { return entry.starts_with("GRADUS_"); });
    command.environment.push_back("GRADUS_STAGE=" + context_.stage.name);
    command.environment.push_back("GRADUS_RELEASE=" + now);
    command.environment.push_back("GRADUS_PREVIOUS=" + (isBack ? step.id : step.previous));
    command.environment.push_back("GRADUS_CHANGE=" + step.handle);
    command.environment.push_back(fmt::format("GRADUS_PROMOTION=p{}", step.promotion));
    command.directory = now.empty() ? layout_.root() : layout_.root() / ReleaseLink::kName;
    command.timeout = patienceOf(context_.stage);
    // Whoever wants to stop is served by going back, and that is never stopped half-way.
    if (!isBack) command.cancel = context_.cancel;
    HostOutcome outcome = context_.run(command);
    log += outcome.out.text() + outcome.err.text();
    // Where there is nothing to activate, a command that finds nothing is right to say so.
    if (outcome.succeeded() || now.empty()) shelf_.setActivation({false, now});
    return outcome;
}

ApplyOutcome ReleaseDirectoryDriver::apply(const Checkpoint& checkpoint) {
    const ReleaseStep step = ReleaseStep::decode(checkpoint);
    const FileDescriptor root = layout_.open();
    const auto head = shelf_.head(step.id);
    if (!root || !head || head->manifest != step.manifest)
        throw Error(ErrorCode::kNotAllowed, "release '{}' is not in {} any more", step.id, layout_.root().native())
            .hint("it was taken back or tidied away; promote the change again");
    ApplyOutcome outcome;
    ReleaseLink link(root.get(), context_.files);
    const std::string wanted = ReleaseLayout::linkTo(step.id);
    const bool isThere = link.text() == wanted;
    if (!link.change(isThere ? wanted : step.previousLink, wanted)) {
        outcome.conflicts.push_back({ConflictKind::kEdited, ReleaseLink::kName, step.previousLink.value_or("nothing"),
                                     link.text().value_or("nothing"), std::nullopt});
        return outcome;
    }
    outcome.applied = true;
    if (activate_.empty()) return outcome;
    // From here on what runs may be the new release, whatever `current` says later.
    shelf_.setActivation({true, step.id});
    const HostOutcome said = activate(step, false, outcome.log);
    if (said.succeeded()) return outcome;
    outcome.applied = false;
    outcome.failure = "activate: " + said.text();
    RollbackOutcome back = rollback(checkpoint);
    outcome.log += back.log;
    for (const std::string& problem : back.problems) outcome.notes.push_back(problem);
    for (const Kept& kept : back.kept) outcome.notes.push_back(fmt::format("'{}': {}", kept.path, kept.reason));
    return outcome;
}

StageDriver::Observed ReleaseDirectoryDriver::observe(const Checkpoint& checkpoint) const {
    const ReleaseStep step = ReleaseStep::decode(checkpoint);
    const FileDescriptor root = layout_.open();
    const auto link = root ? ReleaseLink(root.get(), context_.files).text() : std::nullopt;
    const bool isAfter = link == ReleaseLayout::linkTo(step.id);
    if (!isAfter && link != step.previousLink) return Observed::kBetween;
    const auto activation = activate_.empty() ? ReleaseShelf::Activation{false, step.id} : shelf_.activation();
    if (activation.isOpen || (isAfter && activation.id != step.id)) return Observed::kBetween;
    return isAfter ? Observed::kAfter : Observed::kBefore;
}

std::vector<std::string> ReleaseDirectoryDriver::lost(const Checkpoint& checkpoint) const {
    const ReleaseStep step = ReleaseStep::decode(checkpoint);
    std::vector<std::string> reasons = goneOf(step);
    if (!step.previousLink || !reasons.empty()) return reasons;
    const auto head = shelf_.head(step.previous);
    const auto departures =
        departuresOf(layout_, shelf_.record(*head), layout_.release(step.previous), Scrutiny::kTouched);
    for (const Departure& departure : departures.changed)
        reasons.push_back(fmt::format("{}/{}: {}", layout_.release(step.previous).native(), printable(departure.path),
                                      departure.reason));
    return reasons;
}

/// A way back that leads nowhere is not taken.
std::vector<std::string> ReleaseDirectoryDriver::goneOf(const ReleaseStep& step) const {
    if (!step.previousLink) return {};
    const fs::path release = layout_.release(step.previous);
    if (shelf_.head(step.previous) && fs::is_directory(fs::symlink_status(release))) return {};
    return {fmt::format("{} is gone, or the record of it", release.native())};
}

RollbackOutcome ReleaseDirectoryDriver::rollback(const Checkpoint& checkpoint) {
    const ReleaseStep step = ReleaseStep::decode(checkpoint);
    RollbackOutcome outcome;
    outcome.problems = goneOf(step);
    if (!outcome.problems.empty() || !switchBack(step, outcome)) return outcome;
    if (step.previousLink) verifyPrevious(step, outcome);
    // Two that are not whole are worse than one.
    if (!outcome.problems.empty()) return outcome;
    shelf_.hide(step.id);
    drop(step.id, outcome.kept);
    if (!step.previousLink) clearMade(outcome.kept);
    if (!step.previousLink && outcome.kept.empty()) removeTarget();
    if (!step.previousLink)
        for (const std::string& name : strangers()) outcome.kept.push_back({name, "it was put there since"});
    outcome.complete = outcome.problems.empty();
    return outcome;
}

bool ReleaseDirectoryDriver::switchBack(const ReleaseStep& step, RollbackOutcome& outcome) {
    const FileDescriptor root = layout_.open();
    if (!root) return true;
    ReleaseLink link(root.get(), context_.files);
    const std::string ours = ReleaseLayout::linkTo(step.id);
    const bool isOurs = link.text() == ours;
    if (isOurs && !activate_.empty()) shelf_.setActivation({true, step.id});
    if (!link.change(isOurs ? ours : step.previousLink, step.previousLink)) {
        // Theirs stays; but what the stage shows now is not for us to say.
        const std::string now = printable(link.text().value_or("nothing"));
        outcome.kept.push_back({ReleaseLink::kName, fmt::format("somebody has switched it to '{}' since", now)});
        outcome.problems.push_back(
            fmt::format("{}/{}: {}", layout_.root().native(), ReleaseLink::kName, outcome.kept.back().reason));
        return false;
    }
    const ReleaseShelf::Activation activation = shelf_.activation();
    const bool isActivated = !activation.isOpen && activation.id != step.id;
    if (activate_.empty() || (isActivated && !isOurs)) return true;
    const HostOutcome said = activate(step, true, outcome.log);
    if (!said.succeeded() && step.previousLink)
        outcome.problems.push_back("activate, after going back: " + said.text());
    return true;
}

void ReleaseDirectoryDriver::verifyPrevious(const ReleaseStep& step, RollbackOutcome& outcome) const {
    const fs::path release = layout_.release(step.previous);
    const auto head = shelf_.head(step.previous);
    const Departures departures = departuresOf(layout_, shelf_.record(*head), release, Scrutiny::kBytes);
    for (const Departure& departure : departures.changed)
        outcome.problems.push_back(
            fmt::format("{}/{}: {}", release.native(), printable(departure.path), departure.reason));
    if (!departures.added.empty())
        outcome.log += fmt::format("{} holds {} path(s) that were added to it while it ran\n", release.native(),
                                   departures.added.size());
}

std::vector<Kept> ReleaseDirectoryDriver::departed(const Checkpoint& checkpoint) const {
    const ReleaseStep step = ReleaseStep::decode(checkpoint);
    std::vector<Kept> paths;
    const auto head = shelf_.head(step.id);
    if (!head) return paths;
    const auto departures = departuresOf(layout_, shelf_.record(*head), layout_.release(step.id), Scrutiny::kTouched);
    for (const Departure& departure : departures.changed) paths.push_back({departure.path, departure.reason});
    return paths;
}

// Moved away before it is removed: what is half removed is never taken for a release that somebody edited.
bool ReleaseDirectoryDriver::drop(const std::string& id, std::vector<Kept>& kept) {
    const FileDescriptor releases(::open(layout_.releases().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!releases && errno != ENOENT) throwFault("open", layout_.releases().native(), errno);
    const Sighting seen = releases ? sight(releases.get(), id) : Sighting();
    if (seen.exists) {
        const std::size_t known = kept.size();
        const auto head = shelf_.head(id);
        if (head && seen.isDirectory()) addDepartures(*head, kept);
        if (kept.size() > known) return false;
        removeTree(releases.get(), dropped(id), context_.files);
        must(context_.files.move(releases.get(), id, releases.get(), dropped(id), Move::kNoReplace), "drop", id);
        must(context_.files.sync(releases.get()), "sync", layout_.releases().native());
    }
    if (releases) removeTree(releases.get(), dropped(id), context_.files);
    if (releases) must(context_.files.sync(releases.get()), "sync", layout_.releases().native());
    shelf_.forget(id);
    return true;
}

void ReleaseDirectoryDriver::addDepartures(const ReleaseHead& head, std::vector<Kept>& kept) const {
    const Departures departures =
        departuresOf(layout_, shelf_.record(head), layout_.release(head.id), Scrutiny::kTouched);
    for (const auto* list : {&departures.changed, &departures.added})
        for (const Departure& departure : *list)
            kept.push_back({ReleaseLayout::linkTo(head.id) + "/" + departure.path, departure.reason});
}

// The last made goes first: directories are emptied before they are asked to be empty.
void ReleaseDirectoryDriver::clearMade(std::vector<Kept>& kept) {
    const std::vector<MadePath> made = shelf_.made();
    if (made.empty() || !layout_.open()) return;
    const TreeRoot root(layout_.root());
    for (auto path = made.rbegin(); path != made.rend(); ++path) {
        const Place place = root.place(path->path);
        if (!place || !sight(place.at(), place.name).exists) continue;
        if (path->manifest && isStill(root, *path)) {
            removeTree(place.at(), place.name, context_.files);
            continue;
        }
        const int error = path->manifest ? ENOTEMPTY : context_.files.removeDirectory(place.at(), place.name);
        if (error == ENOTEMPTY || error == EEXIST)
            kept.push_back({path->path, "it holds what was put there since"});
        else
            must(error, "remove", path->path);
    }
    must(context_.files.sync(root.descriptor()), "sync", layout_.root().native());
    shelf_.setMade({});
}

// Renamed first: what is half removed is not taken for a directory that somebody made.
void ReleaseDirectoryDriver::removeTarget() {
    const fs::path parent = layout_.root().parent_path();
    const FileDescriptor above = openFile(parent, O_RDONLY | O_DIRECTORY);
    const std::string name = layout_.root().filename();
    const std::string gone = fmt::format(".{}.gradus-gone", name);
    removeTree(above.get(), gone, context_.files);
    const FileDescriptor root = layout_.open();
    const auto claim = root ? TargetLock::claimOf(layout_.marker()) : std::nullopt;
    if (!claim || !claim->madeDirectory) return;
    for (const std::string& inside : namesBeneath(root.get(), SIZE_MAX))
        if (!inside.starts_with(ReleaseLayout::kMarker)) return;
    must(context_.files.move(above.get(), name, above.get(), gone, Move::kNoReplace), "remove",
         layout_.root().native());
    removeTree(above.get(), gone, context_.files);
    must(context_.files.sync(above.get()), "sync", parent.native());
}

std::optional<Digest> ReleaseDirectoryDriver::treeAfter(const Checkpoint& checkpoint) const {
    return ReleaseStep::decode(checkpoint).manifest;
}

void ReleaseDirectoryDriver::tidy(const std::vector<Checkpoint>& needed) {
    const FileDescriptor root = layout_.open();
    if (root) ReleaseLink(root.get(), context_.files).tidy();
    std::set<std::string> wanted;
    for (const Checkpoint& checkpoint : needed) {
        const ReleaseStep step = ReleaseStep::decode(checkpoint);
        wanted.insert({step.id, step.previous});
    }
    const auto now = current();
    if (now) wanted.insert(now->head.id);
    for (const std::string& id : newest(static_cast<std::size_t>(keep_), now ? now->head.id : "")) wanted.insert(id);
    std::vector<Kept> kept;
    for (const std::string& id : shelf_.begun())
        if (!wanted.contains(id)) drop(id, kept);
    JournalDirectory journals(context_.state / "journals", context_.files);
    for (const JournalRef& journal : journals.list()) journals.remove(journal);
    if (!now && needed.empty()) clearMade(kept);
}

std::vector<std::string> ReleaseDirectoryDriver::newest(std::size_t count, const std::string& shown) const {
    std::vector<ReleaseHead> heads;
    for (const std::string& id : shelf_.begun())
        if (auto head = id == shown || shelf_.wasShown(id) ? shelf_.head(id) : std::nullopt) heads.push_back(*head);
    std::ranges::sort(heads, std::greater(), &ReleaseHead::made);
    if (heads.size() > count) heads.resize(count);
    std::vector<std::string> ids;
    for (const ReleaseHead& head : heads) ids.push_back(head.id);
    return ids;
}

}  // namespace gradus
