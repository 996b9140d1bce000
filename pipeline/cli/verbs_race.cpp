#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/command_words.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/cli/race_view.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
#include "policies/language/duration.h"
#include "policies/language/size.h"
#include "stages/changes/patch.h"
#include "store/file.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kMostCandidates = 64;
constexpr std::size_t kLargestPatch = std::size_t{256} << 20;
constexpr std::int64_t kMostListed = 50;
constexpr Milliseconds kEvidence{std::int64_t{24} * 3600 * 1000};

bool isName(std::string_view name) {
    return !name.empty() && name.size() <= 40 && name.front() != '-' &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
               std::string_view::npos;
}

std::string patchAt(const std::filesystem::path& path, const std::string& candidate) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored))
        throw Error(ErrorCode::kNotFound, "there is no file {}, the patch of {}", printable(path.native()), candidate)
            .hint("nothing was run; name a patch, as `git diff` or `gradus diff` writes it");
    return readSmallFile(path, kLargestPatch, "the patch");
}

RaceWish::Entrant entrantOf(const Context& context, const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == word.size() || !isName(name))
        throw usageError("race", fmt::format("'{}' is no candidate", printable(word)),
                         "write NAME='COMMAND', NAME=@FILE for a patch, or NAME=c12 for a change");
    if (const auto taken = parseHandle(name); taken && taken->kind != HandleKind::kDigestPrefix)
        throw usageError("race", fmt::format("a candidate cannot be called {}, which reads like a handle", name),
                         fmt::format("give it a name of its own: fix={}", printable(word.substr(equals + 1))));
    RaceWish::Entrant entrant{.name = name, .source = word.substr(equals + 1)};
    const auto handle = parseHandle(entrant.source);
    if (entrant.source.front() == '@')
        entrant.patch = patchAt(context.host.directory() / entrant.source.substr(1), name);
    else if (handle && handle->kind == HandleKind::kChange)
        entrant.change = entrant.source;
    else
        entrant.command = {"sh", "-c", entrant.source};
    return entrant;
}

std::vector<RankBy> rankOf(const Context& context) {
    const auto text = context.arguments.value("rank");
    if (!text) return RaceWish{}.rank;
    std::vector<RankBy> keys;
    for (std::size_t from = 0; from <= text->size();) {
        const std::size_t end = std::min(text->find(',', from), text->size());
        const std::string word = text->substr(from, end - from);
        const auto key = fromName(kRankings, word);
        if (!key)
            throw usageError("race", fmt::format("candidates cannot be ranked by '{}'", printable(word)),
                             "by any of failures, passed, size, time, cpu, memory, with commas between");
        if (std::find(keys.begin(), keys.end(), *key) != keys.end())
            throw usageError("race", fmt::format("--rank says {} twice", word));
        keys.push_back(*key);
        from = end + 1;
    }
    return keys;
}

template <typename T>
T moreThanNothing(std::string_view option, const std::string& text, const Parsed<T>& parsed) {
    if (!parsed || *parsed.value <= T{})
        throw usageError("race", fmt::format("--{} '{}' {}", option, printable(text),
                                             parsed ? "must be more than nothing" : parsed.problem));
    return *parsed.value;
}

std::optional<Milliseconds> durationOf(const Context& context, std::string_view option) {
    const auto text = context.arguments.value(option);
    return text ? std::optional(moreThanNothing(option, *text, parseDuration(*text))) : std::nullopt;
}

/// What all candidates together may take.
struct Budget {
    std::optional<Milliseconds> time;
    std::optional<Milliseconds> cpu;
    std::optional<std::int64_t> memory;
};

// "10m", or "time=10m,cpu=20m,memory=8G".
Budget budgetOf(const Context& context) {
    Budget budget;
    const std::string text = context.arguments.value("budget").value_or("");
    for (std::size_t from = 0; !text.empty() && from <= text.size();) {
        const std::size_t end = std::min(text.find(',', from), text.size());
        const std::string part = text.substr(from, end - from);
        from = end + 1;
        const std::size_t equals = part.find('=');
        const std::string what = equals == std::string::npos ? "time" : part.substr(0, equals);
        const std::string value = part.substr(equals == std::string::npos ? 0 : equals + 1);
        if (what == "time")
            budget.time = moreThanNothing("budget", value, parseDuration(value));
        else if (what == "cpu")
            budget.cpu = moreThanNothing("budget", value, parseDuration(value));
        else if (what == "memory")
            budget.memory = moreThanNothing("budget", value, parseSize(value));
        else
            throw usageError("race", fmt::format("there is no budget of '{}'", printable(what)),
                             "write --budget 10m, or --budget time=10m,cpu=20m,memory=8G");
    }
    return budget;
}

// Memory is held by those that run at once: either fewer of them, or less for each.
void shareMemory(const Context& context, std::int64_t budget, RaceWish& wish) {
    const auto asked = context.arguments.value("memory");
    const std::int64_t each =
        asked ? moreThanNothing("memory", *asked, parseSize(*asked)) : budget / static_cast<std::int64_t>(wish.atOnce);
    if (each > budget)
        throw usageError("race", fmt::format("--memory {} is more than the budget of {} for all of them",
                                             formatSize(each), formatSize(budget)));
    wish.atOnce = std::min(wish.atOnce, static_cast<std::size_t>(budget / each));
    wish.atMost[LimitName::kMemory] = Limit{static_cast<std::uint64_t>(each), true};
}

RaceWish wishOf(Context& context) {
    RaceWish wish;
    std::set<std::string> names;
    for (const std::string& word : context.arguments.positionals("CANDIDATE")) {
        wish.entrants.push_back(entrantOf(context, word));
        if (!names.insert(wish.entrants.back().name).second)
            throw usageError("race", fmt::format("two candidates are called {}", wish.entrants.back().name));
    }
    if (wish.entrants.size() > kMostCandidates)
        throw usageError("race", fmt::format("{} candidates are more than {}", wish.entrants.size(), kMostCandidates));
    wish.checks = context.arguments.values("check");
    wish.sandbox = sandboxWishOf(context, "race");
    wish.stopAtFirstPass = context.arguments.value("stop") == "first-pass";
    const Budget budget = budgetOf(context);
    wish.budget = budget.time;
    wish.cpu = budget.cpu;
    if (const auto base = context.arguments.value("base")) wish.base = fromName(kRaceBases, *base);
    wish.keepFor = durationOf(context, "keep").value_or(kEvidence);
    wish.rank = rankOf(context);
    const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    wish.atOnce = static_cast<std::size_t>(context.arguments.number("jobs", 1, kMostCandidates).value_or(cores));
    wish.atOnce = std::min(wish.atOnce, std::max<std::size_t>(wish.entrants.size(), 1));
    if (budget.memory) shareMemory(context, *budget.memory, wish);
    return wish;
}

std::string lines(const Json& entry) {
    return fmt::format("+{} -{}", entry.value("lines_added", 0), entry.value("lines_removed", 0));
}

std::string overlapText(const Json& entry) {
    std::string text;
    for (const Json& other : entry.value("overlap", Json::array()))
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", other.value("with", ""), other.value("paths", 0));
    return text.empty() ? "-" : text;
}

std::string checksText(const Json& entry) {
    const std::size_t all = entry.value("checks", Json::array()).size();
    return all == 0 ? "-" : fmt::format("{}/{}", entry.value("checks_passed", 0), all);
}

std::optional<Verdict> endedOf(const Json& entry) {
    if (!entry.contains("ended") || !entry["ended"].is_string()) return std::nullopt;
    const auto found = std::find(kVerdictNames.begin(), kVerdictNames.end(), entry["ended"].get<std::string>());
    return found == kVerdictNames.end() ? std::nullopt
                                        : std::optional(static_cast<Verdict>(found - kVerdictNames.begin()));
}

// The candidates of a race that is running, or was lost, have only names.
std::string tableOf(const Json& entries, const Context& context) {
    using enum TextTable::Align;
    TextTable table({{"#", kRight},
                     {"candidate"},
                     {"result"},
                     {"checks", kRight},
                     {"paths", kRight},
                     {"lines"},
                     {"time", kRight},
                     {"cpu", kRight},
                     {"memory", kRight},
                     {"same paths as"},
                     {"kept as"}});
    std::size_t place = 0;
    for (const Json& entry : entries) {
        const std::string name = entry.value("name", "");
        if (!entry.contains("standing")) {
            table.row({"-", name, "-", "-", "-", "-", "-", "-", "-", "-", "-"});
            continue;
        }
        const RaceStanding standing =
            fromName(kRaceStandings, entry.value("standing", "")).value_or(RaceStanding::kErrored);
        table.row({std::to_string(++place),
                   name,
                   {standingText(standing, endedOf(entry)), styleOf(standing)},
                   checksText(entry),
                   std::to_string(entry.value("paths", 0)),
                   lines(entry),
                   timeText(entry.value("wall_ms", std::int64_t{0})),
                   timeText(entry.value("cpu_ms", std::int64_t{0})),
                   formatSize(entry.value("peak_memory_bytes", std::int64_t{0})),
                   overlapText(entry),
                   entry["sandbox"].is_string() ? entry["sandbox"].get<std::string>() : "-"});
    }
    std::string text = table.render(context.paint, context.width);
    for (const Json& entry : entries)
        if (const std::string reason = entry.value("reason", ""); !reason.empty())
            text += fmt::format("  {}: {}\n", printable(entry.value("name", "")), printable(reason));
    return text;
}

std::string outcomeText(RaceOutcome outcome, const Json& entries, const std::optional<std::int64_t>& change) {
    switch (outcome) {
        case RaceOutcome::kWon:
            return fmt::format("{} won{}", entries.empty() ? "" : entries.front().value("name", ""),
                               change ? ", submitted as " + changeHandle(*change) : "");
        case RaceOutcome::kNoWinner:
            return "no candidate passed every check";
        case RaceOutcome::kMoved:
            return "something that the candidates see changed while they ran: there is no winner";
        case RaceOutcome::kCancelled:
            return "cancelled: nothing was kept";
    }
    return {};
}

std::optional<Problem> problemOf(RaceOutcome outcome) {
    if (outcome == RaceOutcome::kNoWinner) return Problem{"no-winner", "no candidate passed every check"};
    if (outcome == RaceOutcome::kMoved)
        return Problem{"moved", "something that the candidates see changed while they ran",
                       "let it rest, then race again", true};
    return std::nullopt;
}

// How much at once there was: the whole took as long as its slowest, where there are cores enough.
std::string paceText(std::size_t candidates, std::int64_t wall, std::int64_t slowest) {
    if (slowest <= 0) return "";
    const std::int64_t hundredths = (wall * 100 + slowest / 2) / slowest;
    return fmt::format("{} in {}, {}.{:02}x the slowest\n", counted(candidates, "candidate"), timeText(wall),
                       hundredths / 100, hundredths % 100);
}

Result answer(const RaceReport& report, const RaceWish& wish, const Interrupt& interrupt, Context& context) {
    Result result;
    Json entries = Json::array();
    for (const RaceEntry& entry : report.entries)
        entries.push_back(Json::parse(entryJson(entry).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    const bool won = report.outcome == RaceOutcome::kWon;
    const auto change = report.change ? std::optional(report.change->id) : std::nullopt;
    result.data["race"] = Json::parse(raceFacts(report, wish).dump());
    result.data["race"]["id"] = raceHandle(report.id);
    result.data["race"]["outcome"] = nameOf(kRaceOutcomes, report.outcome);
    result.data["race"]["notes"] = report.notes;
    result.data["race"]["winner"] = won ? Json(report.entries.front().name) : Json();
    result.data["race"]["change"] = change ? Json(changeHandle(*change)) : Json();
    result.text = tableOf(entries, context) + paceText(entries.size(), report.wallMs, report.slowestMs()) +
                  fmt::format("{}: {}\n", raceHandle(report.id), outcomeText(report.outcome, entries, change));
    result.data["candidates"] = std::move(entries);
    result.problem = problemOf(report.outcome);
    if (!won) result.exit = report.outcome == RaceOutcome::kMoved ? Exit::kBusy : Exit::kFailed;
    if (interrupt.signal() != 0) result.exit = interrupt.signal() == SIGTERM ? Exit::kTerminated : Exit::kInterrupted;
    if (change)
        result.next = {fmt::format("gradus race show {} --diff {}", raceHandle(report.id), report.entries.front().name),
                       fmt::format("gradus apply {}", changeHandle(*change))};
    return result;
}

Result runRace(Service& service, Context& context) {
    const bool apply = context.arguments.flag("apply");
    const auto to = context.arguments.value("to");
    if (apply && to) throw usageError("race", "--apply and --to exclude each other");
    RaceWish wish = wishOf(context);
    // Where the winner goes is known to be there before anybody runs.
    if (apply || to) requireStage(service, context, to);
    Result result;
    std::optional<Change> change;
    {
        const Interrupt interrupt;
        wish.cancel = interrupt.token();
        std::vector<std::string> names;
        for (const RaceWish::Entrant& entrant : wish.entrants) names.push_back(entrant.name);
        RaceProgress progress(context, names);
        wish.tell = [&](const RaceEntry& entry, std::string_view what) { progress.tell(entry, what); };
        const RaceReport report = service.race(context.host.directory(), wish);
        progress.end();
        if (!context.json)
            for (const std::string& note : report.notes) context.progress.text("note: " + printable(note));
        change = report.change;
        result = answer(report, wish, interrupt, context);
    }
    if (result.exit != Exit::kOk || !change || (!apply && !to)) return result;
    if (!context.json) context.progress.text(result.text);
    const std::string winner = changeHandle(change->id);
    Result climbed = to ? promoteNamed(service, context, winner, to) : applyNamed(service, context, winner);
    result.data["climb"] = std::move(climbed.data);
    climbed.data = std::move(result.data);
    return climbed;
}

Result race(Service& service, Context& context) {
    try {
        return runRace(service, context);
    } catch (const PatchMisfit& misfit) {
        // As `gradus submit` answers it.
        return {.exit = Exit::kFailed, .problem = Problem{"does-not-apply", misfit.what(), misfit.hint()}};
    }
}

std::string stateOf(const RaceView& view) {
    if (view.record.outcome) return std::string(nameOf(kRaceOutcomes, *view.record.outcome));
    return view.lost ? "lost" : "running";
}

Json factsOf(const RaceView& view) {
    Json told = Json::parse(view.record.candidates.value_or("{}"), nullptr, false);
    return told.is_object() ? told : Json::object();
}

Json candidatesOf(const RaceView& view) { return factsOf(view).value("candidates", Json::array()); }

Json viewJson(const RaceView& view) {
    Json json{{"id", raceHandle(view.record.id)},
              {"state", stateOf(view)},
              {"change", view.record.change ? Json(changeHandle(*view.record.change)) : Json()},
              {"started_at", formatTime(view.record.startedAt)},
              {"ended_at", view.record.endedAt ? Json(formatTime(*view.record.endedAt)) : Json()},
              {"candidates", candidatesOf(view)}};
    const Json facts = factsOf(view);
    for (const char* name : {"base", "base_ms", "rank", "wall_ms", "slowest_ms"})
        if (facts.contains(name)) json[name] = facts[name];
    return json;
}

Result list(Service& service, Context& context) {
    Json all = Json::array();
    TextTable table({{"race"}, {"state"}, {"winner"}, {"change"}, {"candidates"}, {"started"}});
    for (const RaceView& view : service.races(context.host.directory(), kMostListed)) {
        all.push_back(viewJson(view));
        std::string names;
        for (const Json& entry : candidatesOf(view))
            names += (names.empty() ? "" : ", ") + entry.value("name", std::string());
        const bool won = view.record.outcome == RaceOutcome::kWon;
        table.row({raceHandle(view.record.id), stateOf(view), won ? names.substr(0, names.find(',')) : "-",
                   view.record.change ? changeHandle(*view.record.change) : "-", names,
                   formatTime(view.record.startedAt)});
    }
    std::string text = table.empty() ? "no race was run here\n" : table.render(context.paint, context.width);
    return {.data = {{"races", std::move(all)}}, .text = std::move(text)};
}

Result diffOf(Service& service, Context& context, const RaceView& view, const std::string& name) {
    Result result{.data = {{"race", {{"id", raceHandle(view.record.id)}}}, {"candidate", name}}};
    const WrittenPatch patch = service.patchOf(service.changeOfCandidate(view, name), {});
    result.data["patch"] = patch.text;
    result.data["notes"] = patch.notes;
    for (const std::string& note : patch.notes) context.progress.text("note: " + printable(note));
    if (context.json) return result;
    context.lines.contents(patch.text);
    context.lines.endContents();
    result.streamed = true;
    return result;
}

Result show(Service& service, Context& context) {
    const RaceView view =
        service.raceNamed(context.host.directory(), context.arguments.positional("RACE").value_or("@"));
    if (const auto name = context.arguments.value("diff")) return diffOf(service, context, view, *name);
    const Json entries = candidatesOf(view);
    const std::string how = view.record.outcome ? outcomeText(*view.record.outcome, entries, view.record.change)
                            : view.lost
                                ? "its process died before the end; nothing of it is left, and it can be run again"
                                : "still running";
    const Json facts = factsOf(view);
    return {.data = {{"race", viewJson(view)}},
            .text = tableOf(entries, context) +
                    paceText(entries.size(), facts.value("wall_ms", std::int64_t{0}),
                             facts.value("slowest_ms", std::int64_t{0})) +
                    fmt::format("{}: {}\n", raceHandle(view.record.id), how)};
}

}  // namespace

std::vector<Verb> raceVerbs(const OpenService& open) {
    std::vector<Option> options = commandOptions();
    std::erase_if(options, [](const Option& option) { return option.name == "raw" || option.name == "service"; });
    options.push_back({.name = "check",
                       .value = "COMMAND",
                       .doc = "what every candidate is judged by, over the tree it would leave",
                       .repeatable = true,
                       .fallback = "the checks before the first stage"});
    options.push_back({.name = "apply", .doc = "then write the winner into the work tree"});
    options.push_back({.name = "to", .value = "STAGE", .doc = "then promote the winner up to this stage"});
    options.push_back({.name = "stop",
                       .value = "WHEN",
                       .doc = "when all have ended, or as soon as one passed every check",
                       .fallback = "all",
                       .choices = {"all", "first-pass"}});
    options.push_back(
        {.name = "budget", .value = "BUDGET", .doc = "for all of them together: 10m, or time=10m,cpu=20m,memory=8G"});
    options.push_back(
        {.name = "jobs", .value = "N", .doc = "how many run at once", .letter = 'j', .fallback = "one per core"});
    options.push_back({.name = "base",
                       .value = "HOW",
                       .doc = "what all start from: a copy of the project, or the project, watched",
                       .fallback = "copied, unless it is large",
                       .choices = {"copied", "watched"}});
    options.push_back({.name = "rank",
                       .value = "KEYS",
                       .doc = "what tells them apart: failures, passed, size, time, cpu, memory",
                       .fallback = "failures,passed,size,time"});
    options.push_back(
        {.name = "keep", .value = "DURATION", .doc = "how long their sandboxes are kept", .fallback = "24h"});
    return {{.words = "race",
             .group = Group::kTry,
             .summary = "try several approaches at once, compare them, keep the winner",
             .examples = {{"gradus race --check 'make test' a='./fix-a' b='./fix-b'", "two commands, one test"},
                          {"gradus race --check 'make test' a=@one.diff b=c12 --apply", "a patch against a change"},
                          {"gradus race a='agent one' b='agent two' --stop first-pass", "by the pipeline's checks"}},
             .positionals = {{"CANDIDATE", "NAME='COMMAND', NAME=@PATCH or NAME=c12", true, true}},
             .options = std::move(options),
             .onFrontPage = true,
             .handler = withService(open, race)},
            {.words = "race ls",
             .group = Group::kTry,
             .summary = "list the races of this project",
             .examples = {{"gradus race ls", "newest first"}},
             .handler = withService(open, list)},
            {.words = "race show",
             .group = Group::kTry,
             .summary = "show how the candidates of a race compare",
             .examples = {{"gradus race show r3", "the table, as it was"},
                          {"gradus race show r3 --diff guess", "what one of them changed, as it was judged"}},
             .positionals = {{"RACE", "its handle (r3), or the newest", false}},
             .options = {{.name = "diff", .value = "CANDIDATE", .doc = "show what this one changed, as a patch"}},
             .handler = withService(open, show)}};
}

}  // namespace gradus
