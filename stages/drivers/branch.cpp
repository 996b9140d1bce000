#include "stages/drivers/branch.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "stages/changes/tree_record.h"
#include "stages/drivers/branch_remote.h"
#include "stages/drivers/git_change.h"
#include "stages/drivers/release_base.h"
#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/model/utf8.h"
#include "store/paths.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kDomain = "gradus.branch-checkpoint.1";
constexpr std::string_view kGuards = "refs/gradus/heads/";
constexpr std::string_view kOwnAuthor = "Gradus <gradus@localhost>";
constexpr std::size_t kSuffixBytes = 6;

void encodeCommit(Canonical& out, const std::optional<std::string>& commit) {
    out.list(commit ? 1 : 0);
    if (commit) out.text(*commit);
}

std::optional<std::string> decodeCommit(CanonicalReader& in) {
    if (in.list() == 0) return std::nullopt;
    return in.text();
}

std::string branchOf(const DriverContext& context) {
    std::string branch = context.stage.settings.text("branch");
    if (!branch.starts_with("refs/")) return branch;
    throw Error(ErrorCode::kUsage, "stage '{}': '{}' is the name of a ref, not of a branch", context.stage.name,
                printable(branch))
        .hint("leave 'refs/heads/' out");
}

/// As git keeps it.
std::optional<Entry> kept(std::optional<Entry> entry) {
    if (!entry || entry->type == EntryType::kSymlink) return entry;
    const bool isOpen = entry->type == EntryType::kDirectory || (entry->mode & 0100) != 0;
    entry->mode = isOpen ? 0755 : 0644;
    return entry;
}

bool isDirectory(const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kDirectory; }

bool isDirectoryIn(const TreeRoot& root, const std::string& path) {
    const Place place = root.place(path);
    return place && sight(place.at(), place.name).isDirectory();
}

std::vector<Conflict> inSubmodules(const GitEntries& entries, const std::string& prefix, const ChangeSet& changes) {
    std::vector<Conflict> found;
    for (const auto& [path, entry] : entries) {
        if (entry.mode != "160000") continue;
        for (const PathChange& change : changes.changes())
            if (isAtOrBelow(prefix + change.path, path))
                found.push_back({ConflictKind::kForeign, change.path, "", fmt::format("the submodule '{}'", path), {}});
    }
    return found;
}

std::string authorOf(const Stage& stage, const StageChange& change) {
    std::string own = oneLine(stage.settings.text("author"));
    const std::size_t mail = own.rfind(" <");
    if (!own.empty() && (mail == std::string::npos || mail == 0 || !own.ends_with('>')))
        throw Error(ErrorCode::kUsage, "stage '{}': '{}' is not who could have written a commit", stage.name,
                    printable(own))
            .hint("author = \"Name <mail@example.org>\"");
    if (!own.empty()) return own;
    const std::string theirs = oneLine(change.author);
    return theirs.empty() ? std::string(kOwnAuthor) : theirs;
}

/// Somebody may have written in the seed while git read it.
void requireSame(const TreeRecord& seed, const FilesByPath& changed, const std::string& prefix, const fs::path& made) {
    const TreeRecord record = recordTree(TreeRoot(made), {});
    for (const RecordedPath& path : seed.paths) {
        if (path.entry.type == EntryType::kDirectory || changed.contains(prefix + path.path)) continue;
        const RecordedPath* found = record.find(path.path);
        if (found == nullptr || found->entry.digest != path.entry.digest)
            throw Error(ErrorCode::kNotAllowed, "'{}' was changed while it was read", printable(path.path))
                .hint("something else writes in this directory; stop it, then try again");
    }
}

}  // namespace

std::string BranchStep::encode() const {
    Canonical out(kDomain);
    out.text(commit).text(guard).digest(tree);
    encodeCommit(out, parent);
    out.list(push ? 1 : 0);
    if (!push) return out.bytes();
    out.text(push->remote).text(push->repository.native());
    encodeCommit(out, push->before);
    return out.bytes();
}

BranchStep BranchStep::decode(const Checkpoint& checkpoint) {
    CanonicalReader in(checkpoint.data, kDomain);
    BranchStep step;
    step.commit = in.text();
    step.guard = in.text();
    step.tree = in.digest();
    step.parent = decodeCommit(in);
    if (in.list() == 1) {
        step.push.emplace();
        step.push->remote = in.text();
        step.push->repository = in.text();
        step.push->before = decodeCommit(in);
    }
    in.end();
    return step;
}

BranchDriver::BranchDriver(const DriverContext& context)
    : context_(context),
      branch_(branchOf(context)),
      local_(openRepository(context.project / context.stage.settings.text("repository"), context.project),
             "refs/heads/" + branch_, branch_, context.files),
      trees_(context) {}

std::string BranchDriver::guards() const { return std::string(kGuards) + branch_ + "/"; }

TargetIdentity BranchDriver::identity() const {
    if (!local_.plumbing().isBranchName(branch_))
        throw Error(ErrorCode::kUsage, "stage '{}': no branch can be called '{}'", context_.stage.name,
                    printable(branch_));
    const fs::path& common = local_.repository().common;
    return TargetIdentity::at("branch", common, "/refs/heads/" + branch_,
                              common / ("gradus-branch-" + sha256(branch_).brief()), true);
}

void BranchDriver::requireFree() const {
    if (const auto found = local_.obstacle())
        throw Error(ErrorCode::kNotAllowed, "stage '{}': {}", context_.stage.name, describe(*found))
            .hint("let that work tree show something else: git switch --detach");
}

std::optional<HeldTree> BranchDriver::heldAt(const std::optional<std::string>& tip) const {
    if (!tip) return std::nullopt;
    return trees_.at(local_.repository(), local_.plumbing(), *tip);
}

std::optional<HeldTree> BranchDriver::held() const {
    requireFree();
    return heldAt(local_.tip());
}

std::optional<fs::path> BranchDriver::shown() const {
    const auto now = heldAt(local_.tip());
    return now ? std::optional(now->directory) : std::nullopt;
}

HeldTree BranchDriver::adopt(Adopting /*how*/) {
    if (const auto now = held()) return *now;
    throw Error(ErrorCode::kNotAllowed, "{} has no branch '{}' that could be taken", local_.repository().root.native(),
                branch_)
        .hint("promote into the stage: the first promotion makes it");
}

std::optional<BranchSide> BranchDriver::remote() const {
    if (!context_.stage.settings.flag("push")) return std::nullopt;
    const std::string name = context_.stage.settings.text("remote");
    return remoteOf({name, remotePath(local_.repository(), local_.plumbing(), name), std::nullopt});
}

BranchSide BranchDriver::remoteOf(const BranchStep::Push& push) const {
    return {openRepository(push.repository, context_.project), "refs/heads/" + branch_, push.remote + "/" + branch_,
            context_.files};
}

// Modes and directories that git does not keep are no part of what a branch holds, so a change cannot be about them.
ChangeSet BranchDriver::viewed(const ChangeSet& changes, const std::string& tip) const {
    const TreeRoot root(heldAt(tip)->directory);
    std::vector<PathChange> all;
    for (const PathChange& change : changes.changes()) {
        PathChange view = change;
        view.before = kept(change.before);
        view.after = kept(change.after);
        if (isDirectory(view.before) && !isDirectoryIn(root, view.path)) view.before.reset();
        if (isDirectory(view.after) && !view.before && view.beforeKnown) view.after.reset();
        if (view.before != view.after || !view.beforeKnown) all.push_back(std::move(view));
    }
    return ChangeSet(std::move(all));
}

std::vector<Conflict> BranchDriver::conflicts(const StageChange& change) const {
    return conflictsAt(local_.tip(), change);
}

// What is there must be among what is here: else the push would lose it.
std::vector<Conflict> BranchDriver::remoteConflicts(const std::optional<std::string>& tip) const {
    const auto there = remote();
    if (!there) return {};
    std::vector<Conflict> found;
    if (auto obstacle = there->obstacle()) found.push_back(*obstacle);
    const auto now = there->tip();
    if (now && !(tip && local_.holds(*now)))
        found.push_back({ConflictKind::kEdited, there->name(), tip.value_or("no commit"),
                         *now + ", which is not on the branch here", std::nullopt});
    return found;
}

std::vector<Conflict> BranchDriver::conflictsAt(const std::optional<std::string>& tip,
                                                const StageChange& change) const {
    std::vector<Conflict> found = remoteConflicts(tip);
    if (auto obstacle = local_.obstacle()) found.push_back(*obstacle);
    for (Conflict& conflict : tip ? treeConflicts(*tip, change) : seedConflicts(change))
        found.push_back(std::move(conflict));
    std::ranges::stable_sort(found, {}, &Conflict::path);
    return found;
}

std::vector<Conflict> BranchDriver::seedConflicts(const StageChange& change) const {
    std::vector<Conflict> found;
    if (!change.seed) return found;
    const TreeWriter writer(*change.seed, context_.state / "journals", context_.objects, context_.files,
                            context_.random);
    for (Conflict& conflict : writer.plan(change.changes, {change.granted}).conflicts)
        if (isAboutTheTree(conflict)) found.push_back(std::move(conflict));
    return found;
}

std::vector<Conflict> BranchDriver::treeConflicts(const std::string& tip, const StageChange& change) const {
    const ChangeSet view = viewed(change.changes, tip);
    const TreeWriter writer(heldAt(tip)->directory, context_.state / "journals", context_.objects, context_.files,
                            context_.random);
    std::vector<Conflict> found = writer.plan(view, {change.granted}).conflicts;
    for (Conflict& conflict : inSubmodules(local_.plumbing().entriesOf(tip), local_.repository().prefix, view))
        found.push_back(std::move(conflict));
    return found.empty() ? filtered(tip, view) : found;
}

std::vector<Conflict> BranchDriver::filtered(const std::string& tip, const ChangeSet& view) const {
    const FilesByPath files = filesOf(view, local_.repository().prefix);
    const OwnIndex index(context_, OwnIndex::For::kLook);
    local_.plumbing().loadIndex(tip, index.path());
    const auto conversions = local_.plumbing().conversions(plainFilesAfter(files), index.path());
    return filteredBy(conversions, files, context_.objects);
}

// The seed's files as they lie there; what the change brings comes from the objects.
GitEntries BranchDriver::seedEntries(const StageChange& change) {
    const std::string& prefix = local_.repository().prefix;
    const FilesByPath changed = filesOf(change.changes, prefix);
    const fs::path links = context_.state / "seed-links";
    fs::remove_all(links);
    fs::create_directories(links);
    std::vector<fs::path> contents;
    std::vector<std::pair<std::string, std::string>> modes;
    for (const RecordedPath& path : seedBase(ReleaseLayout(context_.state), change).record.paths) {
        const auto own = changed.find(prefix + path.path);
        if (path.entry.type == EntryType::kDirectory || (own != changed.end() && !isSameContent(*own->second)))
            continue;
        contents.push_back(*change.seed / path.path);
        if (path.entry.type == EntryType::kSymlink) {
            const std::string text = fs::read_symlink(contents.back()).native();
            contents.back() = links / std::to_string(contents.size());
            writeFileDurably(contents.back(), text);
        }
        modes.emplace_back(prefix + path.path, gitMode(path.entry));
    }
    GitEntries entries;
    const auto ids = contents.empty() ? std::vector<std::string>() : local_.plumbing().writeBlobs(contents);
    for (std::size_t i = 0; i < ids.size(); ++i) entries[modes[i].first] = {modes[i].second, ids[i]};
    fs::remove_all(links);
    return entries;
}

GitPlumbing::NewCommit BranchDriver::composed(const std::optional<std::string>& tip, const StageChange& change) {
    const ChangeSet changes = tip ? viewed(change.changes, *tip) : change.changes;
    const FilesByPath files = filesOf(changes, local_.repository().prefix);
    GitPlumbing::NewCommit made{tip,
                                tip ? GitEntries() : seedEntries(change),
                                {},
                                commitMessage(change, context_.stage.settings.text("message")),
                                authorOf(context_.stage, change),
                                toMillis(context_.clock.now()) / 1000};
    for (auto& [path, entry] : writeContents(local_.plumbing(), context_, files)) made.set[path] = entry;
    const GitEntries known = tip ? local_.plumbing().entriesOf(*tip) : made.set;
    for (const auto& [path, one] : files) {
        if (!isFile(one->after))
            made.removed.push_back(path);
        else if (isSameContent(*one))
            made.set[path] = {gitMode(*one->after), known.at(path).id};
    }
    return made;
}

Checkpoint BranchDriver::checkpoint(const StageChange& change) {
    requireFree();
    const auto tip = local_.tip();
    const auto found = conflictsAt(tip, change);
    if (!found.empty())
        throw Error(ErrorCode::kNotAllowed, "nothing was written: {}", describe(found.front()))
            .hint("bring the change up to date with what the stage holds");
    BranchStep step;
    step.parent = tip;
    OwnIndex::tidy(context_);
    const OwnIndex index(context_, OwnIndex::For::kCommit);
    step.commit = local_.plumbing().writeCommit(composed(tip, change), index.path());
    const HeldTree made = *heldAt(step.commit);
    step.tree = made.digest;
    if (!tip && change.seed)
        requireSame(seedBase(ReleaseLayout(context_.state), change).record,
                    filesOf(change.changes, local_.repository().prefix), local_.repository().prefix, made.directory);
    step.guard = fmt::format("{}p{}-{}", guards(), change.promotion, toHex(context_.random.bytes(kSuffixBytes)));
    if (!local_.plumbing().moveRef(step.guard, std::nullopt, step.commit, "gradus: prepare"))
        throw Error(ErrorCode::kInfrastructure, "git did not make {} in {}", step.guard,
                    local_.repository().common.native());
    step.push = prepareRemote(step.commit);
    return {step.encode(), {}};
}

std::optional<BranchStep::Push> BranchDriver::prepareRemote(const std::string& commit) {
    const auto there = remote();
    if (!there) return std::nullopt;
    const BranchStep::Push push{context_.stage.settings.text("remote"), there->repository().common, there->tip()};
    const FileDescriptor pack = local_.plumbing().packOf(commit, push.before, context_.state);
    there->plumbing().takePack(pack.get(), commit);
    return push;
}

// Here first: what comes back from there has been seen by more people.
ApplyOutcome BranchDriver::apply(const Checkpoint& checkpoint) {
    const BranchStep step = BranchStep::decode(checkpoint);
    ApplyOutcome outcome;
    auto refused = local_.land(step.parent, step.commit);
    if (!refused && step.push) refused = remoteOf(*step.push).land(step.push->before, step.commit);
    outcome.applied = !refused;
    if (!refused) return outcome;
    outcome.conflicts.push_back(*refused);
    const RollbackOutcome back = rollback(checkpoint);
    for (const Kept& one : back.kept) outcome.notes.push_back(fmt::format("'{}': {}", one.path, one.reason));
    for (const std::string& problem : back.problems) outcome.notes.push_back(problem);
    return outcome;
}

StageDriver::Observed BranchDriver::observe(const Checkpoint& checkpoint) const {
    const BranchStep step = BranchStep::decode(checkpoint);
    const bool isHere = local_.holds(step.commit);
    const bool isThere = step.push ? remoteOf(*step.push).holds(step.commit) : isHere;
    if (isHere != isThere) return Observed::kBetween;
    return isHere ? Observed::kAfter : Observed::kBefore;
}

std::vector<std::string> BranchDriver::lost(const Checkpoint& checkpoint) const {
    const BranchStep step = BranchStep::decode(checkpoint);
    if (local_.holds(step.commit) || local_.tip() == step.parent) return {};
    return {fmt::format("branch '{}' has {} no more: somebody has moved or deleted it", branch_,
                        step.commit.substr(0, 12))};
}

// What happened to the repository that it was pushed to keeps nobody from going back in this one.
std::optional<Obstruction> BranchDriver::obstruction(const Checkpoint& checkpoint) const {
    const BranchStep step = BranchStep::decode(checkpoint);
    const bool isOnTop = local_.tip() == step.commit;
    if (!isOnTop && local_.holds(step.commit))
        return Obstruction{ErrorCode::kNotAllowed,
                           fmt::format("commits were made on branch '{}' on top of {}, which moving it back would lose",
                                       branch_, step.commit.substr(0, 12)),
                           fmt::format("undo it by a commit of your own: git revert {}", step.commit.substr(0, 12))};
    if (!isOnTop) return std::nullopt;
    if (const auto found = local_.obstacle())
        return Obstruction{ErrorCode::kNotAllowed, describe(*found), "free the branch, then try again"};
    if (auto away = step.push ? outOfReach(*step.push) : std::nullopt) return away;
    const fs::path& repository = local_.repository().common;
    if (auto denied = closed(repository / "refs")) return denied;
    // The locks of two refs, and what git notes of their moves.
    return shortOfRoom(repository, {.bytes = std::uint64_t{4} << 12, .files = 4}, context_.reserve);
}

// Moved back here alone, the two would part.
std::optional<Obstruction> BranchDriver::outOfReach(const BranchStep::Push& push) const {
    try {
        return closed(remoteOf(push).repository().common / "refs");
    } catch (const Error& fault) {
        return Obstruction{ErrorCode::kInfrastructure,
                           fmt::format("the remote '{}' cannot be reached: {}", push.remote, fault.what()),
                           fmt::format("bring it back, then try again; or move the branch by hand, then take it as it "
                                       "is: gradus adopt {}",
                                       context_.stage.name)};
    }
}

RollbackOutcome BranchDriver::rollback(const Checkpoint& checkpoint) {
    const BranchStep step = BranchStep::decode(checkpoint);
    RollbackOutcome outcome;
    // What happened to one repository keeps the other from nothing.
    const auto attempt = [&outcome](const std::function<void()>& act) {
        try {
            act();
        } catch (const Error& fault) {
            outcome.problems.push_back(problemOf(fault));
            outcome.isWorthAnother |= fault.code() == ErrorCode::kInfrastructure;
        }
    };
    if (step.push) attempt([&] { remoteOf(*step.push).takeBack(step.commit, step.push->before, outcome); });
    attempt([&] { local_.takeBack(step.commit, step.parent, outcome); });
    outcome.complete = outcome.problems.empty();
    if (outcome.complete) letGo(step.guard, step.commit);
    return outcome;
}

// One that stays costs some room, and tidy() tries again.
void BranchDriver::letGo(const std::string& guard, const std::optional<std::string>& commit) {
    try {
        local_.plumbing().moveRef(guard, commit, std::nullopt, "gradus: let go");
    } catch (const Error&) {
    }
}

std::optional<Digest> BranchDriver::treeAfter(const Checkpoint& checkpoint) const {
    return BranchStep::decode(checkpoint).tree;
}

void BranchDriver::tidy(const std::vector<Checkpoint>& needed) {
    std::set<std::string> guarded;
    for (const Checkpoint& checkpoint : needed) guarded.insert(BranchStep::decode(checkpoint).guard);
    const std::string own = guards();
    for (const std::string& ref : local_.plumbing().refsBelow(own)) {
        const bool isOurs = ref.find('/', own.size()) == std::string::npos;
        if (isOurs && !guarded.contains(ref)) letGo(ref, local_.plumbing().commitAt(ref));
    }
    OwnIndex::tidy(context_);
    std::set<fs::path> wanted;
    if (const auto now = heldAt(local_.tip())) wanted.insert(now->directory);
    trees_.tidy(wanted);
}

}  // namespace gradus
