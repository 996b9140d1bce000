// What a person or an agent does with one sandbox by hand.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "pipeline/cli/command_words.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/sandbox_views.h"
#include "pipeline/cli/sandbox_words.h"
#include "pipeline/cli/shell_word.h"
#include "pipeline/cli/verbs.h"
#include "policies/language/duration.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kMostShown = 50;

std::string shellFor(const Context& context) {
    const std::string own = context.host.variable("SHELL").value_or("");
    for (const std::string& candidate : {own, std::string("/bin/bash")})
        if (candidate.starts_with('/') && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    return "/bin/sh";
}

/// A sandbox made only for this shell stays if anything changed in it.
void settle(Service& service, Context& context, const SandboxRecord& made, Result& result) {
    const Harvest harvest = service.sandboxes().diff(made.id);
    addChanges(result.data, harvest);
    if (isUntouched(harvest)) return service.sandboxes().remove(made.id);
    const std::string handle = sandboxHandle(made.id);
    if (!context.json) {
        context.progress.text(changesText(harvest, context.progress.paint(), kMostShown));
        context.progress.text("kept as " + handle);
    }
    result.data["sandbox"] = {{"id", handle}};
    result.next = {fmt::format("gradus sandbox shell {}", handle), fmt::format("gradus sandbox diff {}", handle),
                   fmt::format("gradus sandbox rm {}", handle)};
}

Result shell(Service& service, Context& context) {
    auto word = context.arguments.positional("SANDBOX");
    if (!word) word = context.host.variable("GRADUS_SANDBOX");
    const bool isNew = !word || word->empty();
    const auto here = context.host.directory();
    const SandboxRecord record = isNew ? service.sandboxes().create({.project = service.projectRoot(here),
                                                                     .lifetime = service.sandboxLifetime(here),
                                                                     .system = service.sandboxesAreOfTheSystem(here)})
                                       : service.sandbox(*word);
    RunningCommand running(context, "sandbox shell");
    RunWords words = running.words();
    if (words.command.empty()) words.command = {shellFor(context)};
    const CommandRequest request = service.confined(isNew ? here : service.sandboxes().projectOf(record.id), words);
    const Patience patience{durationOption(context, "sandbox shell", "wait").value_or(Milliseconds(0)), request.cancel,
                            kWaiting};
    const ExecutionReport report = service.sandboxes().exec(record.id, request, patience);
    running.finish(report);
    Result result{.exit = exitOf(report), .streamed = !context.json};
    result.data = {{"execution", executionJson(report)}, {"notes", report.notes}};
    if (isNew) settle(service, context, record, result);
    return running.interrupted(std::move(result));
}

Verb shellVerb(const OpenService& open) {
    std::vector<Option> options = commandOptions();
    options.push_back(waitOption());
    return {
        .words = "sandbox shell",
        .group = Group::kTry,
        .summary = "open a shell in a sandbox, on a terminal of its own",
        .examples = {{"gradus sandbox shell s7", "your own shell, inside; its exit code is passed through"},
                     {"gradus sandbox shell", "in a new one, which stays if anything changed"},
                     {"gradus sandbox shell s7 -- zsh -l", "another one"}},
        .positionals = {{"SANDBOX", "its handle (s7), its name, or @ for the latest; without one, a new one", false}},
        .options = std::move(options),
        .command = Positional{"COMMAND", "the shell, if it is not your own", false},
        .handler = withService(open, shell)};
}

/// What is hidden in it is hidden from these verbs, too.
CommandRequest viewOf(Service& service, const SandboxRecord& record) {
    return service.confined(service.sandboxes().projectOf(record.id), {});
}

Json copyJson(const SandboxRecord& record, const CopyReport& report) {
    return {{"sandbox", {{"id", sandboxHandle(record.id)}}},
            {"files", report.files},
            {"bytes", report.bytes},
            {"left_out", report.leftOut}};
}

std::string copyText(const CopyReport& report, std::string_view where) {
    std::string text = fmt::format("{}, {} {}\n", counted(report.files, "file"), humanSize(report.bytes), where);
    for (const std::string& line : report.leftOut) text += "left out " + line + "\n";
    return text;
}

constexpr std::size_t kMostInput = std::size_t{1} << 30;

std::string standardInput() {
    std::string bytes;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::read(STDIN_FILENO, buffer, sizeof buffer)) > 0;) {
        bytes.append(buffer, static_cast<std::size_t>(got));
        if (bytes.size() > kMostInput)
            throw Error(ErrorCode::kUsage, "more than {} on standard input", humanSize(kMostInput))
                .hint("put a file by its name");
    }
    return bytes;
}

std::filesystem::path onHost(const Context& context, const std::string& word) {
    return context.host.directory() / word;
}

Result put(Service& service, Context& context) {
    const SandboxRecord record = namedSandbox(service, context);
    const std::string source = context.arguments.positional("SOURCE").value();
    const std::string inside = context.arguments.positional("PATH").value();
    const Interrupt interrupt;
    const Patience patience = patienceOf(context, interrupt, "sandbox put");
    const CommandRequest view = viewOf(service, record);
    const CopyReport report = source == "-"
                                  ? service.sandboxes().putBytes(record.id, standardInput(), inside, view, patience)
                                  : service.sandboxes().put(record.id, onHost(context, source), inside, view, patience);
    return {.data = copyJson(record, report), .text = copyText(report, "in " + sandboxLabel(record))};
}

Result get(Service& service, Context& context) {
    const SandboxRecord record = namedSandbox(service, context);
    const std::string inside = context.arguments.positional("PATH").value();
    const std::string target = context.arguments.positional("TARGET").value();
    const Interrupt interrupt;
    const Patience patience = patienceOf(context, interrupt, "sandbox get");
    const CommandRequest view = viewOf(service, record);
    if (target != "-") {
        const CopyReport report = service.sandboxes().get(record.id, inside, onHost(context, target),
                                                          context.arguments.flag("force"), view, patience);
        return {.data = copyJson(record, report), .text = copyText(report, "from " + sandboxLabel(record))};
    }
    std::string content;
    const CopyReport report = service.sandboxes().getBytes(
        record.id, inside,
        [&](std::string_view piece) {
            if (context.json)
                content += piece;
            else
                context.lines.contents(piece);
        },
        view, patience);
    if (!context.json) context.lines.endContents();
    Result result{.data = copyJson(record, report), .streamed = !context.json};
    if (context.json) result.data["content"] = content;
    return result;
}

struct PlaceFace {
    FilePlace::Where where;
    std::string_view word;
    std::string_view text;
};
constexpr std::array kPlaceFaces{
    PlaceFace{FilePlace::Where::kNowhere, "nowhere", "there is no such file in the sandbox"},
    PlaceFace{FilePlace::Where::kHidden, "hidden", "the sandbox shows something else there"},
    PlaceFace{FilePlace::Where::kBase, "base", "unchanged: this is the project's own file"},
    PlaceFace{FilePlace::Where::kFrozen, "frozen", "in a layer that a snapshot or a fork froze; do not write to it"},
    PlaceFace{FilePlace::Where::kOwn, "own", "the sandbox's own; read it here, write with `gradus sandbox put`"},
    PlaceFace{FilePlace::Where::kImage, "image",
              "in the image that holds the sandbox to its disk limit: it has no path on this machine"},
    PlaceFace{
        FilePlace::Where::kMerged, "merged",
        "a directory that the project and the sandbox's changes make up together: it has no path on this machine"},
};

std::string adviceFor(FilePlace::Where where, const std::string& sandbox, const std::string& inside) {
    if (where == FilePlace::Where::kImage)
        return fmt::format("copy it out: gradus sandbox get {} {} -", sandbox, inside);
    if (where == FilePlace::Where::kMerged)
        return fmt::format("copy it out: gradus sandbox get {} {} DIR; or name a file of it", sandbox, inside);
    return fmt::format("see what is there: gradus sandbox exec {} -- ls", sandbox);
}

Result path(Service& service, Context& context) {
    const SandboxRecord record = namedSandbox(service, context);
    const std::string inside = context.arguments.positional("PATH").value();
    const FilePlace place = service.sandboxes().where(record.id, inside, viewOf(service, record));
    const PlaceFace& face = *std::find_if(kPlaceFaces.begin(), kPlaceFaces.end(),
                                          [&](const PlaceFace& row) { return row.where == place.where; });
    const std::string handle = sandboxHandle(record.id);
    Result result;
    result.data = {{"sandbox", {{"id", handle}}},
                   {"where", face.word},
                   {"path", place.path.empty() ? Json() : Json(place.path.native())},
                   {"type", place.type.empty() ? Json() : Json(place.type)}};
    if (place.path.empty()) {
        result.exit = Exit::kFailed;
        result.problem = Problem{std::string(face.word), fmt::format("{}: {}", printable(inside), face.text),
                                 adviceFor(place.where, handle, printable(shellWord(inside)))};
        return result;
    }
    if (!context.json && context.host.terminal().errIsTerminal) context.progress.text(std::string(face.text));
    result.text = place.path.native() + "\n";
    return result;
}

Json statsJson(const SandboxRecord& record, const SandboxStats& stats) {
    Json json{{"sandbox", {{"id", sandboxHandle(record.id)}}},
              {"running", stats.running},
              {"wall_ms", stats.wallMillis},
              {"cpu_ms", stats.cpuMillis},
              {"memory_bytes", stats.memoryBytes},
              {"processes", stats.processes},
              {"tasks", stats.tasks},
              {"disk_bytes", stats.diskBytes}};
    if (stats.execution)
        json["execution"] = {{"id", executionHandle(stats.execution->id)}, {"command", stats.execution->arguments}};
    return json;
}

std::string statsLine(const SandboxStats& stats) {
    if (!stats.running) return fmt::format("at rest, {} on disk", humanSize(stats.diskBytes));
    return fmt::format("{} running {}, cpu {}, memory {}, {}, {} on disk",
                       stats.execution ? executionHandle(stats.execution->id) : std::string("command"),
                       formatDuration(Milliseconds(stats.wallMillis)), formatDuration(Milliseconds(stats.cpuMillis)),
                       humanSize(stats.memoryBytes), counted(stats.tasks, "task"), humanSize(stats.diskBytes));
}

/// Waits for as long as the person lets it; true: go on.
bool sleptFor(Milliseconds time, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, time, [] { return false; });
    return !stop.stop_requested();
}

Result stats(Service& service, Context& context) {
    const SandboxRecord record = namedSandbox(service, context);
    SandboxStats now = service.sandboxes().stats(record.id);
    if (!context.arguments.flag("follow"))
        return {.data = statsJson(record, now), .text = sandboxLabel(record) + " " + statsLine(now) + "\n"};
    const Milliseconds interval = durationOption(context, "sandbox stats", "interval").value_or(Milliseconds(1000));
    if (interval < Milliseconds(10)) throw usageError("sandbox stats", "--interval must be 10ms or more");
    const Interrupt interrupt;
    while (now.running) {
        if (context.json)
            context.lines.json(statsJson(record, now));
        else
            context.lines.text(statsLine(now));
        context.lines.flush();
        if (!sleptFor(interval, interrupt.token())) break;
        now = service.sandboxes().stats(record.id);
    }
    return {.streamed = true};
}

Result reopen(Service& service, Context& context) {
    const std::string execution = context.arguments.positional("EXECUTION").value();
    const SandboxRecord record = service.reopen(execution, context.arguments.value("name"));
    const std::string handle = sandboxHandle(record.id);
    const bool quiet = context.arguments.flag("quiet");
    const bool asItWas = service.sandboxes().view(record.id).onCopy;
    if (!asItWas)
        context.progress.text(
            "warning: the project was too large to be copied: what the check did not write is shown as it is now");
    Result result{.data = {{"sandbox", sandboxJson(record)}, {"execution", execution}, {"as_it_was", asItWas}},
                  .text = (quiet ? handle : sandboxLabel(record)) + "\n"};
    if (!quiet)
        result.next = {fmt::format("gradus sandbox shell {}", handle), fmt::format("gradus sandbox diff {}", handle),
                       fmt::format("gradus sandbox exec {} -- COMMAND", handle)};
    return result;
}

Verb putVerb(const OpenService& open) {
    return {.words = "sandbox put",
            .group = Group::kTry,
            .summary = "copy a file or directory into a kept sandbox",
            .examples = {{"gradus sandbox put s7 fixture.json tests/fixture.json", "nothing runs, no link is followed"},
                         {"gradus sandbox put s7 - notes.txt < notes", "from standard input"}},
            .positionals = {sandboxPlace(),
                            {"SOURCE", "a file, link or directory out here; - for standard input"},
                            {"PATH", "where it goes, relative to the project; a directory takes it in"}},
            .options = {waitOption()},
            .handler = withService(open, put)};
}

Verb getVerb(const OpenService& open) {
    return {.words = "sandbox get",
            .group = Group::kTry,
            .summary = "copy a file or directory out of a kept sandbox",
            .examples = {{"gradus sandbox get s7 build/report.html report.html", "as the sandbox has it now"},
                         {"gradus sandbox get s7 build/log.txt -", "to standard output"}},
            .positionals = {sandboxPlace(),
                            {"PATH", "of the sandbox, relative to the project"},
                            {"TARGET", "out here; a directory takes it in; - for standard output"}},
            .options = {{.name = "force", .doc = "replace a file that is there", .letter = 'f'}, waitOption()},
            .handler = withService(open, get)};
}

Verb statsVerb(const OpenService& open) {
    return {.words = "sandbox stats",
            .group = Group::kTry,
            .summary = "show what the command in a sandbox uses now",
            .examples = {{"gradus sandbox stats s7", "time, memory, tasks, disk"},
                         {"gradus sandbox stats s7 -f", "a line a second, until the command ends"}},
            .positionals = {sandboxPlace()},
            .options = {{.name = "follow", .doc = "go on until the command ends", .letter = 'f'},
                        {.name = "interval", .value = "DURATION", .doc = "between two lines", .fallback = "1s"}},
            .handler = withService(open, stats)};
}

}  // namespace

std::vector<Verb> roomVerbs(const OpenService& open) {
    return {shellVerb(open),
            putVerb(open),
            getVerb(open),
            {.words = "sandbox path",
             .group = Group::kTry,
             .summary = "say where a file of a sandbox lies on this machine",
             .examples = {{"gradus sandbox path s7 src/main.c", "for a program that only reads files"},
                          {"gradus sandbox path s7 build", "a directory only if one layer has all of it"}},
             .positionals = {sandboxPlace(), {"PATH", "of the sandbox, relative to the project"}},
             .handler = withService(open, path)},
            statsVerb(open),
            {.words = "reopen",
             .group = Group::kTry,
             .summary = "go into the sandbox of a failed check, as it was left",
             .examples = {{"gradus reopen e90", "a sandbox of its own, as often as you like"},
                          {"gradus sandbox shell $(gradus reopen -q e90)", "and look around"}},
             .positionals = {{"EXECUTION", "its handle, as the failed check names it"}},
             .options = {{.name = "name", .value = "NAME", .doc = "what to call it", .fallback = "reopened-EXECUTION"},
                         quietOption()},
             .handler = withService(open, reopen)}};
}

}  // namespace gradus
