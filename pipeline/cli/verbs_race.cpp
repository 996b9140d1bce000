#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/command_words.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
#include "policies/language/duration.h"
#include "policies/language/size.h"
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

RaceWish::Entrant entrantOf(const Context& context, const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == word.size() || !isName(name))
        throw usageError("race", fmt::format("'{}' is no candidate", printable(word)),
                         "write NAME='COMMAND', NAME=@FILE for a patch, or NAME=c12 for a change");
    RaceWish::Entrant entrant{.name = name, .source = word.substr(equals + 1)};
    const auto handle = parseHandle(entrant.source);
    if (entrant.source.front() == '@')
        entrant.patch = readSmallFile(context.host.directory() / entrant.source.substr(1), kLargestPatch, "the patch");
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
        keys.push_back(*key);
        from = end + 1;
    }
    return keys;
}

std::optional<Milliseconds> durationOf(const Context& context, std::string_view option) {
    const auto text = context.arguments.value(option);
    if (!text) return std::nullopt;
    const auto parsed = parseDuration(*text);
    if (!parsed || parsed.value->count() <= 0)
        throw usageError("race", fmt::format("--{} '{}' {}", option, printable(*text),
                                             parsed ? "must be more than nothing" : parsed.problem));
    return *parsed.value;
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
    wish.budget = durationOf(context, "budget");
    wish.keepFor = durationOf(context, "keep").value_or(kEvidence);
    wish.rank = rankOf(context);
    const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
    wish.atOnce = static_cast<std::size_t>(context.arguments.number("jobs", 1, kMostCandidates).value_or(cores));
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
        const std::string standing = entry["standing"];
        const Style style = standing == "passed" ? Style::kGreen : standing == "stopped" ? Style::kPlain : Style::kRed;
        table.row({std::to_string(++place),
                   name,
                   {standing, style},
                   checksText(entry),
                   std::to_string(entry.value("paths", 0)),
                   lines(entry),
                   formatDuration(Milliseconds(entry.value("wall_ms", 0))),
                   formatDuration(Milliseconds(entry.value("cpu_ms", 0))),
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
            return "the project changed meanwhile, so nothing of this is about what is there now";
        case RaceOutcome::kCancelled:
            return "cancelled: nothing was kept";
    }
    return {};
}

std::optional<Problem> problemOf(RaceOutcome outcome) {
    if (outcome == RaceOutcome::kNoWinner) return Problem{"no-winner", "no candidate passed every check"};
    if (outcome == RaceOutcome::kMoved)
        return Problem{"moved", "the project changed while they ran", "let it rest, then race again", true};
    return std::nullopt;
}

void tell(Context& context, const RaceEntry& entry, std::string_view what) {
    if (context.json || what == "made") return;
    if (what == "started") return context.progress.text(fmt::format("{}: running", entry.name));
    const std::string standing(nameOf(kRaceStandings, entry.standing));
    context.progress.text(fmt::format("{}: {}{}, {}", entry.name, standing,
                                      entry.reason.empty() ? "" : " (" + printable(entry.reason) + ")",
                                      formatDuration(Milliseconds(entry.wallMs))));
}

Result answer(const RaceReport& report, const Interrupt& interrupt, Context& context) {
    Result result;
    Json entries = Json::array();
    for (const RaceEntry& entry : report.entries)
        entries.push_back(Json::parse(entryJson(entry).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    const bool won = report.outcome == RaceOutcome::kWon;
    const auto change = report.change ? std::optional(report.change->id) : std::nullopt;
    result.data["race"] = {{"id", raceHandle(report.id)}, {"outcome", nameOf(kRaceOutcomes, report.outcome)}};
    result.data["race"]["winner"] = won ? Json(report.entries.front().name) : Json();
    result.data["race"]["change"] = change ? Json(changeHandle(*change)) : Json();
    result.text = tableOf(entries, context) +
                  fmt::format("{}: {}\n", raceHandle(report.id), outcomeText(report.outcome, entries, change));
    result.data["candidates"] = std::move(entries);
    result.problem = problemOf(report.outcome);
    if (!won) result.exit = report.outcome == RaceOutcome::kMoved ? Exit::kBusy : Exit::kFailed;
    if (interrupt.signal() != 0) result.exit = interrupt.signal() == SIGTERM ? Exit::kTerminated : Exit::kInterrupted;
    if (change)
        result.next = {fmt::format("gradus diff {}", changeHandle(*change)),
                       fmt::format("gradus apply {}", changeHandle(*change))};
    return result;
}

Result race(Service& service, Context& context) {
    const bool apply = context.arguments.flag("apply");
    const auto to = context.arguments.value("to");
    if (apply && to) throw usageError("race", "--apply and --to exclude each other");
    RaceWish wish = wishOf(context);
    Result result;
    std::optional<Change> change;
    {
        const Interrupt interrupt;
        wish.cancel = interrupt.token();
        wish.tell = [&](const RaceEntry& entry, std::string_view what) { tell(context, entry, what); };
        const RaceReport report = service.race(context.host.directory(), wish);
        change = report.change;
        result = answer(report, interrupt, context);
    }
    if (result.exit != Exit::kOk || !change || (!apply && !to)) return result;
    if (!context.json) context.progress.text(result.text);
    const std::string winner = changeHandle(change->id);
    Result climbed = to ? promoteNamed(service, context, winner, to) : applyNamed(service, context, winner);
    result.data["climb"] = std::move(climbed.data);
    climbed.data = std::move(result.data);
    return climbed;
}

std::string stateOf(const RaceView& view) {
    if (view.record.outcome) return std::string(nameOf(kRaceOutcomes, *view.record.outcome));
    return view.lost ? "lost" : "running";
}

Json candidatesOf(const RaceView& view) {
    const Json told = Json::parse(view.record.candidates.value_or("{}"), nullptr, false);
    return told.is_object() && told.contains("candidates") ? told["candidates"] : Json::array();
}

Json viewJson(const RaceView& view) {
    return {{"id", raceHandle(view.record.id)},
            {"state", stateOf(view)},
            {"change", view.record.change ? Json(changeHandle(*view.record.change)) : Json()},
            {"started_at", formatTime(view.record.startedAt)},
            {"ended_at", view.record.endedAt ? Json(formatTime(*view.record.endedAt)) : Json()},
            {"candidates", candidatesOf(view)}};
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

Result show(Service& service, Context& context) {
    const RaceView view =
        service.raceNamed(context.host.directory(), context.arguments.positional("RACE").value_or("@"));
    const Json entries = candidatesOf(view);
    const std::string how = view.record.outcome ? outcomeText(*view.record.outcome, entries, view.record.change)
                            : view.lost         ? "its process died; nothing of it is left"
                                                : "still running";
    return {.data = {{"race", viewJson(view)}},
            .text = tableOf(entries, context) + fmt::format("{}: {}\n", raceHandle(view.record.id), how)};
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
    options.push_back({.name = "budget", .value = "DURATION", .doc = "time on the clock for all of them"});
    options.push_back(
        {.name = "jobs", .value = "N", .doc = "how many run at once", .letter = 'j', .fallback = "one per core"});
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
             .examples = {{"gradus race show r3", "the table, as it was"}},
             .positionals = {{"RACE", "its handle (r3), or the newest", false}},
             .handler = withService(open, show)}};
}

}  // namespace gradus
