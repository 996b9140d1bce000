#include "pipeline/engine/step_runner.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "pipeline/engine/command_mark.h"
#include "store/file.h"
#include "store/model/canonical.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;
using State = StepState;

constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 20;
constexpr const char* kDirectory = "steps";
constexpr std::array kBetweenStarts{Milliseconds(50), Milliseconds(250), Milliseconds(1000)};

struct ActionWords {
    std::string_view word;
    std::vector<std::string> StepPlan::*words;
};
// In the order of StepRunner::Action.
const std::array kActions{ActionWords{"run", &StepPlan::run}, ActionWords{"undo", &StepPlan::undo},
                          ActionWords{"probe", &StepPlan::probe}};

Json orNull(const std::optional<fs::path>& path) { return path ? Json(path->native()) : Json(); }

Cause causeOf(const HostOutcome& said) {
    if (!said.failure.empty()) return Cause::kErrored;
    if (said.cancelled) return Cause::kCancelled;
    return said.timedOut ? Cause::kTimedOut : Cause::kFailed;
}

/// Of one that was never started, or that somebody else ended, the code says nothing.
bool isAnAnswer(const HostOutcome& said) { return said.isOwnEnd() && said.exitCode.has_value(); }

// A probe that cannot connect, or that is not there, fails too: what guards against running twice must not take that
// for a no.
bool isAProbesAnswer(const HostOutcome& said) { return isAnAnswer(said) && (said.exitCode == 0 || said.exitCode == 1); }

}  // namespace

State saidToBe(State open, bool isDone) {
    if (isDone) return State::kDone;
    return open == State::kRunning ? State::kNotRun : State::kUndone;
}

std::string openText(const std::string& step, State state, const std::string& promotion) {
    const std::string name = fmt::format("step '{}'{}", step, promotion.empty() ? "" : " of " + promotion);
    if (state == State::kUndoFailed) return fmt::format("the undo of {} said no", name);
    return fmt::format("nobody knows whether {}{} came to its end", state == State::kUndoing ? "the undo of " : "",
                       name);
}

std::vector<StepPlan> stepsOf(const Objects& objects, const Promotion& promotion) {
    if (!promotion.steps) return {};
    return decodeSteps(objects.readAll(*promotion.steps, kMostSteps));
}

std::optional<StepRecord> StepRunner::known(const StepPlan& plan) const {
    return parts_.store.records().steps().find(subject_.of, plan.name);
}

std::int64_t StepRunner::numberOf(const StepPlan& plan) const {
    return std::ranges::find(subject_.plans, plan.name, &StepPlan::name) - subject_.plans.begin() + 1;
}

// Vital: whatever the disk has left is first for what has happened.
void StepRunner::move(const StepPlan& plan, State to, const Ended* ended, const std::string& reason) {
    StepMove move{.promotion = subject_.promotion, .name = plan.name, .number = numberOf(plan), .to = to};
    if (subject_.of != subject_.promotion) move.of = subject_.of;
    move.reason = reason;
    if (ended != nullptr) {
        if (isAnAnswer(ended->said)) move.exitCode = *ended->said.exitCode;
        move.wallMs = static_cast<std::int64_t>(ended->said.wallMillis);
        move.log = ended->log;
    }
    parts_.store.write([&](Writer& writer) { recordStep(writer, move, writer.actor(parts_.actor)); },
                       Store::Urgency::kVital);
    progress_.stepped(*known(plan));
}

std::optional<StepTrouble> StepRunner::run(StepWhen when, const std::stop_token& cancel) {
    for (const StepPlan& plan : subject_.plans) {
        const auto record = known(plan);
        if (plan.when != when || (record && record->state == State::kDone)) continue;
        if (auto trouble = runOne(plan, cancel)) return trouble;
    }
    return std::nullopt;
}

// A crash in between must leave the intent behind: whoever comes then knows that it may have run.
std::optional<StepTrouble> StepRunner::runOne(const StepPlan& plan, const std::stop_token& cancel) {
    if (cancel.stop_requested()) return StepTrouble{Cause::kCancelled, "stopped"};
    move(plan, State::kRunning);
    // What cannot be taken back is not stopped half-way either, nor is what comes after it: there is no way but on.
    const Ended ended = perform(plan, Action::kRun, irreversible() != nullptr ? std::stop_token() : cancel);
    if (ended.said.succeeded()) {
        move(plan, State::kDone, &ended);
        return std::nullopt;
    }
    move(plan, ended.said.began() ? State::kFailed : State::kNotRun, &ended, ended.said.text());
    return StepTrouble{causeOf(ended.said), fmt::format("step '{}': {}", plan.name, ended.said.text())};
}

std::optional<StepTrouble> StepRunner::undo(StepWhen when) {
    for (auto plan = subject_.plans.rbegin(); plan != subject_.plans.rend(); ++plan) {
        const auto record = known(*plan);
        if (plan->when != when || plan->undo.empty() || !record || !mayBeThere(record->state)) continue;
        if (auto trouble = undoOne(*plan)) return trouble;
    }
    return std::nullopt;
}

std::optional<StepTrouble> StepRunner::undoOne(const StepPlan& plan) {
    move(plan, State::kUndoing);
    Ended ended = perform(plan, Action::kUndo, {});
    // One that could not even be started has done nothing: that may pass.
    for (auto pause = kBetweenStarts.begin(); !ended.said.began() && pause != kBetweenStarts.end(); ++pause) {
        parts_.sleep(*pause, {});
        ended = perform(plan, Action::kUndo, {});
    }
    const bool isDone = ended.said.succeeded();
    move(plan, isDone ? State::kUndone : State::kUndoFailed, &ended, isDone ? "" : ended.said.text());
    if (isDone) return std::nullopt;
    return StepTrouble{Cause::kErrored,
                       fmt::format("step '{}' could not be undone: {}; what came before it stands as it is", plan.name,
                                   ended.said.text())};
}

std::optional<StepTrouble> StepRunner::failure() const {
    for (const StepPlan& plan : subject_.plans) {
        const auto record = known(plan);
        if (!record || record->state != State::kFailed) continue;
        return StepTrouble{record->exitCode ? Cause::kFailed : Cause::kErrored,
                           fmt::format("step '{}': {}", plan.name, record->reason)};
    }
    return std::nullopt;
}

const StepPlan* StepRunner::irreversible() const {
    for (const StepPlan& plan : subject_.plans) {
        const auto record = known(plan);
        if (plan.irreversible && record && mayBeThere(record->state)) return &plan;
    }
    return nullptr;
}

std::optional<StepTrouble> StepRunner::settleDoubts() {
    for (const StepPlan& plan : subject_.plans) {
        const auto record = known(plan);
        if (!record) continue;
        if (auto trouble = settle(plan, *record)) return trouble;
    }
    return std::nullopt;
}

std::optional<StepTrouble> StepRunner::settle(const StepPlan& plan, const StepRecord& record) {
    // One that failed is asked about where that decides whether there is a way back.
    const bool isWorthAsking = isInDoubt(record.state) || (record.state == State::kFailed && plan.irreversible);
    if (plan.idempotence == Idempotence::kProbe && isWorthAsking) return ask(plan, record);
    // An undo that said no is not run again by itself either.
    if (!needsAWord(record.state, plan.idempotence)) return std::nullopt;
    return StepTrouble{Cause::kErrored, fmt::format("{}, and it is not run twice (idempotence = \"no\")",
                                                    openText(plan.name, record.state))};
}

std::optional<StepTrouble> StepRunner::ask(const StepPlan& plan, const StepRecord& record) {
    const Ended ended = perform(plan, Action::kProbe, {});
    if (!isAProbesAnswer(ended.said))
        return StepTrouble{Cause::kErrored, fmt::format("nobody knows whether step '{}' was done, and its probe says "
                                                        "neither yes (0) nor no (1): {}",
                                                        plan.name, ended.said.text())};
    const bool isThere = ended.said.succeeded();
    if (isThere && record.state == State::kFailed) return std::nullopt;
    const State absent = record.state == State::kUndoing ? State::kUndone : State::kNotRun;
    move(plan, isThere ? State::kDone : absent, &ended,
         isThere ? "its probe says so" : "its probe says it is not there");
    return std::nullopt;
}

void StepRunner::say(const StepWord& word, const std::string& who) {
    const auto plan = std::ranges::find(subject_.plans, word.step, &StepPlan::name);
    move(*plan, saidToBe(known(*plan)->state, word.isDone), nullptr,
         fmt::format("{} says that it {}", who, word.isDone ? "was done" : "was not done, or is gone"));
}

StepRunner::Ended StepRunner::perform(const StepPlan& plan, Action action, const std::stop_token& cancel) {
    Ended ended;
    HostCommand command = commandFor(plan, action);
    command.cancel = cancel;
    const fs::path directory = parts_.state.root / kDirectory;
    const std::string name = promotionHandle(subject_.promotion) + ".json";
    command.environment.push_back("GRADUS_REQUEST=" + (directory / name).native());
    const int error = parts_.files.delegate("step " + plan.name, [&] {
        try {
            makeDirectories(directory);
            const FileDescriptor file = openFile(directory / name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
            writeAll(file.get(), requestOf(plan, action), directory / name);
            const CommandMark mark(subject_.mark);
            ended.said = parts_.run(mark.marked(command));
        } catch (const Error& e) {
            ended.said.failure = e.what();
        }
        std::error_code ignored;
        fs::remove(directory / name, ignored);
        return 0;
    });
    if (error != 0) ended.said.failure = errnoText(error);
    const std::string log = ended.said.out.text() + ended.said.err.text();
    try {
        if (!log.empty()) ended.log = parts_.objects.put(log);
    } catch (const Error&) {
        // What it printed is for people; that it ran is what must be on record.
    }
    return ended;
}

HostCommand StepRunner::commandFor(const StepPlan& plan, Action action) const {
    const ActionWords& row = kActions.at(static_cast<std::size_t>(action));
    HostCommand command;
    command.arguments = plan.*row.words;
    command.environment = parts_.environment;
    std::erase_if(command.environment, [](const std::string& entry) { return entry.starts_with("GRADUS_"); });
    const auto tell = [&](const char* name, const std::string& value) {
        command.environment.push_back(fmt::format("{}={}", name, value));
    };
    tell("GRADUS_ACTION", std::string(row.word));
    tell("GRADUS_STEP", plan.name);
    tell("GRADUS_STEP_KEY", keyOf(plan));
    tell("GRADUS_STAGE", subject_.stage);
    tell("GRADUS_CHANGE", subject_.handle);
    tell("GRADUS_PROMOTION", promotionHandle(subject_.of));
    if (subject_.trees.next) tell("GRADUS_TREE", subject_.trees.next->native());
    if (subject_.trees.previous) tell("GRADUS_PREVIOUS", subject_.trees.previous->native());
    command.directory = subject_.project;
    command.timeout = plan.timeout;
    return command;
}

// The same whoever runs it, however often: of this store, this promotion and this step.
std::string StepRunner::keyOf(const StepPlan& plan) const {
    return Canonical("gradus.step-key.1")
        .text(parts_.store.storeId())
        .number(subject_.of)
        .text(plan.name)
        .hash()
        .hex()
        .substr(0, 32);
}

std::string StepRunner::requestOf(const StepPlan& plan, Action action) const {
    Json paths = Json::array();
    for (const PathChange& change : subject_.changes.changes())
        paths.push_back({{"path", change.path}, {"kind", nameOf(kChangeKinds, kindOf(change))}});
    const Json whole = {{"schema", "gradus.v1/step-request"},
                        {"action", kActions.at(static_cast<std::size_t>(action)).word},
                        {"step", plan.name},
                        {"key", keyOf(plan)},
                        {"stage", subject_.stage},
                        {"change", subject_.handle},
                        {"title", subject_.title},
                        {"promotion", promotionHandle(subject_.of)},
                        {"tree", orNull(subject_.trees.next)},
                        {"previous", orNull(subject_.trees.previous)},
                        {"changes", paths}};
    return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gradus
