#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "pipeline/engine/check_runner.h"
#include "pipeline/service/adoption_teller.h"
#include "pipeline/service/words.h"
#include "plugins/api/isolation.h"
#include "plugins/host/machine.h"
#include "policies/language/loader.h"
#include "stages/sandbox/clone.h"
#include "stages/sandbox/sandboxes.h"
#include "store/objects.h"
#include "store/store.h"

// What the service is asked for and answers, as values.
namespace gradus {

/// The project's rules as they stand: on disk, and as a person trusted them.
enum class RulesState {
    kNone,       ///< there is no gradus.toml
    kUntrusted,  ///< there is one, and nobody trusted it yet: nothing of it runs
    kTrusted,    ///< the files are the trusted ones
    kChanged,    ///< the files differ from the trusted ones, which stay in force
};

inline constexpr std::array kRulesStates{
    Name<RulesState>{RulesState::kNone, "none"},
    Name<RulesState>{RulesState::kUntrusted, "untrusted"},
    Name<RulesState>{RulesState::kTrusted, "trusted"},
    Name<RulesState>{RulesState::kChanged, "changed"},
};

struct ProjectRules {
    std::filesystem::path root;
    RulesState state = RulesState::kNone;
    std::optional<RuleFiles> onDisk;
    std::optional<std::string> unreadable;  ///< why the files on disk could not be read
    std::optional<RuleFiles> pinned;
    std::optional<std::string> lost;        ///< why the trusted files could not be read back; then none are in force
    std::vector<std::string> changedFiles;  ///< paths that differ between the two
};

struct TrustReport {
    ProjectRules before;
    LoadResult loaded;
    bool recorded = false;  ///< false: they were trusted already, or the files have errors
};

/// One promotion in the queue of a stage.
struct QueueEntry {
    Promotion promotion;
    std::string reason;            ///< of its last step; of one that waits, what it waits for now
    Milliseconds waited{0};        ///< since it was opened, whatever was done to the clock
    std::optional<Time> expires;   ///< of one that waits
    bool isLeftToAPerson = false;  ///< it was said no to, and stays until somebody takes it back
};

/// What one stage holds, in words.
struct StageStatus {
    std::string stage;
    std::string driver;
    StageState holds;
    std::optional<Promotion> promotion;   ///< that brought it
    std::optional<AdoptionTold> adopted;  ///< whose word says that it holds this, where no promotion does
    std::string title;
    std::string by;                   ///< who made the change
    std::optional<Promotion> newest;  ///< the last attempt to enter it
    std::vector<QueueEntry> queue;    ///< under way first, then in the order of their turns
    std::optional<Watch> monitor;     ///< of what it holds, while that is monitored
    std::vector<StepRecord> steps;    ///< of the one that is under way or stuck there
    std::optional<Conflict> strayed;  ///< what somebody put there instead of what it holds on record
};

struct StatusReport {
    ProjectRules rules;
    std::optional<LoadResult> loaded;  ///< of the rules in force, or of those on disk where none are trusted
    std::vector<Change> changes;       ///< the newest few
    std::vector<Promotion> unfinished;
    std::vector<StageStatus> stages;  ///< of the rules in force
    std::size_t needRecovery = 0;
    std::optional<std::int64_t> ahead;    ///< the newest change, where some stage does not have it yet
    std::optional<std::int64_t> stopped;  ///< the promotion at which its way up ended badly
    bool hasEdits = false;                ///< the work tree has what the newest change is not
    StoreCounts counts;
    bool hasStore = false;
};

struct StoreReport {
    std::vector<std::string> problems;
    ObjectsCheck objects;
    StoreCounts counts;
};

struct StatsReport {
    std::filesystem::path home;
    StoreCounts counts;
    Store::Sizes sizes;
    std::uintmax_t anchorBytes = 0;
    std::uint64_t objects = 0;
    std::uintmax_t objectBytes = 0;
};

/// Where state is kept, and why it cannot be.
struct StateFinding {
    std::filesystem::path directory;
    std::string problem;
    std::string cure;
};

/// All that is remembered about one promotion.
struct PromotionStory {
    Promotion promotion;
    std::string reason;
    Change change;
    std::string by;  ///< who made the change: "agent:fixer for person:sue"
    std::vector<CheckResult> checks;
    std::vector<StepRecord> steps;   ///< of an undo, those of what it undoes
    std::vector<WordInForce> holds;  ///< that stand now and are about its change, or its stage
    StageState stage;
    /// Of one that got stuck, where that is over: what settled it. Empty: nothing did.
    std::string settled;
    /// Of one that was promoted and is out again since: the promotion that did it.
    std::optional<Promotion> takenBack;
};

/// Everything that decides whether a sandbox can be built here, seen by trying.
struct DoctorReport {
    std::vector<MachineFact> machine;
    std::vector<ProbeResult> backends;
    StateFinding state;
    std::vector<HomeEntry> home;
    std::vector<std::string> notes;

    /// Some backend proves the floor of guarantees, and nothing stands in its way.
    bool isWell() const;
};

/// What the outside may say about one command in a sandbox.
struct RunWords {
    std::vector<std::string> command;
    SandboxWish wish;
    std::optional<int> inputFrom;          ///< a descriptor that the command's standard input comes from
    std::optional<TerminalLink> terminal;  ///< instead: the caller's, which the command gets one of its own for
    std::function<void(Stream, std::string_view)> live;
    std::stop_token cancel;
    Milliseconds grace{0};
    std::vector<std::string> services;  ///< of the trusted rules, besides those that [sandbox] names
    bool untrusted = false;             ///< nothing of the caller's goes in
};

/// What is asked of one round of a stage's before checks that promotes nothing.
struct CheckWish {
    std::optional<std::string> stage;  ///< absent: the first one
    /// A change or a sandbox, over the work tree; absent: the work tree as it is.
    std::optional<std::string> on;
    CheckProgress progress;
    std::stop_token cancel;
};

struct CheckSummary {
    std::string stage;
    std::string subject;               ///< "the work tree", "c12.1", "s3"
    std::vector<CheckReport> reports;  ///< of those that ran
    std::vector<std::string> notRun;   ///< names: something that they need did not pass, or it was cancelled
};

/// A pipeline file for a project that has none.
struct FirstRules {
    std::filesystem::path file;
    std::string text;
    std::vector<std::string> found;  ///< "Makefile, with a target 'test'"
    bool written = false;
    bool trusted = false;
    std::string untrustedBecause;  ///< where it was written and not trusted
};

}  // namespace gradus
