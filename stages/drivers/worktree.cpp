#include "stages/drivers/worktree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "stages/changes/work_tree.h"
#include "stages/drivers/project_marker.h"
#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kDomain = "gradus.worktree-checkpoint.1";
constexpr std::uint64_t kToMoveABranch = std::uint64_t{4} << 12;

struct Taken {
    JournalRef journal;
    std::optional<PreparedCommit> commit;

    std::string encode() const {
        Canonical out(kDomain);
        out.text(journal.name).digest(journal.seal.value_or(Digest())).list(commit ? 1 : 0);
        if (commit) out.text(commit->encode());
        return out.bytes();
    }
    static Taken decode(const Checkpoint& checkpoint) {
        CanonicalReader in(checkpoint.data, kDomain);
        Taken taken;
        taken.journal.name = in.text();
        taken.journal.seal = in.digest();
        if (in.list() == 1) taken.commit = PreparedCommit::decode(in.text());
        in.end();
        return taken;
    }
};

bool isRepository(const TreeRoot& root, std::string_view directory) {
    const Place place = root.place(std::string(directory) + "/.git");
    return place && sight(place.at(), place.name).exists;
}

/// Paths in a submodule or in a clone that lies in the tree.
std::vector<Conflict> foreignPaths(const fs::path& project, const ChangeSet& changes) {
    const TreeRoot root(project);
    std::vector<Conflict> found;
    std::set<std::string, std::less<>> own;
    for (const PathChange& change : changes.changes())
        for (std::string_view parent = directoryOf(change.path); !parent.empty() && !own.contains(parent);
             parent = directoryOf(parent)) {
            if (isRepository(root, parent)) {
                found.push_back(
                    {ConflictKind::kForeign, change.path, "", fmt::format("the repository '{}'", parent), {}});
                break;
            }
        }
    return found;
}

void addAll(std::vector<Kept>& all, const std::vector<std::string>& saved) {
    for (const std::string& path : saved) all.push_back({path, "an edit that lost its place is kept under this name"});
}

void addNotes(std::vector<std::string>& notes, const std::vector<Kept>& kept, const std::vector<std::string>& saved) {
    for (const Kept& one : kept) notes.push_back(fmt::format("'{}': {}", one.path, one.reason));
    for (const std::string& path : saved) notes.push_back(fmt::format("an edit is kept as '{}'", path));
}

}  // namespace

WorktreeDriver::WorktreeDriver(const DriverContext& context) : context_(context), git_(findWorkTree(context.project)) {
    makeDirectoriesDurably(context.state);
}

TreeWriter WorktreeDriver::writer() const {
    return {context_.project, journals(), context_.objects, context_.files, context_.random};
}

std::optional<WorktreeCommit> WorktreeDriver::committing() const {
    if (!context_.stage.settings.flag("commit")) return std::nullopt;
    if (!git_)
        throw Error(ErrorCode::kUsage, "stage '{}': `commit = true` needs a git repository, and {} is in none",
                    context_.stage.name, context_.project.native())
            .hint("git init, or leave it out");
    return std::optional<WorktreeCommit>(std::in_place, context_, *git_);
}

WorktreeCommit WorktreeDriver::repository() const {
    if (git_) return {context_, *git_};
    throw Error(ErrorCode::kInfrastructure, "{} was in a git repository when it was promoted into, and is no more",
                context_.project.native())
        .hint("bring its .git back, then try again");
}

TargetIdentity WorktreeDriver::identity() const {
    return TargetIdentity::at("worktree", context_.project, "", projectMarker(context_.project, git_, ""), true);
}

std::optional<HeldTree> WorktreeDriver::held() const {
    const WorkTree tree = readWorkTree({.project = context_.project, .cache = context_.treeCache});
    return HeldTree{context_.project, tree.fingerprint.digest()};
}

// What is there counts from now on. A journal that is not finished would bring the rest of what it knows later on.
HeldTree WorktreeDriver::adopt(Adopting how) {
    const JournalDirectory directory(journals(), context_.files);
    for (const JournalRef& journal : how == Adopting::kTake ? directory.list() : std::vector<JournalRef>()) {
        const WriteState state = directory.read(journal).state;
        const bool isOpen = state == WriteState::kSealed || state == WriteState::kUndoing;
        if (isOpen && !isGone(journal)) writer().letBe(journal);
    }
    return *held();
}

Plan WorktreeDriver::planned(const StageChange& change) const {
    Plan plan = writer().plan(change.changes, {change.granted});
    for (Conflict& conflict : foreignPaths(context_.project, change.changes)) plan.conflicts.push_back(conflict);
    if (const auto commit = committing())
        for (Conflict& conflict : commit->conflicts(change)) plan.conflicts.push_back(conflict);
    std::ranges::stable_sort(plan.conflicts, {}, &Conflict::path);
    return plan;
}

std::vector<Conflict> WorktreeDriver::conflicts(const StageChange& change) const { return planned(change).conflicts; }

Checkpoint WorktreeDriver::checkpoint(const StageChange& change) {
    if (git_) requireTrustworthy(*git_);
    Taken taken{writer().seal(planned(change)), std::nullopt};
    if (auto commit = committing()) taken.commit = commit->prepare(change);
    const Journal journal = JournalDirectory(journals(), context_.files).read(taken.journal);
    return {taken.encode(), {journal.undo}};
}

ApplyOutcome WorktreeDriver::apply(const Checkpoint& checkpoint) {
    const Taken taken = Taken::decode(checkpoint);
    if (observeFiles(taken.journal) == Observed::kBetween) {
        ApplyOutcome none{false, {}, "an earlier attempt was interrupted, and is taken back", "", {}};
        addNotes(none.notes, rollback(checkpoint).kept, {});
        return none;
    }
    const ApplyReport report = writer().apply(taken.journal);
    ApplyOutcome outcome{report.applied, report.conflicts, "", "", {}};
    addNotes(outcome.notes, report.kept, report.saved);
    if (report.applied && !taken.commit && context_.stage.settings.flag("commit"))
        outcome.notes.emplace_back(
            "nothing was committed: what it changes was in the work tree before it came, so the commit is yours to "
            "make "
            "(git add, git commit)");
    if (!report.applied || !taken.commit) return outcome;
    const auto moved = repository().land(*taken.commit, outcome.notes);
    if (!moved) return outcome;
    const UndoReport back = writer().undo(taken.journal);
    addNotes(outcome.notes, back.kept, back.saved);
    outcome.applied = false;
    outcome.conflicts.push_back(*moved);
    return outcome;
}

// The journal says how far it came. Once a change is confirmed, what a person does to its files is no crash of ours.
StageDriver::Observed WorktreeDriver::observe(const Checkpoint& checkpoint) const {
    const Taken taken = Taken::decode(checkpoint);
    if (isGone(taken.journal)) return Observed::kBefore;
    const Observed files = observeFiles(taken.journal);
    if (!taken.commit || files == Observed::kBetween) return files;
    const WorktreeCommit commit = repository();
    const bool isAsFiles =
        files == Observed::kAfter ? commit.isLanded(*taken.commit) : commit.isUntouched(*taken.commit);
    return isAsFiles ? files : Observed::kBetween;
}

// Deleted and cloned anew, say: what the journal wants to take back went with the old directory.
bool WorktreeDriver::isGone(const JournalRef& journal) const {
    return !writer().isAboutHere(JournalDirectory(journals(), context_.files).read(journal));
}

StageDriver::Observed WorktreeDriver::observeFiles(const JournalRef& ref) const {
    const Journal journal = JournalDirectory(journals(), context_.files).read(ref);
    if (journal.state == WriteState::kPlanned || journal.state == WriteState::kUndone) return Observed::kBefore;
    if (journal.state == WriteState::kUndoing) return Observed::kBetween;
    const bool isBefore = writer().observe(journal.ref()).state == Observation::State::kBefore;
    const bool hasTemporaries = fs::exists(fs::symlink_status(context_.project / journal.staging));
    if (journal.state == WriteState::kSealed)
        return isBefore && !hasTemporaries ? Observed::kBefore : Observed::kBetween;
    return isBefore && !journal.changes.empty() ? Observed::kBefore : Observed::kAfter;
}

// The journal says what was written where, the undo object what was there; tidy() drops them with what is too old.
std::vector<std::string> WorktreeDriver::lost(const Checkpoint& checkpoint) const {
    const JournalRef ref = Taken::decode(checkpoint).journal;
    try {
        const Journal journal = JournalDirectory(journals(), context_.files).read(ref);
        const bool isOver = journal.state == WriteState::kPlanned || journal.state == WriteState::kUndone;
        if (isOver || !writer().isAboutHere(journal) || context_.objects.contains(journal.undo)) return {};
        return {"the copy of what it replaced is not kept any more"};
    } catch (const Error& fault) {
        if (fault.code() != ErrorCode::kNotFound) return {fault.what()};
        return {"the journal of what it wrote is not kept any more"};
    }
}

std::optional<Obstruction> WorktreeDriver::obstruction(const Checkpoint& checkpoint) const {
    const Taken taken = Taken::decode(checkpoint);
    if (!lost(checkpoint).empty() || isGone(taken.journal)) return std::nullopt;
    const UndoOutlook outlook = writer().outlook(taken.journal);
    if (!outlook.blocked.empty()) {
        const Kept& first = outlook.blocked.front();
        return Obstruction{
            ErrorCode::kInfrastructure,
            fmt::format("'{}' in {}: {}", printable(first.path), context_.project.native(), first.reason),
            "free the way to it, then try again"};
    }
    RoomWanted wanted{outlook.bytes, outlook.files};
    if (taken.commit && git_) {
        std::error_code none;
        const auto index = fs::file_size(git_->directory / "index", none);
        // A new index, and what git writes to move a branch.
        wanted = {wanted.bytes + (none ? 0 : index) + kToMoveABranch, wanted.files + 4};
    }
    return shortOfRoom(context_.project, wanted, context_.reserve);
}

RollbackOutcome WorktreeDriver::rollback(const Checkpoint& checkpoint) {
    const Taken taken = Taken::decode(checkpoint);
    RollbackOutcome outcome;
    if (isGone(taken.journal)) {
        outcome.kept.push_back(
            {".", "the directory that was written into is gone, and the one in its place is left alone"});
        outcome.complete = true;
        return outcome;
    }
    const JournalDirectory directory(journals(), context_.files);
    outcome.wroteNothing = !taken.commit && directory.read(taken.journal).changes.empty();
    const UndoReport report = writer().undo(taken.journal);
    outcome.complete = report.blocked.empty();
    outcome.kept = report.kept;
    try {
        if (taken.commit)
            for (Kept& kept : repository().takeBack(*taken.commit)) outcome.kept.push_back(std::move(kept));
    } catch (const Error& fault) {
        outcome.complete = false;
        outcome.problems.push_back(problemOf(fault));
    }
    addAll(outcome.kept, report.saved);
    for (const Kept& blocked : report.blocked)
        outcome.problems.push_back(fmt::format("'{}': {}", blocked.path, blocked.reason));
    return outcome;
}

/// One whose directory is gone. What came to its end, either way, has nothing left to say.
void WorktreeDriver::forget(JournalDirectory& directory, const JournalRef& journal) {
    const WriteState state = directory.read(journal).state;
    if (state == WriteState::kApplied || state == WriteState::kUndone)
        directory.remove(journal);
    else
        directory.setAside(journal);
}

void WorktreeDriver::tidy(const std::vector<Checkpoint>& needed) {
    OwnIndex::tidy(context_);
    std::set<std::string> names;
    for (const Checkpoint& checkpoint : needed) names.insert(Taken::decode(checkpoint).journal.name);
    JournalDirectory directory(journals(), context_.files);
    for (const JournalRef& journal : directory.list()) {
        const bool isNeeded = names.contains(journal.name);
        if (isGone(journal)) {
            if (!isNeeded) forget(directory, journal);
            continue;
        }
        // Of one that is needed only the temporaries go, and only if it came to its end.
        if (isNeeded && directory.read(journal).state != WriteState::kApplied) continue;
        if (writer().recover(journal).blocked.empty() && !isNeeded) directory.remove(journal);
    }
}

}  // namespace gradus
