#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include "pipeline/engine/check_answer.h"
#include "pipeline/service/service.h"
#include "stages/changes/change_sources.h"
#include "stages/changes/merge.h"
#include "stages/changes/patch.h"
#include "stages/changes/tree_reader.h"
#include "stages/changes/tree_stamp.h"
#include "stages/sandbox/owner.h"
#include "store/change_sets.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string textOf(const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json entriesJson(const std::vector<RaceEntry>& entries) {
    nlohmann::json all = nlohmann::json::array();
    for (const RaceEntry& entry : entries) all.push_back(entryJson(entry));
    return all;
}

RaceCheck checkOf(const std::string& name, const CheckAnswer& answer) {
    RaceCheck check;
    check.name = name;
    check.verdict = answer.verdict;
    check.reason = answer.reason;
    check.wallMs = answer.wallMs;
    check.execution = answer.execution;
    return check;
}

RaceCheck checkOf(const std::string& name, const ExecutionReport& report, bool cancelled) {
    RaceCheck check = checkOf(name, answerOf(report, cancelled));
    check.wallMs = static_cast<std::int64_t>(report.execution.wallMillis);
    return check;
}

/// Onto the base, or not at all.
ChangeSet fitting(const ChangeSet& changes, const fs::path& base, const std::string& what, Objects& objects) {
    MergeResult merge = mergeOnto(changes, DirectoryReader(base), objects);
    if (!merge.conflicts.empty())
        throw Error(ErrorCode::kNotAllowed, "{} does not fit the project as it is: {}: {}", what,
                    merge.conflicts.front().path, merge.conflicts.front().detail);
    return withContents(merge.merged, DirectoryReader(base), objects);
}

std::int64_t millisSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start).count();
}

RaceOutcome outcomeOf(const RaceReport& report, const RaceWish& wish) {
    if (wish.cancel.stop_requested()) return RaceOutcome::kCancelled;
    if (report.entries.front().standing == RaceStanding::kPassed) return RaceOutcome::kWon;
    const bool moved =
        std::any_of(report.entries.begin(), report.entries.end(), [](const RaceEntry& one) { return one.moved; });
    return moved ? RaceOutcome::kMoved : RaceOutcome::kNoWinner;
}

std::string listed(const std::vector<std::string>& paths) {
    constexpr std::size_t kMost = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(kMost, paths.size()); ++i)
        text += (text.empty() ? "" : ", ") + printable(paths[i]);
    return paths.size() > kMost ? fmt::format("{} and {} more", text, paths.size() - kMost) : text;
}

}  // namespace

std::int64_t RaceReport::slowestMs() const {
    std::int64_t most = 0;
    for (const RaceEntry& entry : entries) most = std::max(most, entry.spanMs);
    return most;
}

nlohmann::json raceFacts(const RaceReport& report, const RaceWish& wish) {
    nlohmann::json rank = nlohmann::json::array();
    for (const RankBy key : wish.rank) rank.push_back(nameOf(kRankings, key));
    return {{"base", nameOf(kRaceBases, report.base)},
            {"base_ms", report.baseMs},
            {"rank", std::move(rank)},
            {"wall_ms", report.wallMs},
            {"slowest_ms", report.slowestMs()}};
}

// Copied, so that what a person or another program does to the project meanwhile is nothing to the candidates. Where
// that would be too much they stand on the project itself, and whoever ran while it moved is out.
RaceGround Service::groundFor(const fs::path& root, const RaceWish& wish, RaceReport& report) {
    RaceGround ground{.directory = root};
    const auto look = [&] {
        ground.fingerprint = baseNow(root);
        return ground.fingerprint.digest();
    };
    const auto began = std::chrono::steady_clock::now();
    if (wish.base != RaceBase::kWatched) ground.pinned = sandboxes().pin({.project = root, .look = look});
    report.baseMs = millisSince(began);
    if (ground.pinned) {
        ground.directory = ground.pinned->base().directory;
        ground.moved = [pinned = ground.pinned.get()] { return pinned->moved(); };
        if (!ground.pinned->restless().empty())
            report.notes.push_back(
                fmt::format("{} is seen as it is, and nobody watches it: it is never still, or cannot be read whole",
                            listed(ground.pinned->restless())));
        return ground;
    }
    if (wish.base == RaceBase::kCopied)
        throw Error(ErrorCode::kNotAllowed, "{} is too large to be copied for a race", root.native())
            .hint("--base watched stands on the project itself: whoever runs while it changes is out");
    report.base = RaceBase::kWatched;
    if (!wish.base)
        report.notes.emplace_back(
            "the project is too large to be copied: whoever runs while something in it changes is out");
    const Digest was = look();
    // Reading it is for one thread at a time.
    ground.moved = [this, root, was, stamp = std::make_shared<TreeStamp>(root),
                    mutex = std::make_shared<std::mutex>()]() -> std::optional<std::string> {
        const std::lock_guard guard(*mutex);
        // What was put back was there all the same.
        if (const auto moved = stamp->moved(1); !moved.empty()) return moved.front();
        if (baseNow(root).digest() == was) return std::nullopt;
        return "the project";
    };
    return ground;
}

// Another one's change, or a patch: nothing is run to make it.
ChangeSet Service::givenChange(const fs::path& directory, const RaceWish::Entrant& entrant, const fs::path& base,
                               Objects& objects) {
    if (entrant.change) return fitting(viewChange(directory, *entrant.change).changes, base, *entrant.change, objects);
    const DirectoryReader tree(base);
    const PatchedChange patched = applyPatch(parsePatch(*entrant.patch), tree, objects);
    if (!patched.faults.empty())
        throw PatchMisfit(ErrorCode::kNotAllowed, "the patch of {} does not apply: {}", entrant.name,
                          patched.faults.front().text());
    for (const std::string& note : patched.notes) around_.warn(fmt::format("{}: {}", entrant.name, note));
    return withContents(patched.changes, tree, objects);
}

std::vector<Candidate> Service::candidatesOf(const fs::path& directory, const RaceWish& wish, const fs::path& base,
                                             Objects& objects) {
    std::vector<Candidate> candidates;
    for (const RaceWish::Entrant& entrant : wish.entrants) {
        Candidate candidate{entrant.name, entrant.source, std::nullopt, {}};
        if (entrant.command.empty()) {
            candidate.given = givenChange(directory, entrant, base, objects);
        } else {
            candidate.command =
                attempted(directory, {.command = entrant.command, .wish = wish.sandbox, .grace = wish.grace});
        }
        candidates.push_back(std::move(candidate));
    }
    return candidates;
}

// The caller's own commands, or the checks that stand before the first stage of the pipeline.
RaceJudge Service::judgeOf(const fs::path& directory, const RaceWish& wish, Objects& objects) {
    const fs::path root = projectRoot(directory);
    if (!wish.checks.empty()) {
        std::vector<CommandRequest> commands;
        for (const std::string& check : wish.checks)
            commands.push_back(confined(directory, {.command = {"sh", "-c", check}, .wish = wish.sandbox}));
        return [this, root, commands, names = wish.checks](const RaceSubject& subject) {
            std::vector<RaceCheck> answers;
            Limits most = subject.atMost;
            for (std::size_t i = 0; i < commands.size(); ++i) {
                CommandRequest command = commands[i];
                command.cancel = subject.cancel;
                capLimits(command.limits, most);
                const ExecutionReport report =
                    sandboxes().runOver({root, root, {}, subject.changes, subject.base}, command);
                answers.push_back(checkOf(names[i], report, subject.cancel.stop_requested()));
                spendTime(most, report.execution.cpuMillis);
            }
            return answers;
        };
    }
    if (rules(directory).state == RulesState::kNone)
        throw Error(ErrorCode::kUsage, "there is nothing to compare by")
            .hint("say what tells a good one: --check 'make test'");
    const Pipeline pipeline = pipelineInForce(rules(directory));
    const Stage& first = pipeline.stages.front();
    const bool checked = std::any_of(first.checks.begin(), first.checks.end(), [&](const std::string& name) {
        return pipeline.checks.at(name).when == CheckWhen::kBefore;
    });
    if (!checked)
        throw Error(ErrorCode::kUsage, "stage {} has no check to compare by", first.name)
            .hint("say what tells a good one: --check 'make test'");
    return [this, root, pipeline, &objects](const RaceSubject& subject) {
        TreeUnderTest tree{.project = root, .directory = root, .changes = subject.changes, .base = subject.base};
        tree.atMost = subject.atMost;
        tree.evidence.rules = rulesDigest(pipeline);
        tree.evidence.change = subject.changes.digest();
        tree.atOnce = 1;  // what else runs is the other candidates
        CheckRunner runner({sandboxes(), objects, around_.checkKinds, {}});
        std::vector<RaceCheck> answers;
        for (const CheckReport& report : runner.before(pipeline, pipeline.stages.front(), tree, {}, subject.cancel))
            answers.push_back(checkOf(report.check, report.answer));
        return answers;
    };
}

// Of every check that ran in a sandbox, from its record.
void Service::addCosts(std::vector<RaceEntry>& entries) {
    const SandboxRecords records = writing().records().sandboxes();
    for (RaceEntry& entry : entries)
        for (RaceCheck& check : entry.checks) {
            const auto execution = check.execution ? records.execution(*check.execution) : std::nullopt;
            if (!execution) continue;
            check.cpuMs = static_cast<std::int64_t>(execution->cpuMillis);
            check.peakMemoryBytes = static_cast<std::int64_t>(execution->peakMemoryBytes.value_or(0));
            check.ended = execution->verdict;
            entry.cpuMs += check.cpuMs;
            entry.peakMemoryBytes = std::max(entry.peakMemoryBytes, check.peakMemoryBytes);
            if (check.verdict != Cause::kPassed) entry.ended = check.ended;
        }
}

RaceReport Service::race(const fs::path& directory, const RaceWish& wish) {
    const fs::path root = projectRoot(directory);
    requireStateOutside(root);
    writing();
    Objects store = objects();
    const RaceJudge judge = judgeOf(directory, wish, store);
    RaceReport report;
    const auto began = std::chrono::steady_clock::now();
    const RaceGround ground = groundFor(root, wish, report);
    const std::vector<Candidate> candidates = candidatesOf(directory, wish, ground.directory, store);
    Race race({.sandboxes = sandboxes(),
               .objects = store,
               .base = ground.base(),
               .directory = ground.directory,
               .moved = ground.moved,
               .judge = judge,
               .tell = wish.tell},
              {.atOnce = wish.atOnce,
               .stopAtFirstPass = wish.stopAtFirstPass,
               .budget = wish.budget,
               .cpu = wish.cpu,
               .atMost = wish.atMost});
    nlohmann::json announced{{"candidates", nlohmann::json::array()}};
    for (const Candidate& candidate : candidates)
        announced["candidates"].push_back({{"name", candidate.name}, {"source", candidate.source}});
    record([&](Writer& writer) {
        const ActorId by = writer.actor(caller());
        report.id = startRace(writer, {writer.project(identify(root), by), thisProcess(), textOf(announced)}, by);
    });
    report.entries = race.run(candidates, wish.cancel);
    report.wallMs = millisSince(began);
    addCosts(report.entries);
    for (const RaceEntry& entry : report.entries)
        if (!entry.changes.empty()) store.put(entry.changes.encode());
    rank(report.entries, wish.rank);
    report.outcome = outcomeOf(report, wish);
    if (report.outcome != RaceOutcome::kCancelled)
        for (RaceEntry& entry : report.entries)
            race.keep(entry, fmt::format("{}-{}", raceHandle(report.id), entry.name), wish.keepFor);
    if (report.outcome == RaceOutcome::kWon) report.change = submitWinner(directory, wish, report, ground.fingerprint);
    record([&](Writer& writer) {
        nlohmann::json told = raceFacts(report, wish);
        told["candidates"] = entriesJson(report.entries);
        RaceEnd end{report.id, report.outcome, {}, textOf(told)};
        if (report.change) end.change = report.change->id;
        endRace(writer, end, writer.actor(caller()));
    });
    return report;
}

// Exactly what was judged, on the ground it was judged on.
Change Service::submitWinner(const fs::path& directory, const RaceWish& wish, const RaceReport& report,
                             const BaseFingerprint& base) {
    const RaceEntry& winner = report.entries.front();
    const auto entrant = std::find_if(wish.entrants.begin(), wish.entrants.end(),
                                      [&](const RaceWish::Entrant& one) { return one.name == winner.name; });
    if (entrant->change) return viewChange(directory, *entrant->change).change;
    FoundChange found;
    found.changes = winner.changes;
    found.base = base;
    SubmitRequest request;
    request.title = fmt::format("{} (won race {} of {})", winner.name, raceHandle(report.id), report.entries.size());
    const SubmitReport submitted = enterChange(projectRoot(directory), std::move(found), request);
    if (!submitted.change) throw Error(ErrorCode::kDamaged, "the winner {} could not be submitted", winner.name);
    return *submitted.change;
}

std::vector<RaceView> Service::races(const fs::path& directory, std::int64_t limit) {
    std::vector<RaceView> views;
    Store* const store = reading();
    const auto project =
        store != nullptr ? store->records().findProject(identify(projectRoot(directory))) : std::nullopt;
    if (!project) return views;
    for (RaceRecord& record : store->records().races().races(*project, limit)) {
        const bool lost = !record.outcome && isProvenDead(record.owner);
        views.push_back({std::move(record), lost});
    }
    return views;
}

ChangeSet Service::changeOfCandidate(const RaceView& race, const std::string& name) {
    const std::string handle = raceHandle(race.record.id);
    const auto told = nlohmann::json::parse(race.record.candidates.value_or("{}"), nullptr, false);
    const auto none = nlohmann::json::array();
    for (const nlohmann::json& entry : told.is_object() ? told.value("candidates", none) : none) {
        if (entry.value("name", "") != name) continue;
        const auto set = entry.find("change_set");
        if (set == entry.end() || !set->is_string())
            throw Error(ErrorCode::kNotFound, "{} of {} changed nothing, or did not come to an end", name, handle);
        const auto digest = Digest::fromHex(set->get<std::string>());
        if (!digest || !objects().contains(*digest))
            throw Error(ErrorCode::kNotFound, "what {} of {} changed is not kept any more", name, handle);
        return readChanges(objects(), *digest);
    }
    throw Error(ErrorCode::kNotFound, "{} had no candidate '{}'", handle, printable(name))
        .hint(fmt::format("`gradus race show {}` lists them", handle));
}

RaceView Service::raceNamed(const fs::path& directory, const std::string& words) {
    const auto handle = parseHandle(words);
    if (handle && (handle->kind == HandleKind::kRace || handle->kind == HandleKind::kLatest))
        for (const RaceView& view : races(directory, kAllRaces))
            if (handle->kind == HandleKind::kLatest || view.record.id == handle->number) return view;
    throw Error(ErrorCode::kNotFound, "there is no race '{}' in this project", printable(words))
        .hint("`gradus race ls` lists them");
}

}  // namespace gradus
