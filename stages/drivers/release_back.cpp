// How a release directory's driver goes back, and what it keeps for that.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "stages/changes/tree_copy.h"
#include "stages/drivers/release_base.h"
#include "stages/drivers/release_directory.h"
#include "stages/drivers/release_link.h"
#include "stages/drivers/target_lock.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kDropped = ".gradus-dropped-";

void must(int error, std::string_view action, std::string_view path) {
    if (error != 0) throwFault(action, path, error);
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

std::optional<Obstruction> ReleaseDirectoryDriver::obstruction(const Checkpoint& checkpoint) const {
    const ReleaseStep step = ReleaseStep::decode(checkpoint);
    const FileDescriptor root = layout_.open();
    const auto link = root ? ReleaseLink(root.get(), context_.files).text() : step.previousLink;
    const bool isOurs = link == ReleaseLayout::linkTo(step.id);
    if (!isOurs && link != step.previousLink)
        return Obstruction{
            ErrorCode::kNotAllowed,
            fmt::format("{}/{}: somebody has switched it to '{}' since", layout_.root().native(), ReleaseLink::kName,
                        printable(link.value_or("nothing"))),
            fmt::format("let it lead to '{}' again, or take what is there for what the stage holds: gradus "
                        "adopt {}",
                        ReleaseLayout::linkTo(step.id), context_.stage.name)};
    for (const fs::path& directory : {layout_.root(), layout_.releases()})
        if (auto denied = closed(directory)) return denied;
    // A link as short as this takes no block of its own.
    return isOurs ? shortOfRoom(layout_.root(), {.bytes = 0, .files = 1}, context_.reserve) : std::nullopt;
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
    if (step.previousLink) clearUnused();
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
    if (said.succeeded() || !step.previousLink) return true;
    outcome.problems.push_back("activate, after going back: " + said.text());
    outcome.isWorthAnother = !said.began();
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

/// Whether a release that is left leads to a directory among what is shared, or through it.
bool ReleaseDirectoryDriver::isLedTo(const std::string& made) const {
    const std::vector<std::string> releases = shelf_.begun();
    return std::ranges::any_of(layout_.shared(), [&](const std::string& path) {
        const std::string target = std::string(ReleaseLayout::kShared) + "/" + path;
        if (target != made && !target.starts_with(made + "/")) return false;
        return std::ranges::any_of(releases, [&](const std::string& id) {
            return fs::is_symlink(fs::symlink_status(layout_.release(id) / path));
        });
    });
}

// What was adopted may lead to nothing shared: then the directories that the first promotion made for itself go with
// it.
void ReleaseDirectoryDriver::clearUnused() {
    std::vector<MadePath> made = shelf_.made();
    if (made.empty() || layout_.shared().empty() || !layout_.open()) return;
    const TreeRoot root(layout_.root());
    const auto goes = [&](const MadePath& path) {
        const bool isShared = (path.path + "/").starts_with(std::string(ReleaseLayout::kShared) + "/");
        const Place place = root.place(path.path);
        return isShared && !path.manifest && !isLedTo(path.path) && place &&
               context_.files.removeDirectory(place.at(), place.name) == 0;
    };
    std::ranges::reverse(made);
    if (std::erase_if(made, goes) == 0) return;
    must(context_.files.sync(root.descriptor()), "sync", layout_.root().native());
    std::ranges::reverse(made);
    shelf_.setMade(made);
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
