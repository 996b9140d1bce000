#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/sandbox_views.h"
#include "pipeline/cli/shell_word.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
#include "stages/changes/patch.h"
#include "store/file.h"
#include "store/model/handle.h"
#include "store/model/names.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kMostShown = 50;
constexpr std::int64_t kMostListed = 10000;

constexpr std::array kConflictKinds{
    Name<MergeConflictKind>{MergeConflictKind::kContent, "content"},
    Name<MergeConflictKind>{MergeConflictKind::kBinary, "binary"},
    Name<MergeConflictKind>{MergeConflictKind::kBothAdded, "both-added"},
    Name<MergeConflictKind>{MergeConflictKind::kDeletedHere, "deleted-here"},
    Name<MergeConflictKind>{MergeConflictKind::kEditedHere, "edited-here"},
    Name<MergeConflictKind>{MergeConflictKind::kType, "type"},
    Name<MergeConflictKind>{MergeConflictKind::kMode, "mode"},
    Name<MergeConflictKind>{MergeConflictKind::kUnknownBefore, "unknown-before"},
    Name<MergeConflictKind>{MergeConflictKind::kNoAncestor, "no-ancestor"},
};

std::string revisionHandle(const Change& change) {
    return fmt::format("{}.{}", changeHandle(change.id), change.revision);
}

Json changeJson(const Change& change) {
    return {{"id", changeHandle(change.id)},
            {"revision", revisionHandle(change)},
            {"digest", change.changeSet.hex()},
            {"patch", change.patch.hex()},
            {"title", change.title ? Json(*change.title) : Json()},
            {"message", change.message},
            {"labels", change.labels},
            {"submitted_at", formatTime(change.submittedAt)}};
}

Json viewJson(const ChangeView& view) {
    Json json = changeJson(view.change);
    json["actor"] = view.actor;
    json["sponsor"] = view.sponsor ? Json(*view.sponsor) : Json();
    json["base"] = {{"commit", view.base.commit.empty() ? Json() : Json(view.base.commit)},
                    {"tree", view.base.tree.hex()}};
    return json;
}

void addPaths(Json& data, const ChangeSet& changes) {
    Json whole = Json::object();
    addChanges(whole, Harvest{.changes = changes});
    data["changes"] = whole["changes"];
}

std::string pathsText(const ChangeSet& changes, const Paint& paint, std::size_t most) {
    return changesText(Harvest{.changes = changes}, paint, most);
}

std::string readInput(const Context& context) {
    const auto input = context.host.input();
    if (!input) throw usageError("submit", "'-' reads what is piped in, and nothing is", "gradus submit --patch FILE");
    std::string text;
    std::array<char, 65536> space{};
    while (true) {
        const ssize_t got = ::read(*input, space.data(), space.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw Error(ErrorCode::kInfrastructure, "cannot read the input: {}", errnoText(errno));
        if (got == 0) return text;
        text.append(space.data(), static_cast<std::size_t>(got));
        if (text.size() > kLongestPatch)
            throw Error(ErrorCode::kNotAllowed, "the input is larger than {} bytes", kLongestPatch);
    }
}

std::string textOf(const Context& context, const std::string& file, std::string_view what) {
    if (file == "-") return readInput(context);
    const std::filesystem::path path = context.host.directory() / file;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path)))
        throw usageError("submit", fmt::format("there is no file {}", printable(path.native())));
    return readSmallFile(path, kLongestPatch, what);
}

// A list of files begins with a bracket, which no patch does.
void takeInput(ChangeSource& source, std::string text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool isList = first != std::string::npos && text[first] == '[';
    (isList ? source.files : source.patch) = std::move(text);
}

ChangeSource sourceOf(const Context& context) {
    const Arguments& said = context.arguments;
    ChangeSource source{.sandbox = said.value("from-sandbox"),
                        .commit = said.value("commit"),
                        .range = said.value("range"),
                        .worktree = said.flag("worktree"),
                        .withIgnored = said.flag("with-ignored")};
    const auto patch = said.value("patch");
    const auto files = said.value("files");
    const bool piped = said.positional("SOURCE").has_value();
    const int count = (source.sandbox ? 1 : 0) + (source.commit ? 1 : 0) + (source.range ? 1 : 0) +
                      (source.worktree ? 1 : 0) + (patch ? 1 : 0) + (files ? 1 : 0) + (piped ? 1 : 0);
    if (count != 1)
        throw usageError("submit",
                         count == 0 ? "nothing says where the change comes from" : "a change comes from one place",
                         "gradus submit --worktree");
    if (patch) source.patch = textOf(context, *patch, "the patch");
    if (files) source.files = textOf(context, *files, "the list of files");
    if (piped) takeInput(source, readInput(context));
    return source;
}

Problem problemOf(std::string code, std::string message, std::string hint = {}) {
    return {.code = std::move(code), .message = std::move(message), .hint = std::move(hint)};
}

std::string lines(const std::vector<std::string>& texts, std::string_view indent) {
    std::string all;
    for (const std::string& text : texts) all += fmt::format("{}{}\n", indent, printable(text));
    return all;
}

Result submit(Service& service, Context& context) {
    const Arguments& said = context.arguments;
    const SubmitReport report = service.submit(context.host.directory(), {.source = sourceOf(context),
                                                                          .title = said.value("title"),
                                                                          .labels = said.values("label"),
                                                                          .sponsor = said.value("sponsor"),
                                                                          .dryRun = said.flag("dry-run")});
    Result result;
    if (report.change) result.data["change"] = changeJson(*report.change);
    addPaths(result.data, report.changes);
    result.data["base"] = {{"commit", report.base.commit.empty() ? Json() : Json(report.base.commit)}};
    result.data["notes"] = report.notes;
    result.data["faults"] = report.faults;
    for (const std::string& note : report.notes) context.progress.text("note: " + printable(note));
    if (!report.faults.empty()) {
        result.exit = Exit::kFailed;
        result.text = lines(report.faults, "  ");
        result.problem = problemOf("does-not-apply", fmt::format("the change does not fit this project: {}",
                                                                 counted(report.faults.size(), "fault")));
        return result;
    }
    if (report.changes.empty()) {
        result.exit = Exit::kFailed;
        result.problem = problemOf("empty", "there is nothing to submit: nothing differs");
        return result;
    }
    const std::string who = report.change ? changeHandle(report.change->id) : "dry run";
    result.text = fmt::format("{}  {}\n{}", context.paint(Style::kBold, who), printable(report.title),
                              pathsText(report.changes, context.paint, kMostShown));
    if (report.change) result.next = {fmt::format("gradus show {}", who)};
    return result;
}

// A sandbox by handle or name, a change by anything else that is a handle.
bool namesSandbox(const std::string& word) {
    const auto handle = parseHandle(word);
    return !handle || handle->kind == HandleKind::kSandbox;
}

Result diffResult(Service& service, Context& context, const ChangeSet& changes, const BaseFingerprint& base,
                  Json subject) {
    Result result{.data = std::move(subject)};
    addPaths(result.data, changes);
    try {
        const WrittenPatch patch = service.patchOf(changes, base);
        result.data["patch"] = patch.text;
        result.data["notes"] = patch.notes;
        for (const std::string& note : patch.notes) context.progress.text("note: " + printable(note));
        if (context.json) return result;
        context.lines.contents(patch.text);
        context.lines.endContents();
        result.streamed = true;
    } catch (const Error& e) {
        if (e.code() != ErrorCode::kNotAllowed) throw;
        // What was there is not known: then at least the list.
        result.text = pathsText(changes, context.paint, SIZE_MAX);
        context.progress.text(fmt::format("note: {}", e.what()));
    }
    return result;
}

Result diff(Service& service, Context& context) {
    const std::string word = context.arguments.positional("CHANGE").value();
    const auto here = context.host.directory();
    if (namesSandbox(word)) {
        const FoundChange found = service.changeOfSandbox(here, word, context.arguments.flag("with-ignored"));
        return diffResult(service, context, found.changes, found.base,
                          {{"sandbox", {{"id", sandboxHandle(service.sandbox(word).id)}}}});
    }
    const ChangeView view = service.viewChange(here, word);
    return diffResult(service, context, view.changes, view.base, {{"change", viewJson(view)}});
}

std::string groundText(const BaseDrift& ground) {
    switch (ground.kind) {
        case BaseDrift::Kind::kAhead:
            return fmt::format(", HEAD is {} ahead", counted(ground.ahead, "commit"));
        case BaseDrift::Kind::kDiverged:
            return fmt::format(", HEAD went another way: {} ahead, {} behind", counted(ground.ahead, "commit"),
                               counted(ground.behind, "commit"));
        case BaseDrift::Kind::kGone:
            return ", which is not in this repository any more";
        default:
            return "";
    }
}

Result show(Service& service, Context& context) {
    const ChangeView view =
        service.viewChange(context.host.directory(), context.arguments.positional("CHANGE").value());
    Result result{.data = {{"change", viewJson(view)}}};
    addPaths(result.data, view.changes);
    const Change& change = view.change;
    std::string text = fmt::format("{}  {}\n", context.paint(Style::kBold, revisionHandle(change)),
                                   printable(change.title.value_or("[redacted]")));
    text += fmt::format("by        {}{}\n", printable(view.actor),
                        view.sponsor ? fmt::format(" for {}", printable(*view.sponsor)) : "");
    text += fmt::format("submitted {}\n", formatTime(change.submittedAt));
    const BaseDrift ground = service.groundOf(context.host.directory(), view.base);
    result.data["change"]["base"]["ground"] = nameOf(kBaseDrifts, ground.kind);
    result.data["change"]["base"]["ahead"] = ground.ahead;
    result.data["change"]["base"]["behind"] = ground.behind;
    text +=
        fmt::format("base      {}\n", view.base.commit.empty() ? "a directory without a commit"
                                                               : view.base.commit.substr(0, 12) + groundText(ground));
    text += fmt::format("digest    {}\n", change.changeSet.brief());
    for (const std::string& label : change.labels) text += fmt::format("label     {}\n", printable(label));
    if (!change.message.empty()) {
        std::string_view rest = change.message;
        for (text += "\n"; !rest.empty(); rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1))
            text += fmt::format("    {}\n", printable(rest.substr(0, rest.find('\n'))));
        text += "\n";
    }
    result.text = text + pathsText(view.changes, context.paint, kMostShown);
    result.next = {fmt::format("gradus diff {}", changeHandle(change.id))};
    return result;
}

Result list(Service& service, Context& context) {
    const auto limit = context.arguments.number("limit", 1, kMostListed).value_or(20);
    Json changes = Json::array();
    TextTable table({{"change"}, {"paths", TextTable::Align::kRight}, {"by"}, {"submitted"}, {"title"}});
    for (const ChangeView& view : service.listChanges(context.host.directory(), limit)) {
        Json json = viewJson(view);
        json["paths"] = view.changes.changes().size();
        changes.push_back(std::move(json));
        table.row({revisionHandle(view.change), std::to_string(view.changes.changes().size()), view.actor,
                   formatTime(view.change.submittedAt), view.change.title.value_or("[redacted]")});
    }
    std::string text =
        table.empty() ? "no change was submitted here yet\n" : table.render(context.paint, context.width);
    return {.data = {{"changes", std::move(changes)}}, .text = std::move(text)};
}

Result exportChange(Service& service, Context& context) {
    const Arguments& said = context.arguments;
    if (said.flag("patch") == said.flag("commit"))
        throw usageError("export", "say --patch or --commit", "gradus export c12 --patch");
    if (said.flag("commit") && said.value("output"))
        throw usageError("export", "--output is for a patch; a commit goes into the repository",
                         "gradus export c12 --commit");
    const ChangeView view = service.viewChange(context.host.directory(), said.positional("CHANGE").value());
    if (said.flag("commit")) {
        const ExportedCommit made = service.exportCommit(context.host.directory(), view);
        return {.data = {{"change", viewJson(view)}, {"commit", made.id}, {"branch", made.branch}},
                .text = fmt::format("{}  {}\n", made.id.substr(0, 12), made.branch),
                .next = {"git show " + made.branch, "git merge " + made.branch}};
    }
    const WrittenPatch patch = service.patchOf(view.changes, view.base);
    Result result{.data = {{"change", viewJson(view)}, {"notes", patch.notes}}};
    for (const std::string& note : patch.notes) context.progress.text("note: " + printable(note));
    if (const auto file = said.value("output")) {
        const auto target = context.host.directory() / *file;
        const FileDescriptor out = openFile(target, O_WRONLY | O_CREAT | O_EXCL, 0644);
        writeAll(out.get(), patch.text, target);
        result.data["file"] = target.native();
        result.text = fmt::format("wrote {}\n", printable(target.native()));
        return result;
    }
    result.data["patch"] = patch.text;
    if (context.json) return result;
    context.lines.contents(patch.text);
    context.lines.endContents();
    result.streamed = true;
    return result;
}

Result rebase(Service& service, Context& context) {
    const std::string word = context.arguments.positional("CHANGE").value();
    const bool dryRun = context.arguments.flag("dry-run");
    const RebaseReport report = service.rebase(context.host.directory(), word, dryRun);
    Result result{.data = {{"change", changeJson(report.change)}, {"revised", report.revised}}};
    Json conflicts = Json::array();
    std::vector<std::string> texts;
    for (const MergeConflict& conflict : report.merge.conflicts) {
        conflicts.push_back(
            {{"path", conflict.path}, {"kind", nameOf(kConflictKinds, conflict.kind)}, {"detail", conflict.detail}});
        texts.push_back(fmt::format("{}: {}", conflict.path, conflict.detail));
    }
    result.data["conflicts"] = std::move(conflicts);
    result.data["merged"] = report.merge.mergedPaths;
    const std::string handle = revisionHandle(report.change);
    if (!texts.empty()) {
        result.exit = Exit::kFailed;
        result.text = lines(texts, "  ");
        result.problem =
            problemOf("conflict", fmt::format("{} cannot be merged: {}", handle, counted(texts.size(), "conflict")),
                      "solve them in a sandbox or by hand, and submit that");
        return result;
    }
    if (!report.merge.moved)
        result.text = fmt::format("{}: nothing moved, it fits as it is\n", handle);
    else if (report.merge.merged.empty())
        result.text = fmt::format("{}: all of it is there already\n", handle);
    else if (!report.revised && !dryRun)
        result.text = fmt::format("{}: nothing that it needs moved; the rest of it is there already\n", handle);
    else
        result.text =
            fmt::format("{}  {}\n{}", report.revised ? handle : "dry run", printable(report.change.title.value_or("")),
                        pathsText(report.merge.merged, context.paint, kMostShown));
    if (report.revised) result.next = {fmt::format("gradus diff {}", handle)};
    return result;
}

const Positional kChange{"CHANGE", "its handle (c12, c12.2), @ for the newest, or the beginning of its digest"};

Verb submitVerb(const OpenService& open) {
    return {
        .words = "submit",
        .group = Group::kPromote,
        .summary = "freeze a change, with where it came from; runs nothing",
        .examples = {{"gradus submit --from-sandbox s7 --title 'Fix the login'", "what a sandbox changed"},
                     {"gradus submit --worktree", "what differs from HEAD here"},
                     {"git diff main..topic | gradus submit -", "a patch, or a JSON list of files"}},
        .positionals = {{.name = "SOURCE",
                         .doc = "a patch or list of files from standard input",
                         .required = false,
                         .choices = {"-"}}},
        .options = {{.name = "from-sandbox", .value = "SANDBOX", .doc = "what a kept sandbox changed"},
                    {.name = "patch", .value = "FILE", .doc = "a patch, as `git diff` or `diff -u` writes it"},
                    {.name = "commit", .value = "REV", .doc = "a commit against its first parent"},
                    {.name = "range", .value = "A..B", .doc = "from one commit to another"},
                    {.name = "worktree", .doc = "from HEAD to the files, untracked ones too"},
                    {.name = "files", .value = "FILE", .doc = "a JSON list of files and their new contents"},
                    {.name = "with-ignored", .doc = "of a sandbox, files that git ignores, too"},
                    {.name = "title", .value = "TEXT", .doc = "one line", .fallback = "the commit's or patch's own"},
                    {.name = "label", .value = "WORD", .doc = "to find it by", .repeatable = true},
                    {.name = "sponsor", .value = "NAME", .doc = "the person an agent acts for"},
                    {.name = "dry-run", .doc = "show it and record nothing"}},
        .handler = withService(open, submit)};
}

}  // namespace

std::vector<Verb> changeVerbs(const OpenService& open) {
    return {
        submitVerb(open),
        {.words = "ls",
         .group = Group::kPromote,
         .summary = "list the changes of this project",
         .examples = {{"gradus ls", "the newest first"}},
         .options = {{.name = "limit", .value = "N", .doc = "at most so many", .fallback = "20"}},
         .handler = withService(open, list)},
        {.words = "show",
         .group = Group::kPromote,
         .summary = "show a change: who, when, on what, which paths",
         .examples = {{"gradus show c12", "its newest revision"}, {"gradus show @", "the newest change"}},
         .positionals = {kChange},
         .handler = withService(open, show)},
        {.words = "diff",
         .group = Group::kPromote,
         .summary = "show what a change or a sandbox does, line by line",
         .examples = {{"gradus diff c12", "as a patch"}, {"gradus diff s7", "what a sandbox changed so far"}},
         .positionals = {{"CHANGE", "a change (c12, @) or a sandbox (s7, its name)"}},
         .options = {{.name = "with-ignored", .doc = "of a sandbox, files that git ignores, too"}},
         .handler = withService(open, diff)},
        {.words = "export",
         .group = Group::kPromote,
         .summary = "write a change as a patch, or as a commit on a branch of its own",
         .examples = {{"gradus export c12 --patch --output fix.patch", "for `git apply`"},
                      {"gradus export c12 --commit", "the branch gradus/c12.1; your files stay as they are"}},
         .positionals = {kChange},
         .options = {{.name = "patch", .doc = "a patch that git applies byte for byte"},
                     {.name = "commit", .doc = "a commit on the one it was made on, and a branch that leads there"},
                     {.name = "output", .value = "FILE", .doc = "into this new file", .fallback = "standard output"}},
         .handler = withService(open, exportChange)},
        {.words = "rebase",
         .group = Group::kPromote,
         .summary = "put a change onto the project as it is now, as a new revision",
         .examples = {{"gradus rebase c12", "merges what moved; conflicts are listed and nothing is written"}},
         .positionals = {kChange},
         .options = {{.name = "dry-run", .doc = "merge and record nothing"}},
         .handler = withService(open, rebase)},
    };
}

}  // namespace gradus
