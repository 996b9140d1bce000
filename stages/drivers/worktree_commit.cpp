#include "stages/drivers/worktree_commit.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::string_view kDomain = "gradus.prepared-commit.1";
constexpr int kIndexAttempts = 40;
constexpr std::chrono::milliseconds kIndexNap{50};

/// What git leaves there while it is in the middle of something.
constexpr std::array<std::pair<const char*, const char*>, 6> kUnderWay = {{{"MERGE_HEAD", "a merge"},
                                                                           {"CHERRY_PICK_HEAD", "a cherry-pick"},
                                                                           {"REVERT_HEAD", "a revert"},
                                                                           {"rebase-merge", "a rebase"},
                                                                           {"rebase-apply", "a rebase"},
                                                                           {"sequencer", "a sequence of picks"}}};

Conflict conflictOf(ConflictKind kind, const std::string& path, std::string found) {
    return {kind, path, "", std::move(found), std::nullopt};
}

void encodeEntry(Canonical& out, const std::optional<GitEntry>& entry) {
    out.list(entry ? 1 : 0);
    if (entry) out.text(entry->mode).text(entry->id);
}

std::optional<GitEntry> decodeEntry(CanonicalReader& in) {
    if (in.list() == 0) return std::nullopt;
    GitEntry entry;
    entry.mode = in.text();
    entry.id = in.text();
    return entry;
}

std::optional<GitEntry> at(const GitEntries& entries, const std::string& path) {
    const auto found = entries.find(path);
    return found == entries.end() ? std::nullopt : std::optional(found->second);
}

std::string brief(const std::string& id) { return id.substr(0, 12); }

}  // namespace

std::string PreparedCommit::encode() const {
    Canonical out(kDomain);
    out.text(ref).text(parent.value_or("")).text(id).list(steps.size());
    for (const Step& step : steps) {
        out.text(step.path);
        encodeEntry(out, step.before);
        encodeEntry(out, step.after);
    }
    return out.bytes();
}

PreparedCommit PreparedCommit::decode(std::string_view bytes) {
    CanonicalReader in(bytes, kDomain);
    PreparedCommit commit;
    commit.ref = in.text();
    const std::string parent = in.text();
    if (!parent.empty()) commit.parent = parent;
    commit.id = in.text();
    for (std::uint64_t left = in.list(); left > 0; --left) {
        Step step;
        step.path = in.text();
        step.before = decodeEntry(in);
        step.after = decodeEntry(in);
        commit.steps.push_back(std::move(step));
    }
    in.end();
    return commit;
}

WorktreeCommit::WorktreeCommit(const DriverContext& context, const GitWorkTree& git)
    : context_(context),
      git_(git),
      plumbing_(git, context.files, "put that right, or leave `commit = true` out of the stage") {}

std::vector<Conflict> WorktreeCommit::conflicts(const StageChange& change) const {
    std::vector<Conflict> found;
    struct stat info {};
    if (::stat(git_.common.c_str(), &info) == 0 && info.st_uid != ::geteuid())
        found.push_back(
            conflictOf(ConflictKind::kNoPermission, ".git",
                       fmt::format("a repository of user {}, in which only that user should commit", info.st_uid)));
    for (const auto& [name, what] : kUnderWay)
        if (::lstat((git_.directory / name).c_str(), &info) == 0)
            found.push_back(conflictOf(ConflictKind::kNotCommitted, ".git", fmt::format("{} under way", what)));
    const FilesByPath files = filesOf(change.changes, git_.prefix);
    if (files.empty()) return found;
    addUncommitted(files, found);
    for (Conflict& conflict : filteredBy(plumbing_.conversions(plainFilesAfter(files)), files, context_.objects))
        found.push_back(std::move(conflict));
    return found;
}

// The commit takes whole files: each must be, before the change, what the branch has and what is staged.
void WorktreeCommit::addUncommitted(const FilesByPath& files, std::vector<Conflict>& found) const {
    const auto head = plumbing_.commitAt("HEAD");
    const GitEntries committed = head ? plumbing_.entriesOf(*head) : GitEntries();
    const GitEntries staged = plumbing_.stagedEntries();
    std::vector<std::string> ids;
    std::vector<const PathChange*> changes;
    for (const auto& [path, change] : files) {
        const auto entry = at(committed, path);
        if (at(staged, path) != entry)
            found.push_back(conflictOf(ConflictKind::kNotCommitted, change->path, "another version is staged"));
        else if (entry.has_value() != isFile(change->before))
            found.push_back(conflictOf(ConflictKind::kNotCommitted, change->path,
                                       entry ? "deleted, but not committed" : "a file that was never committed"));
        else if (entry && entry->mode != gitMode(*change->before))
            found.push_back(conflictOf(ConflictKind::kNotCommitted, change->path, "its mode is not committed"));
        else if (entry) {
            ids.push_back(entry->id);
            changes.push_back(change);
        }
    }
    plumbing_.readBlobs(ids, [&](std::size_t which, std::string_view bytes) {
        if (sha256(bytes) == changes[which]->before->digest) return;
        const bool isPointer = bytes.starts_with("version https://git-lfs.github.com/");
        found.push_back(conflictOf(isPointer ? ConflictKind::kFiltered : ConflictKind::kNotCommitted,
                                   changes[which]->path,
                                   isPointer ? "a file of git LFS" : "edits that are not committed"));
    });
}

std::optional<PreparedCommit> WorktreeCommit::prepare(const StageChange& change) {
    const FilesByPath files = filesOf(change.changes, git_.prefix);
    if (files.empty()) return std::nullopt;
    PreparedCommit commit;
    commit.ref = plumbing_.headRef();
    commit.parent = plumbing_.commitAt("HEAD");
    const GitEntries committed = commit.parent ? plumbing_.entriesOf(*commit.parent) : GitEntries();
    GitEntries entries = writeContents(plumbing_, context_, files);
    for (const auto& [path, one] : files)
        if (isSameContent(*one) && isFile(one->after)) entries[path] = {gitMode(*one->after), committed.at(path).id};
    GitPlumbing::NewCommit made{commit.parent,
                                std::move(entries),
                                {},
                                commitMessage(change, ""),
                                change.author.empty() ? "Gradus <gradus@localhost>" : oneLine(change.author),
                                toMillis(context_.clock.now()) / 1000};
    for (const auto& [path, one] : files) {
        const auto after = at(made.set, path);
        commit.steps.push_back({path, at(committed, path), after});
        if (!after) made.removed.push_back(path);
    }
    OwnIndex::tidy(context_);
    const OwnIndex index(context_, OwnIndex::For::kCommit);
    commit.id = plumbing_.writeCommit(made, index.path());
    return commit;
}

std::optional<Conflict> WorktreeCommit::land(const PreparedCommit& commit, std::vector<std::string>& notes) {
    const auto now = plumbing_.commitAt(commit.ref);
    const bool isThere = now && (*now == commit.id || plumbing_.isAncestor(commit.id, *now));
    if (!isThere && !plumbing_.moveRef(commit.ref, commit.parent, commit.id, "gradus: promote"))
        return Conflict{ConflictKind::kEdited, commit.ref, commit.parent.value_or("no commit"),
                        plumbing_.commitAt(commit.ref).value_or("no commit"), std::nullopt};
    if (!restage(commit, true))
        notes.push_back(indexLocked() + "; 'git reset' brings it up to date with the new commit");
    return std::nullopt;
}

bool WorktreeCommit::isLanded(const PreparedCommit& commit) const {
    const auto now = plumbing_.commitAt(commit.ref);
    if (!now || !(*now == commit.id || plumbing_.isAncestor(commit.id, *now))) return false;
    if (*now != commit.id || plumbing_.headRef() != commit.ref) return true;
    const GitEntries staged = plumbing_.stagedEntries();
    return std::ranges::none_of(commit.steps, [&](const PreparedCommit::Step& step) {
        return step.before != step.after && at(staged, step.path) == step.before;
    });
}

bool WorktreeCommit::isUntouched(const PreparedCommit& commit) const {
    const auto now = plumbing_.commitAt(commit.ref);
    if (now && (*now == commit.id || plumbing_.isAncestor(commit.id, *now))) return false;
    if (now != commit.parent || plumbing_.headRef() != commit.ref) return true;
    const GitEntries staged = plumbing_.stagedEntries();
    return std::ranges::none_of(commit.steps, [&](const PreparedCommit::Step& step) {
        return step.before != step.after && at(staged, step.path) == step.after;
    });
}

bool WorktreeCommit::restage(const PreparedCommit& commit, bool isForward) {
    if (isForward && plumbing_.headRef() != commit.ref) return true;
    const GitEntries staged = plumbing_.stagedEntries();
    std::map<std::string, std::optional<GitEntry>> entries;
    for (const PreparedCommit::Step& step : commit.steps) {
        const auto& from = isForward ? step.before : step.after;
        const auto& to = isForward ? step.after : step.before;
        if (from != to && at(staged, step.path) == from) entries[step.path] = to;
    }
    for (int attempt = 0; attempt < kIndexAttempts; ++attempt) {
        if (plumbing_.stage(entries)) return true;
        std::this_thread::sleep_for(kIndexNap);
    }
    return false;
}

std::string WorktreeCommit::indexLocked() const {
    return fmt::format("the index is locked by {} (another git; if none runs, a killed one left it: delete it)",
                       (git_.directory / "index.lock").native());
}

/// Whichever commit it is that has it: ours, one made of it, or one on another branch.
std::optional<std::string> WorktreeCommit::headWithIt(const PreparedCommit& commit) const {
    const auto head = plumbing_.commitAt("HEAD");
    if (!head) return std::nullopt;
    const GitEntries committed = plumbing_.entriesOf(*head);
    const bool hasIt = std::ranges::any_of(commit.steps, [&](const PreparedCommit::Step& step) {
        return step.before != step.after && at(committed, step.path) == step.after;
    });
    return hasIt ? head : std::nullopt;
}

// Where it is checked out, git would refuse to revert it: the files are as before already. They only need a commit.
std::vector<Kept> WorktreeCommit::takeBack(const PreparedCommit& commit) {
    if (plumbing_.commitAt(commit.ref) == commit.id)
        plumbing_.moveRef(commit.ref, commit.id, commit.parent, "gradus: roll back");
    const bool isStaged = restage(commit, false);
    const std::string branch = plumbing_.headRef();
    std::vector<Kept> kept;
    if (const auto head = headWithIt(commit))
        kept.push_back({branch, fmt::format("its commit {} still has what was taken back: {}", brief(*head),
                                            isStaged ? "the way back is staged, 'git commit' completes it"
                                                     : indexLocked() + "; 'git add' what is back, then 'git commit' "
                                                                       "completes it")});
    else if (!isStaged)
        kept.push_back({".git/index", indexLocked() + "; 'git reset' brings it up to date with the branch"});
    const auto now = plumbing_.commitAt(commit.ref);
    const bool isThere = now && (now == commit.id || plumbing_.isAncestor(commit.id, *now));
    if (isThere && (branch != commit.ref || kept.empty()))
        kept.push_back({commit.ref, fmt::format("there are commits after {0}, so that one stays: 'git revert {0}' on "
                                                "that branch undoes it",
                                                brief(commit.id))});
    return kept;
}

}  // namespace gradus
