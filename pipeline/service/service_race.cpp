#include <algorithm>
#include <nlohmann/json.hpp>

#include "pipeline/engine/check_answer.h"
#include "pipeline/service/service.h"
#include "stages/changes/change_sources.h"
#include "stages/changes/merge.h"
#include "stages/changes/tree_reader.h"
#include "stages/sandbox/owner.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string payloadOf(const nlohmann::json& candidates) {
    return nlohmann::json{{"candidates", candidates}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json entriesJson(const std::vector<RaceEntry>& entries) {
    nlohmann::json all = nlohmann::json::array();
    for (const RaceEntry& entry : entries) all.push_back(entryJson(entry));
    return all;
}

RaceCheck checkOf(const std::string& name, const CheckAnswer& answer) {
    return {name, answer.verdict, answer.reason, answer.wallMs, answer.execution};
}

/// Onto the project as it is, or not at all.
ChangeSet fitting(const ChangeSet& changes, const fs::path& project, const std::string& what, Objects& objects) {
    MergeResult merge = mergeOnto(changes, DirectoryReader(project), objects);
    if (!merge.conflicts.empty())
        throw Error(ErrorCode::kNotAllowed, "{} does not fit the project as it is: {}: {}", what,
                    merge.conflicts.front().path, merge.conflicts.front().detail);
    return withContents(merge.merged, DirectoryReader(project), objects);
}

}  // namespace

// Another one's change, or a patch: nothing is run to make it.
ChangeSet Service::givenChange(const fs::path& directory, const RaceWish::Entrant& entrant, Objects& objects) {
    const fs::path root = projectRoot(directory);
    if (entrant.change) return fitting(viewChange(directory, *entrant.change).changes, root, *entrant.change, objects);
    SubmitRequest request;
    request.source.patch = entrant.patch;
    request.dryRun = true;
    const SubmitReport read = submit(directory, request);
    if (!read.faults.empty())
        throw Error(ErrorCode::kUsage, "the patch of {} does not apply: {}", entrant.name, read.faults.front());
    return withContents(read.changes, DirectoryReader(root), objects);
}

std::vector<Candidate> Service::candidatesOf(const fs::path& directory, const RaceWish& wish, Objects& objects) {
    std::vector<Candidate> candidates;
    for (const RaceWish::Entrant& entrant : wish.entrants) {
        Candidate candidate{entrant.name, entrant.source, std::nullopt, {}};
        if (entrant.command.empty()) {
            candidate.given = givenChange(directory, entrant, objects);
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
        return [this, root, commands, names = wish.checks](const ChangeSet& changes, const std::stop_token& stop) {
            std::vector<RaceCheck> answers;
            for (std::size_t i = 0; i < commands.size(); ++i) {
                CommandRequest command = commands[i];
                command.cancel = stop;
                const ExecutionReport report = sandboxes().runOver({root, root, {}, changes}, command);
                answers.push_back(checkOf(names[i], answerOf(report, stop.stop_requested())));
                answers.back().wallMs = static_cast<std::int64_t>(report.execution.wallMillis);
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
    return [this, root, pipeline, &objects](const ChangeSet& changes, const std::stop_token& stop) {
        TreeUnderTest tree{.project = root, .directory = root, .changes = changes};
        tree.evidence.rules = rulesDigest(pipeline);
        tree.evidence.change = changes.digest();
        CheckRunner runner({sandboxes(), objects, around_.checkKinds, {}});
        std::vector<RaceCheck> answers;
        for (const CheckReport& report : runner.before(pipeline, pipeline.stages.front(), tree, {}, stop))
            answers.push_back(checkOf(report.check, report.answer));
        return answers;
    };
}

RaceReport Service::race(const fs::path& directory, const RaceWish& wish) {
    const fs::path root = projectRoot(directory);
    writing();
    Objects store = objects();
    const RaceJudge judge = judgeOf(directory, wish, store);
    Race race({.sandboxes = sandboxes(), .objects = store, .project = root, .judge = judge, .tell = wish.tell},
              {.atOnce = wish.atOnce, .stopAtFirstPass = wish.stopAtFirstPass, .budget = wish.budget});
    const std::vector<Candidate> candidates = candidatesOf(directory, wish, store);
    const BaseFingerprint base = baseNow(root);
    RaceReport report;
    nlohmann::json announced = nlohmann::json::array();
    for (const Candidate& candidate : candidates)
        announced.push_back({{"name", candidate.name}, {"source", candidate.source}});
    record([&](Writer& writer) {
        const ActorId by = writer.actor(caller());
        report.id = startRace(writer, {writer.project(identify(root), by), thisProcess(), payloadOf(announced)}, by);
    });
    report.entries = race.run(candidates, wish.cancel);
    rank(report.entries, wish.rank);
    report.outcome = outcomeOf(report, base, wish, root);
    if (report.outcome != RaceOutcome::kCancelled)
        for (RaceEntry& entry : report.entries)
            race.keep(entry, fmt::format("{}-{}", raceHandle(report.id), entry.name), wish.keepFor);
    if (report.outcome == RaceOutcome::kWon) report.change = submitWinner(directory, wish, report);
    record([&](Writer& writer) {
        RaceEnd end{report.id, report.outcome, {}, payloadOf(entriesJson(report.entries))};
        if (report.change) end.change = report.change->id;
        endRace(writer, end, writer.actor(caller()));
    });
    return report;
}

RaceOutcome Service::outcomeOf(const RaceReport& report, const BaseFingerprint& base, const RaceWish& wish,
                               const fs::path& root) const {
    if (wish.cancel.stop_requested()) return RaceOutcome::kCancelled;
    if (baseNow(root) != base) return RaceOutcome::kMoved;
    return report.entries.front().standing == RaceStanding::kPassed ? RaceOutcome::kWon : RaceOutcome::kNoWinner;
}

Change Service::submitWinner(const fs::path& directory, const RaceWish& wish, const RaceReport& report) {
    const RaceEntry& winner = report.entries.front();
    const auto entrant = std::find_if(wish.entrants.begin(), wish.entrants.end(),
                                      [&](const RaceWish::Entrant& one) { return one.name == winner.name; });
    if (entrant->change) return viewChange(directory, *entrant->change).change;
    SubmitRequest request;
    if (winner.sandbox) request.source.sandbox = sandboxHandle(*winner.sandbox);
    request.source.patch = entrant->patch;
    request.title = fmt::format("{} (won race {} of {})", winner.name, raceHandle(report.id), report.entries.size());
    const SubmitReport submitted = submit(directory, request);
    if (!submitted.change || submitted.changes.digest() != winner.changes.digest())
        throw Error(ErrorCode::kBusy, "the project changed while the winner was taken over").hint("race again");
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

RaceView Service::raceNamed(const fs::path& directory, const std::string& words) {
    const auto handle = parseHandle(words);
    if (handle && (handle->kind == HandleKind::kRace || handle->kind == HandleKind::kLatest))
        for (const RaceView& view : races(directory, kAllRaces))
            if (handle->kind == HandleKind::kLatest || view.record.id == handle->number) return view;
    throw Error(ErrorCode::kNotFound, "there is no race '{}' in this project", printable(words))
        .hint("`gradus race ls` lists them");
}

}  // namespace gradus
