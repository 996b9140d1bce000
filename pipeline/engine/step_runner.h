#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "pipeline/engine/engine.h"
#include "store/model/step.h"

namespace gradus {

/// What the steps are about.
struct StepSubject {
    std::int64_t promotion = 0;     ///< that drives
    std::int64_t of = 0;            ///< that they were run for: the same, or the one that is being undone
    std::vector<StepPlan> plans;    ///< in order
    std::filesystem::path project;  ///< where they start
    std::filesystem::path mark;     ///< of the command that runs
    std::string stage;
    std::string handle;  ///< "c12.1"
    std::string title;
    ChangeSet changes;
    StageTrees trees;  ///< as far as the driver knows them
};

/// Why a step keeps a promotion from going its way.
struct StepTrouble {
    Cause cause = Cause::kErrored;
    std::string reason;
};

/// The object that a promotion names. Throws Error(kDamaged).
std::vector<StepPlan> stepsOf(const Objects& objects, const Promotion& promotion);

/// What it is once a person has said whether what it did is there.
StepState saidToBe(StepState open, bool isDone);
/// What is not known of a step that is open: of `promotion`, where it is named.
std::string openText(const std::string& step, StepState state, const std::string& promotion = {});

/// Runs the steps of one promotion and takes them back: an intent on record before every command, its result after it.
/// Whatever instant the process is killed at, the records say what ran, what did not, and what nobody knows. The caller
/// holds the target's lock. One thread at a time.
class StepRunner {
  public:
    StepRunner(EngineParts& parts, const EngineProgress& progress, StepSubject subject)
        : parts_(parts), progress_(progress), subject_(std::move(subject)) {}

    /// Those of that side which are not done, in order. Nothing: all of them are.
    std::optional<StepTrouble> run(StepWhen when, const std::stop_token& cancel);
    /// What those of that side did, or may have done, in reverse. Nothing: nothing of it is left, but for what has no
    /// undo. Never stopped half-way.
    std::optional<StepTrouble> undo(StepWhen when);

    /// What a dead process left: asked where there is a probe. Trouble where nobody can know, and nothing is run then.
    std::optional<StepTrouble> settleDoubts();
    /// The first that ran and said no: whatever else is known, the way leads back from there.
    std::optional<StepTrouble> failure() const;
    /// The first that ran, or may have, and cannot be undone.
    const StepPlan* irreversible() const;
    /// A person's word about one that is open.
    void say(const StepWord& word, const std::string& who);

  private:
    /// What is told to a command.
    enum class Action { kRun, kUndo, kProbe };
    struct Ended {
        HostOutcome said;
        std::optional<Digest> log;
    };

    std::optional<StepRecord> known(const StepPlan& plan) const;
    std::int64_t numberOf(const StepPlan& plan) const;
    void move(const StepPlan& plan, StepState to, const Ended* ended = nullptr, const std::string& reason = {});
    std::optional<StepTrouble> runOne(const StepPlan& plan, const std::stop_token& cancel);
    std::optional<StepTrouble> undoOne(const StepPlan& plan);
    std::optional<StepTrouble> settle(const StepPlan& plan, const StepRecord& record);
    std::optional<StepTrouble> ask(const StepPlan& plan, const StepRecord& record);
    Ended perform(const StepPlan& plan, Action action, const std::stop_token& cancel);
    HostCommand commandFor(const StepPlan& plan, Action action) const;
    std::string keyOf(const StepPlan& plan) const;
    std::string requestOf(const StepPlan& plan, Action action) const;

    EngineParts& parts_;
    const EngineProgress& progress_;
    StepSubject subject_;
};

}  // namespace gradus
