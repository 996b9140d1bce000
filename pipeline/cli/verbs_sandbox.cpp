#include <fmt/format.h>

#include "pipeline/cli/command_words.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/sandbox_views.h"
#include "pipeline/cli/sandbox_words.h"
#include "pipeline/cli/shell_word.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
#include "policies/language/duration.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kMostForks = 64;
constexpr std::size_t kAllShown = SIZE_MAX;

Result create(Service& service, Context& context) {
    CreateRequest request{.project = service.projectRoot(context.host.directory()),
                          .name = context.arguments.value("name"),
                          .commit = context.arguments.value("commit"),
                          .lifetime = durationOption(context, "sandbox new", "lifetime")};
    if (request.lifetime && request.lifetime->count() <= 0)
        throw usageError("sandbox new", "--lifetime must be more than nothing");
    request.system = context.arguments.flag("system") || service.sandboxesAreOfTheSystem(context.host.directory());
    if (!request.lifetime) request.lifetime = service.sandboxLifetime(context.host.directory());
    const SandboxRecord record = service.sandboxes().create(request);
    if (context.arguments.flag("quiet"))
        return {.data = {{"sandbox", sandboxJson(record)}}, .text = sandboxHandle(record.id) + "\n"};
    return {.data = {{"sandbox", sandboxJson(record)}},
            .text = sandboxLabel(record) + "\n",
            .next = {fmt::format("gradus sandbox exec {} -- COMMAND", sandboxHandle(record.id))}};
}

Result execute(Service& service, Context& context) {
    const SandboxRecord record = namedSandbox(service, context);
    RunningCommand running(context, "sandbox exec");
    CommandRequest request = service.confined(service.sandboxes().projectOf(record.id), running.words());
    const Patience patience{durationOption(context, "sandbox exec", "wait").value_or(Milliseconds(0)), request.cancel,
                            kWaiting};
    const auto snapshot = context.arguments.value("snapshot");
    if (snapshot) service.sandboxes().snapshot(record.id, *snapshot, patience);
    const ExecutionReport report = service.sandboxes().exec(record.id, request, patience);
    running.finish(report);
    Result result{.exit = exitOf(report), .streamed = !context.json};
    result.data = {{"execution", executionJson(report)}, {"notes", report.notes}};
    if (snapshot) result.data["snapshot"] = *snapshot;
    return running.interrupted(std::move(result));
}

Json viewJson(const SandboxView& view) {
    Json json = sandboxJson(view.record);
    Json snapshots = Json::array();
    for (const SnapshotRecord& snapshot : view.snapshots)
        snapshots.push_back(
            {{"name", snapshot.name ? Json(*snapshot.name) : Json()}, {"taken_at", formatTime(snapshot.takenAt)}});
    json["project"] = view.project.native();
    json["snapshots"] = std::move(snapshots);
    json["depth"] = view.depth;
    json["in_use_by"] = view.inUseBy ? Json(*view.inUseBy) : Json();
    json["damage"] = view.damage ? Json(*view.damage) : Json();
    json["last_execution"] = view.last ? recordJson(*view.last) : Json();
    return json;
}

std::string stateOf(const SandboxView& view) {
    if (view.damage) return "damaged";
    return view.inUseBy ? fmt::format("in use by {}", *view.inUseBy) : "at rest";
}

Result list(Service& service, Context& context) {
    std::optional<std::filesystem::path> project;
    if (!context.arguments.flag("all")) project = service.projectRoot(context.host.directory());
    Json sandboxes = Json::array();
    TextTable table({{"sandbox"}, {"name"}, {"state"}, {"snapshots", TextTable::Align::kRight}, {"used"}, {"project"}});
    for (const SandboxView& view : service.keptSandboxes(project)) {
        sandboxes.push_back(viewJson(view));
        table.row({sandboxHandle(view.record.id), view.record.name.value_or("-"), stateOf(view),
                   std::to_string(view.snapshots.size()), formatTime(view.record.usedAt), view.project.native()});
    }
    if (context.arguments.flag("quiet")) {
        std::string handles;
        for (const Json& sandbox : sandboxes) handles += sandbox["id"].get<std::string>() + "\n";
        return {.data = {{"sandboxes", std::move(sandboxes)}}, .text = std::move(handles)};
    }
    std::string text = table.empty() ? "no kept sandbox here\n" : table.render(context.paint, context.width);
    return {.data = {{"sandboxes", std::move(sandboxes)}}, .text = std::move(text)};
}

std::string lastRunText(const Execution& run) {
    std::string text = fmt::format("last run  {} {}\n", executionHandle(run.id),
                                   run.verdict ? verdictName(*run.verdict) : nameOf(kExecutionStates, run.state));
    if (const std::string effects = sideEffectsText(run.sideEffects); !effects.empty())
        text += "          it " + effects + "\n";
    return text;
}

std::string baseText(const SandboxView& view) {
    if (view.onCopy) return "a copy of what the failed check saw";
    return view.record.commit.value_or("the directory as it is");
}

Result show(Service& service, Context& context) {
    const SandboxView view = service.sandboxes().view(namedSandbox(service, context).id);
    std::string text = fmt::format(
        "sandbox   {}\nproject   {}\nbase      {}{}\nstate     {}\ncreated   {}\nused      {}\n"
        "expires   {}\n",
        sandboxLabel(view.record), printable(view.project.native()), baseText(view),
        view.record.system ? ", and the whole system" : "", stateOf(view), formatTime(view.record.createdAt),
        formatTime(view.record.usedAt), formatTime(view.record.expiresAt()));
    for (const SnapshotRecord& snapshot : view.snapshots)
        text += fmt::format("snapshot  {}  {}\n", printable(snapshot.name.value_or("[redacted]")),
                            formatTime(snapshot.takenAt));
    if (view.last) text += lastRunText(*view.last);
    if (view.damage) text += context.paint(Style::kRed, "damage    " + *view.damage) + "\n";
    return {.data = {{"sandbox", viewJson(view)}}, .text = std::move(text)};
}

Result snapshot(Service& service, Context& context) {
    const SandboxRecord record = namedSandbox(service, context);
    const Interrupt interrupt;
    const SnapshotRecord taken = service.sandboxes().snapshot(record.id, context.arguments.positional("NAME").value(),
                                                              patienceOf(context, interrupt, "sandbox snapshot"));
    const std::string name = taken.name.value_or("");
    return {.data = {{"sandbox", {{"id", sandboxHandle(record.id)}}}, {"snapshot", name}},
            .text = fmt::format("{}: snapshot {}\n", sandboxLabel(record), printable(name)),
            .next = {fmt::format("gradus sandbox restore {} {}", sandboxHandle(record.id), shellWord(name))}};
}

Result restore(Service& service, Context& context) {
    const SandboxRecord record = namedSandbox(service, context);
    const std::string name = context.arguments.positional("NAME").value();
    const Interrupt interrupt;
    service.sandboxes().restore(record.id, name, patienceOf(context, interrupt, "sandbox restore"));
    return {.data = {{"sandbox", {{"id", sandboxHandle(record.id)}}}, {"snapshot", name}},
            .text = fmt::format("{} is as it was at {}\n", sandboxLabel(record), printable(name))};
}

std::vector<std::string> forkNames(const Context& context, std::size_t count) {
    std::vector<std::string> names;
    if (const auto prefix = context.arguments.value("name"))
        for (std::size_t i = 1; i <= count; ++i)
            names.push_back(count == 1 ? *prefix : fmt::format("{}-{}", *prefix, i));
    return names;
}

Result fork(Service& service, Context& context) {
    const SandboxRecord record = namedSandbox(service, context);
    const auto count = static_cast<std::size_t>(context.arguments.number("count", 1, kMostForks).value_or(1));
    const Interrupt interrupt;
    Json forks = Json::array();
    std::string text;
    for (const SandboxRecord& made : service.sandboxes().fork(record.id, count, forkNames(context, count),
                                                              patienceOf(context, interrupt, "sandbox fork"))) {
        forks.push_back(sandboxJson(made));
        text += (context.arguments.flag("quiet") ? sandboxHandle(made.id) : sandboxLabel(made)) + "\n";
    }
    return {.data = {{"sandboxes", std::move(forks)}}, .text = std::move(text)};
}

Result diff(Service& service, Context& context) {
    const auto expired = service.expiredSandbox(context.arguments.positional("SANDBOX").value());
    const SandboxRecord record = expired ? expired->record : namedSandbox(service, context);
    const Interrupt interrupt;
    Harvest harvest;
    if (expired)
        harvest.changes = expired->changes;
    else
        harvest = service.sandboxes().diff(record.id, {.withIgnored = context.arguments.flag("with-ignored")},
                                           patienceOf(context, interrupt, "sandbox diff"));
    Result result{.text = changesText(harvest, context.paint, kAllShown)};
    result.data["sandbox"] = {{"id", sandboxHandle(record.id)}};
    addChanges(result.data, harvest);
    return result;
}

Result remove(Service& service, Context& context) {
    const Interrupt interrupt;
    Json removed = Json::array();
    std::string text;
    std::vector<SandboxRecord> records;
    for (const std::string& word : context.arguments.positionals("SANDBOX")) records.push_back(service.sandbox(word));
    for (const SandboxRecord& record : records) {
        service.sandboxes().remove(record.id, patienceOf(context, interrupt, "sandbox rm"));
        removed.push_back(sandboxHandle(record.id));
        text += fmt::format("removed {}\n", sandboxLabel(record));
    }
    return {.data = {{"removed", std::move(removed)}}, .text = std::move(text)};
}

Verb createVerb(const OpenService& open) {
    return {.words = "sandbox new",
            .group = Group::kTry,
            .summary = "make a sandbox that stays",
            .examples = {{"gradus sandbox new", "a clone of this project"},
                         {"gradus sandbox new --name fix --commit HEAD", "of a commit, under a name"},
                         {"gradus sandbox new --system", "of the whole machine: packages can be installed"}},
            .options = {systemOption(),
                        {.name = "name", .value = "NAME", .doc = "what to call it"},
                        {.name = "commit", .value = "REV", .doc = "this commit instead of the directory as it is"},
                        {.name = "lifetime", .value = "DURATION", .doc = "after its last use", .fallback = "14d"},
                        quietOption()},
            .handler = withService(open, create)};
}

Verb executeVerb(const OpenService& open) {
    std::vector<Option> options = commandOptions();
    options.push_back({.name = "snapshot", .value = "NAME", .doc = "remember how it is first, under this name"});
    options.push_back(waitOption());
    return {.words = "sandbox exec",
            .group = Group::kTry,
            .summary = "run a command in a kept sandbox",
            .examples = {{"gradus sandbox exec s7 -- make test", "goes on where the last command left it"},
                         {"gradus sandbox exec s7 --snapshot before -- ./migrate", "with a way back"}},
            .positionals = {sandboxPlace()},
            .options = std::move(options),
            .command = Positional{"COMMAND", "what to run inside"},
            .handler = withService(open, execute)};
}

}  // namespace

std::vector<Verb> sandboxVerbs(const OpenService& open) {
    return {
        createVerb(open),
        executeVerb(open),
        {.words = "sandbox list",
         .group = Group::kTry,
         .summary = "show the kept sandboxes",
         .examples = {{"gradus sandbox list", "of this project"}, {"gradus sandbox list --all", "of every project"}},
         .options = {{.name = "all", .doc = "of every project"}, quietOption()},
         .handler = withService(open, list)},
        {.words = "sandbox show",
         .group = Group::kTry,
         .summary = "show one sandbox and its snapshots",
         .examples = {{"gradus sandbox show s7", "where it stands"}},
         .positionals = {sandboxPlace()},
         .handler = withService(open, show)},
        {.words = "sandbox diff",
         .group = Group::kTry,
         .summary = "list what a sandbox changed",
         .examples = {{"gradus sandbox diff s7", "added, modified, deleted"}},
         .positionals = {sandboxPlace()},
         .options = {{.name = "with-ignored", .doc = "list files that git ignores, too"}, waitOption()},
         .handler = withService(open, diff)},
        {.words = "sandbox snapshot",
         .group = Group::kTry,
         .summary = "remember how a sandbox is now",
         .examples = {{"gradus sandbox snapshot s7 before-refactoring", "at once, whatever its size"}},
         .positionals = {sandboxPlace(), {"NAME", "what to call it"}},
         .options = {waitOption()},
         .handler = withService(open, snapshot)},
        {.words = "sandbox restore",
         .group = Group::kTry,
         .summary = "make a sandbox what it was at a snapshot",
         .examples = {{"gradus sandbox restore s7 before-refactoring", "drops what came after"}},
         .positionals = {sandboxPlace(), {"NAME", "the snapshot"}},
         .options = {waitOption()},
         .handler = withService(open, restore)},
        {.words = "sandbox fork",
         .group = Group::kTry,
         .summary = "make sandboxes that start as another one is now",
         .examples = {{"gradus sandbox fork s7 -n 8", "eight of them, at once"}},
         .positionals = {sandboxPlace()},
         .options = {{.name = "count", .value = "N", .doc = "how many", .letter = 'n', .fallback = "1"},
                     {.name = "name", .value = "NAME", .doc = "what to call it; several get NAME-1, NAME-2, …"},
                     waitOption(),
                     quietOption()},
         .handler = withService(open, fork)},
        {.words = "sandbox rm",
         .group = Group::kTry,
         .summary = "remove sandboxes and what they changed",
         .examples = {{"gradus sandbox rm s7", "its forks stay"}},
         .positionals = {{"SANDBOX", "its handle (s7), its name, or @ for the latest", true, true}},
         .options = {waitOption()},
         .handler = withService(open, remove)},
    };
}

}  // namespace gradus
