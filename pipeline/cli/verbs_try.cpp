#include <fmt/format.h>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/command_words.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/sandbox_views.h"
#include "pipeline/cli/verbs.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kMostShown = 50;

bool goesOn(const Context& context) {
    const bool apply = context.arguments.flag("apply");
    const bool promote = context.arguments.flag("promote");
    if (apply && promote) throw usageError("try", "--apply and --promote exclude each other");
    if ((apply || promote) && context.arguments.flag("discard"))
        throw usageError("try", "what is discarded cannot be applied");
    return apply || promote;
}

Afterwards afterwardsOf(const Context& context) {
    const bool keep = context.arguments.flag("keep");
    const bool discard = context.arguments.flag("discard");
    if (keep && discard) throw usageError("try", "--keep and --discard exclude each other");
    if (discard && context.arguments.value("name"))
        throw usageError("try", "what is discarded has no name: --name and --discard exclude each other");
    if (goesOn(context)) return keep ? Afterwards::kKeep : Afterwards::kKeepChanged;
    if (keep) return Afterwards::kKeep;
    if (discard) return Afterwards::kDiscard;
    return context.json || !context.host.terminal().errIsTerminal ? Afterwards::kKeepChanged : Afterwards::kAsk;
}

// Only a clear no throws work away; to interrupt the question is none.
void decide(Trial& trial, Context& context, const std::stop_token& stop) {
    if (!trial.isOpen()) return;
    const auto answer = context.host.ask("keep this sandbox? [Y/n] ", stop);
    if (answer && (answer->starts_with('n') || answer->starts_with('N')))
        trial.discard();
    else
        trial.keep({});
}

std::vector<std::string> nextSteps(const Trial& trial) {
    if (!trial.kept()) return {};
    const std::string sandbox = sandboxHandle(*trial.kept());
    return {fmt::format("gradus sandbox diff {}", sandbox), fmt::format("gradus sandbox exec {} -- COMMAND", sandbox),
            fmt::format("gradus sandbox rm {}", sandbox)};
}

void sayWhatChanged(const Trial& trial, Context& context) {
    const Harvest& harvest = trial.changes();
    if (trial.unread()) return context.progress.text("what changed cannot be listed: " + printable(*trial.unread()));
    const bool tellsAll = context.arguments.flag("untrusted");
    if (isUntouched(harvest) && !tellsAll && !context.host.terminal().errIsTerminal) return;
    context.progress.text(changesText(harvest, context.progress.paint(), kMostShown));
}

Result answer(Trial& trial, Context& context) {
    Result result{.exit = exitOf(trial.report()), .streamed = !context.json};
    result.data["execution"] = executionJson(trial.report());
    addChanges(result.data, trial.changes());
    if (trial.unread()) result.data["unread"] = *trial.unread();
    result.data["notes"] = trial.report().notes;
    if (trial.kept()) result.data["sandbox"] = {{"id", sandboxHandle(*trial.kept())}};
    result.next = nextSteps(trial);
    return result;
}

void refuseWithUntrusted(const Context& context) {
    for (const char* option : {"keep", "apply", "promote"})
        if (context.arguments.flag(option))
            throw usageError("try", fmt::format("--untrusted discards everything, so --{} means nothing", option));
    if (context.arguments.flag("system"))
        throw usageError("try",
                         "in a copy of the system a command is root: --untrusted and --system exclude each other");
    for (const char* option : {"name", "commit", "env", "service"})
        if (!context.arguments.values(option).empty())
            throw usageError("try", fmt::format("--untrusted shows nothing of yours, so --{} means nothing", option));
}

/// Of an untrusted command: what held, what it used, what it left.
void sayEverything(const Trial& trial, Context& context) {
    const Execution& run = trial.report().execution;
    std::string guarantees;
    for (const Guarantee guarantee : run.guarantees)
        guarantees += fmt::format("{}{}", guarantees.empty() ? "" : ", ", guaranteeName(guarantee));
    context.progress.text(fmt::format("verdict     {}", run.verdict ? verdictName(*run.verdict) : "none"));
    context.progress.text(fmt::format("backend     {}", run.backend));
    context.progress.text("guarantees  " + guarantees);
    context.progress.text(fmt::format("used        {} ms, {} ms of processor time, {} of memory", run.wallMillis,
                                      run.cpuMillis, humanSize(run.peakMemoryBytes.value_or(0))));
    for (const LimitReport& limit : run.limits)
        context.progress.text(fmt::format("limit       {} {}, by {}{}", limitName(limit.name), limit.value,
                                          enforcerName(limit.enforcedBy), limit.tripped ? ", reached" : ""));
    if (trial.report().leftBehind > 0)
        context.progress.text(fmt::format("left behind {} processes, which were ended", trial.report().leftBehind));
}

Result runInside(Service& service, Context& context) {
    RunningCommand running(context, "try");
    if (context.arguments.flag("system")) running.askForSystem();
    RunWords words = running.words();
    words.untrusted = context.arguments.flag("untrusted");
    if (words.untrusted) refuseWithUntrusted(context);
    TryRequest request = service.attempted(context.host.directory(), words);
    request.commit = context.arguments.value("commit");
    request.name = context.arguments.value("name");
    request.afterwards = afterwardsOf(context);
    if (request.name) request.afterwards = Afterwards::kKeep;
    if (words.untrusted) request.afterwards = Afterwards::kDiscard;
    request.withIgnored = context.arguments.flag("with-ignored");
    Trial trial = service.sandboxes().attempt(request);
    running.finish(trial.report());
    const bool quiet = context.arguments.flag("quiet");
    if (!context.json && words.untrusted && !quiet) sayEverything(trial, context);
    if (!context.json && !quiet) sayWhatChanged(trial, context);
    decide(trial, context, running.stop());
    if (!context.json && trial.kept()) context.progress.text((quiet ? "" : "kept as ") + sandboxHandle(*trial.kept()));
    Result result = answer(trial, context);
    if (quiet) result.next.clear();
    return running.interrupted(std::move(result));
}

/// What the command changed goes on its way, if the command itself was content.
Result tryCommand(Service& service, Context& context) {
    const bool on = goesOn(context);
    Result tried = runInside(service, context);
    if (!on || tried.exit != Exit::kOk) return tried;
    if (!tried.data.contains("sandbox")) {
        if (!context.json) context.progress.text("nothing changed, so there is nothing to bring anywhere");
        return tried;
    }
    const std::string sandbox = tried.data["sandbox"]["id"];
    if (!context.json && tried.data.contains("system") && tried.data["system"]["entries"] > 0)
        context.progress.text(fmt::format("only the project's part goes on; the rest stays in {}", sandbox));
    Result climbed = context.arguments.flag("apply") ? applyNamed(service, context, sandbox)
                                                     : promoteNamed(service, context, sandbox);
    tried.data["climb"] = std::move(climbed.data);
    climbed.data = std::move(tried.data);
    return climbed;
}

}  // namespace

std::vector<Verb> tryVerbs(const OpenService& open) {
    std::vector<Option> options = commandOptions();
    options.push_back(systemOption());
    options.push_back({.name = "keep", .doc = "keep the sandbox, changed or not"});
    options.push_back({.name = "discard", .doc = "throw the sandbox away, whatever it changed"});
    options.push_back({.name = "apply", .doc = "then write what it changed into the work tree"});
    options.push_back({.name = "promote", .doc = "then promote what it changed as far as the pipeline goes"});
    options.push_back({.name = "name", .value = "NAME", .doc = "keep it, under this name"});
    options.push_back({.name = "commit", .value = "REV", .doc = "clone this commit instead of the directory as it is"});
    options.push_back({.name = "with-ignored", .doc = "list files that git ignores, too"});
    options.push_back(
        {.name = "untrusted",
         .doc = "show it nothing of yours: no project, an empty home, no variables; discard; report all"});
    options.push_back({.name = "quiet", .doc = "of Gradus's own words only the kept sandbox's handle", .letter = 'q'});
    return {{.words = "try",
             .group = Group::kTry,
             .summary = "run a command in a disposable clone, and see what it changes",
             .examples = {{"gradus try -- make test", "the result inside is the result outside"},
                          {"gradus try --discard -- sh -c 'rm -rf -- *; ls'", "nothing out here is touched"},
                          {"gradus try --system -- apt-get install -y ./tool.deb", "installed inside, absent outside"},
                          {"gradus try --memory 256M --wall-time 10s -- ./script", "with limits"},
                          {"gradus try -- bash", "a shell, on a terminal of its own"},
                          {"gradus try --untrusted -- sh < downloaded.sh", "a stranger's script, with nothing to see"}},
             .options = std::move(options),
             .command = Positional{"COMMAND", "what to run inside"},
             .onFrontPage = true,
             .handler = withService(open, tryCommand)}};
}

}  // namespace gradus
