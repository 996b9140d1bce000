#include "stages/drivers/release_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

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
constexpr std::size_t kSuffixBytes = 3;

/// "20261116-105044-p31-a1b2c3": by time in a listing, and told apart from every other.
std::string freshId(const DriverContext& context, std::int64_t promotion) {
    std::string time = formatTime(context.clock.now()).substr(0, 19);
    std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
    std::ranges::replace(time, 'T', '-');
    return fmt::format("{}-p{}-{}", time, promotion, toHex(context.random.bytes(kSuffixBytes)));
}

bool isRemoved(const ChangeSet& changes, const std::string& path) {
    const auto found = std::ranges::lower_bound(changes.changes(), path, {}, &PathChange::path);
    return found != changes.changes().end() && found->path == path && !found->after;
}

/// The change takes away all that the tree has in a directory.
bool isEmptied(const Manifest& tree, const ChangeSet& changes, const std::string& directory) {
    return std::ranges::all_of(tree.items(), [&](const Manifest::Item& item) {
        return !item.path.starts_with(directory + "/") || isRemoved(changes, item.path);
    });
}

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
    if (::stat(parent.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        throw Error(ErrorCode::kUsage, "stage '{}': {} is to be its target, and {} is not there", context_.stage.name,
                    layout_.root().native(), parent.native())
            .hint("make it first: mkdir -p " + parent.native());
    static_cast<void>(layout_.open());
    // By its parent and its name, so that it is the same before it is made.
    return TargetIdentity::at("release-directory", parent, "/" + layout_.root().filename().native(), layout_.marker());
}

std::optional<ReleaseDirectoryDriver::Current> ReleaseDirectoryDriver::current() const {
    const FileDescriptor root = layout_.open();
    if (!root) return std::nullopt;
    const auto link = ReleaseLink(root.get(), context_.files).text();
    if (!link) return std::nullopt;
    const auto id = layout_.idOf(*link);
    const auto head = id ? shelf_.head(*id) : std::nullopt;
    if (!head) requireNobodyElses();
    if (!head)
        throw Error(ErrorCode::kNotAllowed, "{}/current leads to '{}', which gradus did not put there",
                    layout_.root().native(), printable(*link))
            .hint(fmt::format("take it as the first stable state: gradus adopt {}", context_.stage.name));
    return Current{*link, *head};
}

/// What is not ours may be adopted, unless somebody else has.
void ReleaseDirectoryDriver::requireNobodyElses() const {
    const auto claim = TargetLock::claimOf(layout_.marker());
    if (!claim) return;
    if (!context_.store.empty()) TargetLock::refuseOtherStore(*claim, context_.store, layout_.marker());
    TargetLock::refuseOtherProject(*claim, context_.project, layout_.marker());
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
    if (!names.empty()) requireNobodyElses();
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
    const auto isOfBuilt = [&](const Conflict& conflict) {
        if (!now || now->outputs.empty()) return false;
        if (conflict.kind == ConflictKind::kNotEmpty) return isEmptied(*source(), change.changes, conflict.path);
        return std::ranges::find(now->outputs, conflict.path) != now->outputs.end();
    };
    const fs::path base = now ? now->directory : change.seed.value_or(fs::path());
    if (!base.empty()) {
        const TreeWriter writer(base, context_.state / "journals", context_.objects, context_.files, context_.random);
        for (Conflict& conflict : writer.plan(change.changes, {change.granted}).conflicts)
            if ((now || isAboutTheTree(conflict)) && !layout_.isShared(conflict.path) && !isOfBuilt(conflict))
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

}  // namespace gradus
