#include <fcntl.h>

#include <algorithm>

#include "pipeline/service/service.h"
#include "stages/changes/change_sources.h"
#include "stages/changes/git_work_tree.h"
#include "stages/changes/hazards.h"
#include "stages/changes/patch.h"
#include "stages/changes/patch_identity.h"
#include "stages/changes/tracked_names.h"
#include "stages/changes/work_tree.h"
#include "stages/drivers/git_plumbing.h"
#include "stages/sandbox/clone_commit.h"
#include "store/change_sets.h"
#include "store/file.h"
#include "store/model/actor_name.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostBase = 4096;
constexpr std::int64_t kAllChanges = 1'000'000;
constexpr std::size_t kLongestTitle = 200;
constexpr std::int64_t kLookedBack = 100;

/// "sue", or "person:sue" as the record has it.
Actor sponsorNamed(const std::string& text) {
    const std::size_t colon = text.find(':');
    const auto kind = colon == std::string::npos ? std::nullopt : fromName(kActorKinds, text.substr(0, colon));
    if (kind && *kind != ActorKind::kPerson)
        throw Error(ErrorCode::kUsage, "'{}' is no person, and a sponsor is one", printable(text))
            .hint("name the person that the agent acts for: --sponsor sue");
    std::string name = kind ? text.substr(colon + 1) : text;
    requireActorName("--sponsor", name);
    return {ActorKind::kPerson, std::move(name)};
}

GitWorkTree repositoryOf(const fs::path& root) {
    auto tree = findWorkTree(root);
    if (!tree)
        throw Error(ErrorCode::kUsage, "{} lies in no git repository", root.native())
            .hint("git init and commit first, or submit a patch, a list of files or a sandbox: gradus submit --help");
    refuseForeign(*tree, root);
    return *tree;
}

/// Paths of the project that a merge has left open. Nothing that the repository names is run for it.
std::vector<std::string> unmergedIn(const GitWorkTree& tree) {
    constexpr std::uint64_t kLargestIndex = std::uint64_t{1} << 30;
    std::vector<std::string> paths;
    const auto add = [&](const std::string& path) {
        if (path.starts_with(tree.prefix)) paths.push_back(path.substr(tree.prefix.size()));
    };
    const auto bytes = readPlainFile(AT_FDCWD, tree.directory / "index", kLargestIndex);
    const auto names = bytes ? TrackedNames::parse(*bytes) : std::nullopt;
    if (!names) return paths;
    if (names->sharedWith().empty()) {
        for (const std::string& path : names->unmerged()) add(path);
        return paths;
    }
    // Half of it is in another file: git puts the two together.
    RealFileOperations files;
    for (const auto& [path, entry] : GitPlumbing(tree, files).stagedEntries())
        if (entry.mode == "conflict") add(path);
    return paths;
}

/// What a merge leaves in such files is for a person to read, not for a stage to run.
void refuseUnmerged(const GitWorkTree& tree) {
    constexpr std::size_t kMostNamed = 10;
    const std::vector<std::string> paths = unmergedIn(tree);
    if (paths.empty()) return;
    std::string named;
    for (std::size_t i = 0; i < std::min(paths.size(), kMostNamed); ++i)
        named += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(paths[i]));
    if (paths.size() > kMostNamed) named += fmt::format(" and {} more", paths.size() - kMostNamed);
    throw Error(ErrorCode::kNotAllowed, "the work tree is in the middle of a merge, and not yet merged: {}", named)
        .hint("finish it (edit, git add, git commit), or give it up: git merge --abort, git rebase --abort");
}

fs::path prefixOf(const GitWorkTree& tree) {
    return tree.prefix.empty() ? fs::path() : fs::path(tree.prefix.substr(0, tree.prefix.size() - 1));
}

FoundChange fromCommit(const fs::path& root, const std::string& name, Objects& objects) {
    const GitWorkTree tree = repositoryOf(root);
    const GitObjects git(tree.directory);
    const std::string id = git.resolveCommit(name);
    const std::vector<std::string> parents = git.commit(id).parents;
    const auto parent = parents.empty() ? std::nullopt : std::optional(parents.front());
    return changeOfCommits(git, prefixOf(tree), parent, id, objects);
}

FoundChange fromRange(const fs::path& root, const std::string& range, Objects& objects) {
    const std::size_t dots = range.find("..");
    if (dots == std::string::npos || dots == 0 || range.find("...") != std::string::npos)
        throw Error(ErrorCode::kUsage, "'{}' is no range", printable(range)).hint("write A..B: from A to B");
    const GitWorkTree tree = repositoryOf(root);
    const GitObjects git(tree.directory);
    const std::string to = range.substr(dots + 2);
    return changeOfCommits(git, prefixOf(tree), git.resolveCommit(range.substr(0, dots)),
                           git.resolveCommit(to.empty() ? "HEAD" : to), objects);
}

FoundChange fromPatch(const fs::path& root, const std::string& text, Objects& objects) {
    FoundChange found;
    const Patch patch = parsePatch(text);
    found.title = patch.title;
    PatchedChange patched = applyPatch(patch, DirectoryReader(root), objects);
    for (const PatchFault& fault : patched.faults) found.faults.push_back(fault.text());
    found.changes = std::move(patched.changes);
    found.notes = std::move(patched.notes);
    return found;
}

std::string madeUpTitle(const ChangeSet& changes) {
    const std::string first = printable(changes.changes().front().path);
    const std::size_t others = changes.changes().size() - 1;
    return others == 0 ? fmt::format("Change {}", first) : fmt::format("Change {} and {} more", first, others);
}

std::string oneLine(const std::string& title) {
    std::string line = title.substr(0, title.find('\n'));
    if (firstInvalidUtf8(line)) line = printable(line);
    return std::string(cutToWidth(line, kLongestTitle));
}

std::string nameOf(const Actor& actor) { return fmt::format("{}:{}", nameOf(kActorKinds, actor.kind), actor.name); }

std::optional<Change> findChange(const Records& records, std::int64_t project, const Handle& handle) {
    if (handle.kind == HandleKind::kLatest) {
        const auto latest = records.latestChange(project);
        return latest ? records.change(*latest) : std::nullopt;
    }
    if (handle.kind == HandleKind::kChange)
        return handle.revision ? records.change(handle.number, *handle.revision) : records.change(handle.number);
    if (handle.kind != HandleKind::kDigestPrefix) return std::nullopt;
    std::optional<Change> found;
    for (const Change& change : records.changes(project, kAllChanges)) {
        if (!change.changeSet.hex().starts_with(handle.digestPrefix)) continue;
        if (found && found->changeSet != change.changeSet)
            throw Error(ErrorCode::kUsage, "'{}' is the beginning of several changes", handle.digestPrefix)
                .hint("write more of it");
        if (!found) found = change;
    }
    return found;
}

}  // namespace

bool namesChange(const std::string& words) {
    const auto handle = parseHandle(words);
    return handle && handle->kind != HandleKind::kSandbox && handle->kind != HandleKind::kPromotion;
}

BaseFingerprint Service::baseNow(const fs::path& root) const {
    return readWorkTree({.project = root, .cache = state().treeCache(root)}).fingerprint;
}

// Inside, where what a stranger's repository makes of git harms nobody. Without an answer there are no words.
void Service::describeByCommit(FoundChange& found, const SandboxRecord& sandbox, const fs::path& project) {
    const std::string since = found.base.commit.empty() ? "HEAD" : found.base.commit + "..HEAD";
    CommandRequest request =
        confined(project, {.command = {"git", "log", "-1", "--no-show-signature", "--format=%an <%ae>%n%B", since}});
    request.reads = true;
    const ExecutionReport told = sandboxes().exec(sandbox.id, request);
    if (!told.execution.success() || told.out.truncated) return;
    std::string text = told.out.text();
    found.author = text.substr(0, text.find('\n'));
    text.erase(0, found.author.size() + 1);
    found.title = text.substr(0, text.find('\n'));
    const std::size_t rest = text.find_first_not_of('\n', found.title.size());
    if (rest != text.npos) found.message = text.substr(rest, text.find_last_not_of('\n') + 1 - rest);
    if (firstInvalidUtf8(found.message)) found.message.clear();
}

// What was applied and taken out again is as it was when the sandbox began, and only its times are new. What the
// sandbox stood on then was put on record with what was handed in before.
ChangeSet Service::withEarlierBefore(std::int64_t sandbox, const fs::path& project, const ChangeSet& changes,
                                     const Objects& store) {
    const auto isKnown = [](const PathChange& change) { return change.beforeKnown; };
    if (std::ranges::all_of(changes.changes(), isKnown)) return changes;
    const Records& records = existing().records();
    const auto id = records.findProject(identify(project));
    std::vector<PathChange> all = changes.changes();
    for (const Digest& set : id ? records.changeSetsOf(*id, sandbox) : std::vector<Digest>()) {
        if (!store.contains(set)) continue;
        const ChangeSet earlier = readChanges(store, set);
        for (PathChange& change : all) {
            const auto was = std::ranges::find(earlier.changes(), change.path, &PathChange::path);
            if (change.beforeKnown || was == earlier.changes().end() || !was->beforeKnown) continue;
            change.before = was->before;
            change.beforeKnown = true;
        }
    }
    return ChangeSet(std::move(all));
}

FoundChange Service::changeOfSandbox(const fs::path& directory, const std::string& words, bool withIgnored,
                                     bool described) {
    const auto expired = expiredSandbox(words);
    const SandboxRecord record = expired ? expired->record : sandbox(words);
    SandboxView view;
    view.project = expired ? expired->project : sandboxes().view(record.id).project;
    Objects store = objects();
    Harvest harvest;
    if (expired)
        harvest.changes = expired->changes;
    else
        harvest = sandboxes().diff(record.id, {.withIgnored = withIgnored, .keep = &store});
    FoundChange found{.sandbox = record.id};
    fs::path base = view.project;
    if (record.commit) {
        base = materialise(view.project, *record.commit, state().root / "commits").tree;
        found.base = {*record.commit, ChangeSet().digest()};
    } else {
        found.base = baseNow(view.project);
    }
    if (view.project != projectRoot(directory))
        throw Error(ErrorCode::kUsage, "sandbox {} is of the project {}", sandboxHandle(record.id),
                    view.project.native())
            .hint(fmt::format("go there, or add -C '{}'", view.project.native()));
    found.changes =
        withContents(withEarlierBefore(record.id, view.project, harvest.changes, store), DirectoryReader(base), store);
    for (const Unharvested& item : harvest.refused)
        found.notes.push_back(fmt::format("{}: left out: {}", item.path, item.reason));
    if (harvest.ignored > 0 && !withIgnored)
        found.notes.push_back(fmt::format("{} files that git ignores are left out", harvest.ignored));
    if (harvest.system && harvest.system->entries > 0)
        found.notes.push_back(
            fmt::format("{} outside of the project stay in the sandbox: a change is of the project alone",
                        harvest.system->entries == 1 ? "1 entry" : fmt::format("{} entries", harvest.system->entries)));
    if (harvest.inRepository > 0)
        found.notes.push_back(
            fmt::format("{} files of the repository itself (.git) are left out", harvest.inRepository));
    if (harvest.inRepository > 0 && described) describeByCommit(found, record, view.project);
    return found;
}

FoundChange Service::takeChange(const fs::path& directory, const ChangeSource& source, Objects& store) {
    const fs::path root = projectRoot(directory);
    requireStateOutside(root);
    if (source.sandbox) return changeOfSandbox(directory, *source.sandbox, source.withIgnored, true);
    if (source.commit) return fromCommit(root, *source.commit, store);
    if (source.range) return fromRange(root, *source.range, store);
    if (source.worktree) {
        refuseUnmerged(repositoryOf(root));
        WorkTree read = readWorkTree({.project = root, .cache = state().treeCache(root), .keep = &store});
        if (read.fingerprint.commit.empty())
            throw Error(ErrorCode::kNotAllowed, "{} has no commit to compare with", root.native())
                .hint("make the first one: git add -A && git commit; or try the change in a sandbox: gradus try");
        return {.changes = std::move(read.differences),
                .base = {read.fingerprint.commit, ChangeSet().digest()},
                .notes = std::move(read.notes)};
    }
    FoundChange found = source.patch ? fromPatch(root, *source.patch, store)
                                     : changeOfFiles(source.files.value_or(""), DirectoryReader(root), store);
    found.base = baseNow(root);
    return found;
}

SubmitReport Service::submit(const fs::path& directory, const SubmitRequest& request) {
    writing();
    Objects store = objects();
    return enterChange(projectRoot(directory), takeChange(directory, request.source, store), request);
}

SubmitReport Service::enterChange(const fs::path& root, FoundChange found, const SubmitRequest& request) {
    const auto sponsor = request.sponsor ? std::optional(sponsorNamed(*request.sponsor)) : std::nullopt;
    Objects store = objects();
    SubmitReport report{.changes = std::move(found.changes), .base = found.base, .notes = std::move(found.notes)};
    report.faults = std::move(found.faults);
    if (report.changes.empty() || !report.faults.empty()) return report;
    // The work tree holds already what comes from there, so it says nothing about what is new.
    const DirectoryReader there(root);
    const bool isElsewhere = !request.source.worktree && !request.source.commit && !request.source.range;
    for (const std::string& hazard : hazardsOf(report.changes, store, isElsewhere ? &there : nullptr))
        report.notes.push_back("look at this: " + hazard);
    report.title = oneLine(request.title.value_or(found.title));
    if (report.title.empty()) report.title = madeUpTitle(report.changes);
    if (request.dryRun) return report;

    Submission submission{.changeSet = store.put(report.changes.encode()),
                          .base = store.put(report.base.encode()),
                          .patch = patchIdentity(report.changes, store),
                          .title = report.title,
                          .labels = request.labels,
                          .sponsor = std::nullopt,
                          .message = found.message,
                          .author = firstInvalidUtf8(found.author) ? "" : found.author,
                          .fromWorkTree = request.source.worktree,
                          .sandbox = found.sandbox};
    std::int64_t id = 0;
    record([&](Writer& writer) {
        const ActorId by = writer.actor(caller());
        if (sponsor) submission.sponsor = writer.actor(*sponsor);
        id = writer.submit(writer.project(identify(root), by), by, submission);
    });
    report.change = writing().records().change(id);
    return report;
}

// What was submitted before is not submitted again: the same bytes on the same ground are the same change.
Change Service::submitOnce(const fs::path& directory, const ChangeSource& source,
                           const std::optional<std::string>& title) {
    writing();
    Objects store = objects();
    FoundChange found = takeChange(directory, source, store);
    for (const std::string& note : found.notes) around_.warn(note);
    if (!found.faults.empty() || found.changes.empty())
        throw Error(ErrorCode::kNotFound, "there is nothing to promote: {}",
                    found.faults.empty() ? "nothing was changed" : found.faults.front())
            .hint("`gradus ls` lists the changes that there are");
    const Digest set = found.changes.digest();
    const fs::path root = projectRoot(directory);
    if (const auto project = writing().records().findProject(identify(root)))
        for (const Change& change : writing().records().changes(*project, kLookedBack))
            if (change.changeSet == set && change.base == found.base.digest()) return change;
    return *enterChange(root, std::move(found), {.source = source, .title = title}).change;
}

ChangeView Service::viewOf(const Store& store, const Change& change) const {
    const Objects all = objects();
    ChangeView view{.change = change};
    view.changes = readChanges(all, change.changeSet);
    if (all.contains(change.base)) view.base = BaseFingerprint::decode(all.readAll(change.base, kMostBase));
    if (const auto actor = store.records().actor(change.actor)) view.actor = nameOf(*actor);
    if (change.sponsor)
        if (const auto sponsor = store.records().actor(*change.sponsor)) view.sponsor = sponsor->name;
    return view;
}

ChangeView Service::viewChange(const fs::path& directory, const std::string& words) {
    Store* const store = reading();
    const auto project =
        store != nullptr ? store->records().findProject(identify(projectRoot(directory))) : std::nullopt;
    const auto handle = parseHandle(words);
    const auto found = project && handle ? findChange(store->records(), *project, *handle) : std::nullopt;
    if (!found && handle && handle->kind == HandleKind::kPromotion)
        throw Error(ErrorCode::kNotFound, "{} is a promotion, not a change", promotionHandle(handle->number))
            .hint(fmt::format("`gradus why {}` tells of it and names its change", promotionHandle(handle->number)));
    if (!found && handle && handle->kind == HandleKind::kSandbox)
        throw Error(ErrorCode::kNotFound, "{} is a sandbox, not a change", sandboxHandle(handle->number))
            .hint(fmt::format("gradus sandbox show {}", sandboxHandle(handle->number)));
    if (!found && words == "@")
        throw Error(ErrorCode::kNotFound, "no change was submitted in this project yet")
            .hint("gradus submit --worktree");
    if (!found || found->project != *project)
        throw Error(ErrorCode::kNotFound, "there is no change '{}' in this project", printable(words))
            .hint("`gradus ls` lists the changes");
    return viewOf(*store, *found);
}

BaseDrift Service::groundOf(const fs::path& directory, const BaseFingerprint& base) const {
    const auto tree = base.commit.empty() ? std::nullopt : findWorkTree(projectRoot(directory));
    if (!tree) return {};
    const GitObjects git(tree->directory);
    const auto head = git.findCommit("HEAD");
    const auto distance = head && git.findCommit(base.commit) ? git.distance(base.commit, *head) : std::nullopt;
    if (!distance) return {.kind = BaseDrift::Kind::kGone};
    BaseDrift ground{BaseDrift::Kind::kSame, distance->ahead, distance->behind};
    if (ground.ahead > 0) ground.kind = BaseDrift::Kind::kAhead;
    if (ground.behind > 0) ground.kind = BaseDrift::Kind::kDiverged;
    return ground;
}

std::vector<ChangeView> Service::listChanges(const fs::path& directory, std::int64_t limit) {
    std::vector<ChangeView> views;
    Store* const store = reading();
    const auto project =
        store != nullptr ? store->records().findProject(identify(projectRoot(directory))) : std::nullopt;
    if (!project) return views;
    for (const Change& change : store->records().changes(*project, limit)) views.push_back(viewOf(*store, change));
    return views;
}

WrittenPatch Service::patchOf(const ChangeSet& changes, const BaseFingerprint& base) {
    return writePatch(changes, objects(), namingOf(base.commit));
}

RebaseReport Service::rebase(const fs::path& directory, const std::string& words, bool dryRun) {
    writing();
    const ChangeView view = viewChange(directory, words);
    const fs::path root = projectRoot(directory);
    Objects store = objects();
    RebaseReport report{.change = view.change};
    const BaseFingerprint base = baseNow(root);
    report.merge = mergeOnto(view.changes, DirectoryReader(root), store);
    // What is there already is no reason for a revision: elsewhere it may not be.
    if (!report.merge.conflicts.empty() || report.merge.whole == view.changes || dryRun) return report;
    if (baseNow(root) != base)
        throw Error(ErrorCode::kBusy, "the project changed while the change was merged").hint("call again");
    const ChangeSet merged = withContents(report.merge.whole, DirectoryReader(root), store);
    const Submission submission{.changeSet = store.put(merged.encode()),
                                .base = store.put(base.encode()),
                                .patch = patchIdentity(merged, store),
                                .title = view.change.title.value_or(""),
                                .labels = view.change.labels,
                                .sponsor = view.change.sponsor,
                                .message = view.change.message,
                                .author = view.change.author};
    record([&](Writer& writer) { writer.revise(view.change.id, writer.actor(caller()), submission); });
    report.change = *writing().records().change(view.change.id);
    report.revised = true;
    return report;
}

}  // namespace gradus
