#include "stages/changes/tree_writer.h"

#include <algorithm>
#include <array>
#include <memory>

#include "stages/changes/tree_writer_apply.h"
#include "stages/changes/tree_writer_pack.h"
#include "stages/changes/tree_writer_plan.h"
#include "stages/changes/tree_writer_staging.h"
#include "stages/changes/tree_writer_undo.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kMostShown = 10;
constexpr std::size_t kNameBytes = 8;

constexpr std::array kReasons{
    Name<ConflictKind>{ConflictKind::kEdited, "it is not what the change expects"},
    Name<ConflictKind>{ConflictKind::kGone, "it is gone"},
    Name<ConflictKind>{ConflictKind::kInTheWay, "something is in the way"},
    Name<ConflictKind>{ConflictKind::kUnknownBefore, "what was there before is not known"},
    Name<ConflictKind>{ConflictKind::kNotEmpty, "the directory is not empty"},
    Name<ConflictKind>{ConflictKind::kParentIsLink, "parent is a symbolic link"},
    Name<ConflictKind>{ConflictKind::kParentMissing, "parent is not a directory"},
    Name<ConflictKind>{ConflictKind::kMountPoint, "it lies on another mount"},
    Name<ConflictKind>{ConflictKind::kSpecialMode, "setuid, setgid and sticky are refused"},
    Name<ConflictKind>{ConflictKind::kProtected, "protected path: a rule must allow it"},
    Name<ConflictKind>{ConflictKind::kReserved, "the name is reserved for temporaries of gradus"},
    Name<ConflictKind>{ConflictKind::kCaseClash, "this file system does not tell the letter case of names apart"},
    Name<ConflictKind>{ConflictKind::kNoPermission, "permission denied"},
    Name<ConflictKind>{ConflictKind::kNoSpace, "not enough space"},
    Name<ConflictKind>{ConflictKind::kContentMissing, "its new content is not stored"},
    Name<ConflictKind>{ConflictKind::kShared,
                       "all releases share it (`shared` of the stage), so no change may touch it"},
    Name<ConflictKind>{ConflictKind::kForeign, "it lies in another repository, which is left alone"},
    Name<ConflictKind>{ConflictKind::kNotCommitted, "a commit would take along what you have not committed"},
    Name<ConflictKind>{ConflictKind::kFiltered, "git stores it in another form, so it is left to you to commit"},
    Name<ConflictKind>{ConflictKind::kOtherTree, "another tree is there than the one on record"},
};

std::string listed(const std::vector<Conflict>& conflicts) {
    std::string text;
    for (std::size_t i = 0; i < std::min(conflicts.size(), kMostShown); ++i)
        text += (i == 0 ? " " : "; ") + describe(conflicts[i]);
    if (conflicts.size() > kMostShown) text += fmt::format("; and {} more", conflicts.size() - kMostShown);
    return text;
}

[[noreturn]] void throwRefused(const std::vector<Conflict>& conflicts) {
    // That says nothing about the change: with more room the same one goes in.
    if (std::ranges::all_of(conflicts, [](const Conflict& one) { return one.kind == ConflictKind::kNoSpace; }))
        throw Error(ErrorCode::kInfrastructure, "nothing was written:{}", listed(conflicts))
            .hint("free space there, then try again");
    throw Error(ErrorCode::kNotAllowed, "nothing was written:{}", listed(conflicts))
        .hint("bring the change up to date with the tree, or the tree in order, then try again");
}

std::string freshName(Random& random) { return toHex(random.bytes(kNameBytes)); }

}  // namespace

std::string describe(const std::optional<Entry>& entry) {
    if (!entry) return "nothing";
    if (entry->type == EntryType::kDirectory) return fmt::format("a directory, mode {:o}", entry->mode);
    if (entry->type == EntryType::kSymlink) return fmt::format("a symbolic link, {}", entry->digest.brief());
    return fmt::format("a file of {} bytes, mode {:o}, {}", entry->size, entry->mode, entry->digest.brief());
}

std::string describe(const Sighting& seen) {
    if (!seen.exists) return "nothing";
    if (S_ISLNK(seen.mode)) return "a symbolic link";
    if (S_ISREG(seen.mode)) return fmt::format("a file of {} bytes, mode {:o}", seen.size, seen.permissions());
    return fmt::format("{}, mode {:o}", fileTypeName(seen.mode), seen.permissions());
}

std::string describe(const Conflict& conflict) {
    std::string text = fmt::format("'{}': {}", printable(conflict.path), nameOf(kReasons, conflict.kind));
    if (!conflict.expected.empty()) text += fmt::format("; expected {}", printable(conflict.expected));
    if (!conflict.found.empty()) text += fmt::format("; found {}", printable(conflict.found));
    if (conflict.owner) text += fmt::format(" of user {}", *conflict.owner);
    return text;
}

Conflict conflictOf(ConflictKind kind, const PathChange& change, const Sighting& seen) {
    Conflict conflict{kind, change.path, describe(change.before), describe(seen), std::nullopt};
    if (seen.exists) conflict.owner = seen.user;
    return conflict;
}

TreeWriter::TreeWriter(const std::filesystem::path& root, std::filesystem::path journals, Objects& objects,
                       FileOperations& files, Random& random)
    : root_(root), journals_(std::move(journals), files), objects_(objects), files_(files), random_(random) {}

Plan TreeWriter::plan(const ChangeSet& changes, const PlanOptions& options) const {
    return Planner(root_, objects_, options).plan(changes);
}

JournalRef TreeWriter::seal(const Plan& plan) {
    if (!plan.isClear()) throwRefused(plan.conflicts);
    Journal journal;
    journal.name = freshName(random_);
    journal.root = root_.path().native();
    journal.rootInode = root_.inode();
    journal.staging = std::string(Staging::kPrefix) + journal.name;
    journal.changes = plan.changes;
    journal.locked = plan.locked;
    try {
        journal.undo = packBefore(root_, plan.changes, objects_);
    } catch (const Moved& moved) {
        throwRefused({{ConflictKind::kEdited, moved.path, "what was there when it was planned", "", std::nullopt}});
    }
    journals_.create(journal);
    return journal.ref();
}

Journal TreeWriter::open(const JournalRef& ref) const {
    Journal journal = journals_.read(ref);
    if (isAboutHere(journal)) return journal;
    if (journal.root != root_.path().native())
        throw Error(ErrorCode::kUsage, "the journal {} is about {}, not about {}", ref.name, journal.root,
                    root_.path().native())
            .hint("open the directory that it names");
    throw Error(ErrorCode::kNotAllowed, "the directory that was at {} is gone, and another one is in its place",
                journal.root)
        .hint("what was written into the old one went with it; submit the change anew to have it here");
}

bool TreeWriter::isAboutHere(const Journal& journal) const {
    return journal.state == WriteState::kPlanned || journal.rootInode == root_.inode();
}

WriteState TreeWriter::stateOf(const JournalRef& ref) const { return open(ref).state; }

ApplyReport TreeWriter::apply(const JournalRef& ref) {
    const FileDescriptor lock = root_.lock();
    Journal journal = open(ref);
    if (journal.state == WriteState::kApplied) return {true, {}, {}, tidy(journal)};
    if (journal.state != WriteState::kSealed)
        throw Error(ErrorCode::kNotAllowed, "the journal {} is {}, so it cannot be applied", ref.name,
                    nameOf(kWriteStates, journal.state))
            .hint("plan and seal the change anew");
    auto applier = std::make_unique<Applier>(root_, files_, journal, objects_);
    try {
        applier->run();
        journals_.advance(journal, WriteState::kApplied);
    } catch (const Collision& collision) {
        // It goes first: what it holds open may be what is missing to take things back.
        applier.reset();
        const UndoReport back = takeBack(journal, describe(collision.conflict));
        return {false, {collision.conflict}, back.kept, back.saved};
    } catch (const std::exception& fault) {
        applier.reset();
        takeBack(journal, fault.what());
        throw;
    }
    return finished(*applier);
}

/// Whatever happens to the temporaries, the change is in place; what is left of them goes with the next recover().
ApplyReport TreeWriter::finished(Applier& applier) {
    for (int attempt = 0;; ++attempt) try {
            return {true, {}, {}, applier.tidy()};
        } catch (const Error&) {
            if (attempt > 0) return {true, {}, {}, {}};
        }
}

// The journal is read again: its last record may say more than we were told, when a sync failed after the bytes
// arrived.
UndoReport TreeWriter::takeBack(Journal& journal, const std::string& cause) {
    try {
        journal = journals_.read(journal.ref());
        UndoReport report = undoOpened(journal);
        if (!report.blocked.empty())
            throw Error(ErrorCode::kInfrastructure, "'{}': {}", printable(report.blocked.front().path),
                        report.blocked.front().reason);
        return report;
    } catch (const Error& fault) {
        throw Error(ErrorCode::kInfrastructure, "{}; and what was written could not be taken back: {}", cause,
                    fault.what())
            .hint("put the cause right, then recover the journal " + journal.name);
    }
}

UndoReport TreeWriter::undo(const JournalRef& ref) {
    const FileDescriptor lock = root_.lock();
    Journal journal = open(ref);
    return undoOpened(journal);
}

UndoReport TreeWriter::undoOpened(Journal& journal) {
    if (journal.state == WriteState::kPlanned) return {};
    if (journal.state == WriteState::kUndone) return {journal.left, {}, tidy(journal)};
    Undoer undoer(root_, files_, journal, objects_);
    if (journal.state == WriteState::kApplied) {
        journal.kept = undoer.edited();
        journals_.advance(journal, WriteState::kUndoing);
    }
    undoer.run();
    // Before the temporaries go: whoever comes after a crash among them has only this to tell what was kept.
    if (undoer.blocked().empty()) {
        journal.left = undoer.left();
        journals_.advance(journal, WriteState::kUndone);
    }
    return {undoer.kept(), undoer.blocked(), undoer.tidy()};
}

UndoOutlook TreeWriter::outlook(const JournalRef& ref) const { return outlookOf(root_, open(ref)); }

std::vector<std::string> TreeWriter::letBe(const JournalRef& ref) {
    const FileDescriptor lock = root_.lock();
    std::vector<std::string> saved = tidy(open(ref));
    journals_.setAside(ref);
    return saved;
}

UndoReport TreeWriter::recover(const JournalRef& ref) {
    const FileDescriptor lock = root_.lock();
    Journal journal = open(ref);
    if (journal.state == WriteState::kApplied) return {{}, {}, tidy(journal)};
    return undoOpened(journal);
}

std::vector<std::string> TreeWriter::tidy(const Journal& journal) { return Staging(root_, files_, journal).remove({}); }

Observation TreeWriter::observe(const JournalRef& ref) const {
    const Journal journal = open(ref);
    Observation observation;
    std::size_t before = 0;
    for (std::size_t i = 0; i < journal.changes.changes().size(); ++i) {
        const std::string& path = journal.changes.changes()[i].path;
        const Standing standing = lookAt(root_, journal.changes, i).standing;
        if (standing == Standing::kBefore) ++before;
        if (standing == Standing::kAfter) observation.after.push_back(path);
        if (standing == Standing::kNeither || standing == Standing::kBlocked) observation.neither.push_back(path);
    }
    using State = Observation::State;
    const std::size_t all = journal.changes.changes().size();
    if (all > 0 && observation.after.size() == all) return {State::kAfter, {}, {}};
    if (before == all) return {State::kBefore, {}, {}};
    observation.state = State::kBetween;
    return observation;
}

}  // namespace gradus
