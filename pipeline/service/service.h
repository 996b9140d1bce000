#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/engine/check_runner.h"
#include "pipeline/engine/engine.h"
#include "pipeline/service/adoption_teller.h"
#include "pipeline/service/audit_entry.h"
#include "pipeline/service/blame.h"
#include "pipeline/service/changes.h"
#include "pipeline/service/races.h"
#include "pipeline/service/words.h"
#include "plugins/api/isolation.h"
#include "plugins/host/machine.h"
#include "policies/language/loader.h"
#include "stages/changes/change_sources.h"
#include "stages/changes/patch_writer.h"
#include "stages/sandbox/clone.h"
#include "stages/sandbox/sandboxes.h"
#include "store/audit_query.h"
#include "store/audit_verify.h"
#include "store/objects.h"
#include "store/store.h"

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
    std::string reason;           ///< of its last step; of one that waits, what it waits for now
    Milliseconds waited{0};       ///< since it was opened, whatever was done to the clock
    std::optional<Time> expires;  ///< of one that waits
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
    std::string by;  ///< who made the change: "agent:fixer"
    std::vector<CheckResult> checks;
    std::vector<StepRecord> steps;   ///< of an undo, those of what it undoes
    std::vector<WordInForce> holds;  ///< that stand now and are about its change, or its stage
    StageState stage;
    /// Of one that got stuck, where that is over: what settled it. Empty: nothing did.
    std::string settled;
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

using Backends = std::vector<std::unique_ptr<IsolationBackend>>;

class EngineRoom;

// Answers about the past and rehearsals; each in a header of its own.
struct EventStory;
struct ExecutionStory;
struct TimelineEntry;
struct Timeline;
struct TimelineRequest;
struct PastView;
struct PastRequest;
struct ExportWish;
struct AuditExport;
struct DrillWish;
struct DrillReport;
struct SimulationWish;
struct Simulation;

/// Everything the outside may ask for: the one door for the command line, the daemon and the agents' protocol. Opens
/// the store when a call first needs it. One thread at a time.
class Service {
  public:
    struct Surroundings {
        Environment environment;
        const Clock& clock;
        Random& random;
        const Vocabulary& vocabulary;
        const CheckKinds& checkKinds;
        std::filesystem::path ceiling = kCeilingFile;
        /// The isolation backends, cheapest first; made when a call first needs one.
        std::function<Backends()> backends = [] { return Backends{}; };
        /// Told what a person should know although the call succeeded.
        std::function<void(const std::string&)> warn = [](const std::string&) {};
    };
    explicit Service(Surroundings surroundings);
    Service(Service&&) noexcept;
    ~Service();

    // Rules
    std::filesystem::path projectRoot(const std::filesystem::path& directory) const;
    ProjectRules rules(const std::filesystem::path& directory);
    /// The same, for a verb that is going to trust them.
    ProjectRules rulesToTrust(const std::filesystem::path& directory);
    LoadResult load(const RuleFiles& files) const;
    /// Pins the files on disk. Throws Error(kNotAllowed) unless a person asks, and Error(kBusy) when the files are no
    /// longer those of digest `seen`: what is put in force is what the person read.
    TrustReport trust(const std::filesystem::path& directory, const Actor& by, const std::optional<Digest>& seen = {});
    /// Throws Error(kNotAllowed) for anybody who may not put rules in force.
    static void requireTruster(const Actor& by);
    StatusReport status(const std::filesystem::path& directory);
    /// A first pipeline file for the project, from what is found there. Unless it is only to be shown, it is written
    /// and, for a person, trusted. Throws Error(kNotAllowed) where there is one.
    FirstRules firstRules(const std::filesystem::path& directory, bool onlyShow);
    const Vocabulary& vocabulary() const { return around_.vocabulary; }

    // Sandboxes
    /// A command for `directory`, under the rules that a person trusted, the caller's wish and the ceiling. Says in one
    /// line when rules on disk are not the ones used.
    CommandRequest confined(const std::filesystem::path& directory, const RunWords& words);
    /// The same, for a sandbox that goes with its command. Its project and lifetime are from the same rules.
    TryRequest attempted(const std::filesystem::path& directory, const RunWords& words);
    /// How long a kept sandbox of `directory` lives after its last use, under the rules in force.
    Milliseconds sandboxLifetime(const std::filesystem::path& directory);
    /// Whether the rules make sandboxes there copies of the whole system.
    bool sandboxesAreOfTheSystem(const std::filesystem::path& directory);
    Sandboxes& sandboxes();
    /// A new sandbox that starts as the one in which a check failed was left. Throws Error(kNotFound) where none was
    /// kept.
    SandboxRecord reopen(const std::string& execution, const std::optional<std::string>& name);
    /// Of one project, or of all. Makes no store where there is none.
    std::vector<SandboxView> keptSandboxes(const std::optional<std::filesystem::path>& project);
    /// By handle or name. Throws Error(kNotFound).
    SandboxRecord sandbox(const std::string& handleOrName);
    /// Probes every backend live, whatever was cached.
    DoctorReport doctor(const std::filesystem::path& directory);

    // Changes
    /// Freezes a change: its contents and what it was made on. Touches nothing but the store.
    SubmitReport submit(const std::filesystem::path& directory, const SubmitRequest& request);
    /// By handle (`c12`, `c12.2`), `@` for the newest, or the beginning of a digest. Throws Error(kNotFound).
    ChangeView viewChange(const std::filesystem::path& directory, const std::string& words);
    /// Makes a commit of it, on the one it was made on, and a branch that leads there. Neither the work tree nor the
    /// index is touched. Throws Error where it was made on files that are in no commit.
    ExportedCommit exportCommit(const std::filesystem::path& directory, const ChangeView& view);
    /// How far the project has come since the commit that a change was made on. Reads only.
    BaseDrift groundOf(const std::filesystem::path& directory, const BaseFingerprint& base) const;
    /// Of this project, newest first.
    std::vector<ChangeView> listChanges(const std::filesystem::path& directory, std::int64_t limit);
    /// What a sandbox changed, with all contents stored, as submitting it would take it. Described: with the words of
    /// the newest commit made inside; git is asked for them there.
    FoundChange changeOfSandbox(const std::filesystem::path& directory, const std::string& sandbox, bool withIgnored,
                                bool described = false);
    /// What `git apply` takes, and what of the change it cannot say.
    WrittenPatch patchOf(const ChangeSet& changes, const BaseFingerprint& base);
    /// Puts a change onto the project as it is now: a new revision, unless nothing moved or something conflicts.
    RebaseReport rebase(const std::filesystem::path& directory, const std::string& words, bool dryRun);

    // Promotions
    /// The engine of the project of `directory`, under the rules that a person trusted. A project without a gradus.toml
    /// has one stage, `local`, and no checks. Throws Error(kNotAllowed) for rules that nobody trusted.
    Engine& engine(const std::filesystem::path& directory);
    /// The same, with what dead processes left brought to an end first: for verbs that are going to touch something.
    Engine& recovered(const std::filesystem::path& directory, const EngineProgress& progress,
                      const std::stop_token& cancel);
    /// The same, with a look at what is monitored and due: for verbs that bring something in.
    Engine& tended(const std::filesystem::path& directory, const EngineProgress& progress,
                   const std::stop_token& cancel);
    /// Promotions of the project that wait for `gradus recover`. Reads only.
    std::size_t needRecovery(const std::filesystem::path& directory);
    /// A change by its handle; a sandbox's or, where nothing is named, the work tree's, submitted on the way. What that
    /// leaves out is told as a warning.
    Change changeToPromote(const std::filesystem::path& directory, const std::optional<std::string>& words,
                           const std::optional<std::string>& title = {});
    /// By handle; a change means its newest, a stage the one whose tree it holds, nothing the project's newest.
    Promotion promotionNamed(const std::filesystem::path& directory, const std::optional<std::string>& words);
    /// The same, for going back: of a change the newest that still stands somewhere. Throws Error(kNotAllowed) for a
    /// stage that holds nothing.
    Promotion promotionToTakeBack(const std::filesystem::path& directory, const std::string& words);
    PromotionStory story(std::int64_t promotion);
    /// What one that waits is waiting for now: people may have said something since it was last moved. The reason on
    /// record for any other, and where nobody can look.
    std::string reasonNow(const std::filesystem::path& directory, const Promotion& promotion);
    /// Whose word says what a stage holds; nothing: a promotion brought it, or it never held anything.
    std::optional<AdoptionTold> adoptionIn(const std::filesystem::path& directory, const std::string& stage);
    std::optional<Promotion> newestPromotion(std::int64_t change);
    /// What a check printed; nothing when it is not kept any more.
    std::optional<std::string> logOf(const CheckResult& check);
    std::optional<std::string> logOf(const StepRecord& step);
    /// What a check built: its files by path, or nothing once they are swept.
    std::vector<std::string> builtBy(const CheckResult& check);

    /// What a command in a sandbox was and how it ended (execution_story.h). Throws Error(kNotFound).
    ExecutionStory executionStory(std::int64_t execution);
    /// What the stage holds, or the newest change in it that touched the path, which is relative to `directory` or
    /// absolute; of "PATH:7", the one that brought that line, unless there is a file of that name. Throws
    /// Error(kNotFound), and Error(kUsage) for a path that lies elsewhere.
    Blame blame(const std::filesystem::path& directory, const std::string& stage,
                const std::optional<std::string>& words);
    /// Holds, pins, vetoes and the halt of the project, in the words of people.
    std::vector<WordInForce> wordsInForce(const std::filesystem::path& directory);

    // What people say. Anybody may stop things; only a person lets them go on (Error(kNotAllowed) otherwise).
    WhoAmI whoAmI(const std::filesystem::path& directory);
    /// What a handle or name stands for; `stage`, if given, narrows it. Throws Error(kNotFound).
    Spoken spokenOf(const std::filesystem::path& directory, const std::string& words,
                    const std::optional<std::string>& stage);
    void hold(const std::filesystem::path& directory, const Spoken& what, const std::string& reason,
              const std::optional<Time>& until);
    /// Gives when it ended, of one that ended by itself: there is nothing to lift then. Throws Error(kNotFound) where
    /// nothing was held.
    std::optional<Time> unhold(const std::filesystem::path& directory, const Spoken& what, bool onlyTry);
    /// Without a change, to what the stage holds. Gives the pin.
    Pin pin(const std::filesystem::path& directory, const Spoken& what, const std::string& reason, bool onlyTry);
    void unpin(const std::filesystem::path& directory, const std::string& stage);
    Veto veto(const std::filesystem::path& directory, const Spoken& what, const std::string& reason, bool onlyTry);
    /// Takes every veto back that the change meets; gives them.
    std::vector<Veto> unveto(const std::filesystem::path& directory, const Spoken& what, bool onlyTry);
    /// Of this project, or of every one.
    void halt(const std::filesystem::path& directory, bool everywhere, const std::string& reason);
    void resume(const std::filesystem::path& directory, bool everywhere);

    // Checks
    /// Runs a stage's before checks over what is asked, by the rules that a person trusted. Promotes nothing and
    /// records nothing but the executions.
    CheckSummary check(const std::filesystem::path& directory, const CheckWish& wish);

    // Races
    /// Several approaches at once, compared; the winner is submitted. Throws Error for a candidate that cannot take
    /// part, before anything is run.
    RaceReport race(const std::filesystem::path& directory, const RaceWish& wish);
    /// Of this project, newest first.
    std::vector<RaceView> races(const std::filesystem::path& directory, std::int64_t limit);
    /// By handle (`r3`), or `@` for the newest. Throws Error(kNotFound).
    RaceView raceNamed(const std::filesystem::path& directory, const std::string& words);
    /// What a candidate changed, exactly as it was judged. Throws Error(kNotFound), also once nobody keeps it any more.
    ChangeSet changeOfCandidate(const RaceView& race, const std::string& name);

    // Audit
    /// Throws Error(kNotFound) where there is no log.
    AuditVerdict verifyAudit(const VerifyProgress& progress);
    std::vector<AuditEntry> queryAudit(const AuditRequest& request);
    /// False: a reader keeps the text in the write-ahead log for now; it goes with the next such call.
    bool redact(std::int64_t seq, const Actor& by);
    void reanchor(const Actor& by);
    bool hasEvent(std::int64_t seq);
    /// What an event was, what led to it and what came of it (event_story.h). Throws Error(kNotFound).
    EventStory eventStory(const std::filesystem::path& directory, std::int64_t seq);
    /// What happened, in sentences (timeline.h). Throws Error(kNotFound) for a name that nothing answers to.
    Timeline timeline(const std::filesystem::path& directory, const TimelineRequest& request);
    /// What was so at an earlier moment (past.h). Throws Error(kNotFound) for a moment that is not in the log.
    PastView asOf(const std::filesystem::path& directory, const PastRequest& request);
    /// A file that can be verified without the store (store/audit_export.h). Replaces nothing.
    AuditExport exportAudit(const ExportWish& wish, const VerifyProgress& progress);

    // Rehearsals
    /// Applies and takes back on a copy of the stage's target (drill.h); the target itself is only read.
    DrillReport drill(const std::filesystem::path& directory, const DrillWish& wish);
    /// What the project's past promotions would have met under other rules (simulation.h). Records nothing.
    Simulation simulate(const std::filesystem::path& directory, const SimulationWish& wish);

    // Store
    StoreReport checkStore();
    StatsReport stats();
    /// The whole state directory as a new one: database, anchor, key, objects.
    void backup(const std::filesystem::path& target);
    /// Recomputes the state tables from the events.
    void rebuild();
    /// Removes objects that nothing refers to.
    SweepReport sweep(Milliseconds grace);

    /// Who is asking: GRADUS_ACTOR ("agent:fixer"), else the person logged in.
    Actor caller() const;

  private:
    StateDirectory state() const { return locateState(around_.environment); }
    Store& writing();
    /// Nothing if there is no store yet.
    Store* reading();
    /// Throws Error(kNotFound) if there is no store yet.
    Store& existing();
    /// For verbs that write to what is there, called before anything is read: an older schema is brought up to date.
    Store* writingIfThere();
    /// Writes, and warns where the log outside the database did not keep up.
    void record(const std::function<void(Writer&)>& work);
    Objects objects() const { return {state().objects(), around_.clock}; }
    std::int64_t projectOf(const std::filesystem::path& directory);
    void say(const std::function<void(WordWriter&)>& work);
    void describeByCommit(FoundChange& found, const SandboxRecord& sandbox, const std::filesystem::path& project);
    FoundChange takeChange(const std::filesystem::path& directory, const ChangeSource& source, Objects& store);
    SubmitReport enterChange(const std::filesystem::path& root, FoundChange found, const SubmitRequest& request);
    Change submitOnce(const std::filesystem::path& directory, const ChangeSource& source,
                      const std::optional<std::string>& title);
    Blame blameOf(const Promotion& promotion, const std::optional<Adoption>& vouched);
    std::string blamedPath(const std::filesystem::path& directory, const std::string& stage, const std::string& words);
    Blame blameLine(const std::filesystem::path& directory, const std::string& stage, const std::string& words,
                    LineOfFile line);
    ChangeView viewOf(const Store& store, const Change& change) const;
    BaseFingerprint baseNow(const std::filesystem::path& root) const;
    AuditQuery resolve(const AuditRequest& request, const Store& store);
    std::vector<TimelineEntry> around(const std::filesystem::path& directory, const EventStory& story);
    /// Throws Error(kNotFound) where nothing is recorded about the project.
    void requireStateOutside(const std::filesystem::path& root) const;
    std::int64_t recordedProject(const std::filesystem::path& directory);
    /// The rules that were trusted, as this program reads them; nothing where they cannot be read any more.
    std::optional<Pipeline> pipelineOf(const std::optional<TrustedRules>& trusted) const;
    std::vector<IsolationBackend*> backends();
    /// Of the rules that a person trusted; without a file, of what holds then. Throws Error where there is one and
    /// nobody trusted it; says so when the files on disk differ.
    Pipeline pipelineInForce(const ProjectRules& project);
    /// What a handle or name stands for, as people call it, and what it changes.
    std::pair<std::string, ChangeSet> changesNamed(const std::filesystem::path& directory, const std::string& name,
                                                   Objects& objects);
    RaceGround groundFor(const std::filesystem::path& root, const RaceWish& wish, RaceReport& report);
    ChangeSet givenChange(const std::filesystem::path& directory, const RaceWish::Entrant& entrant,
                          const std::filesystem::path& base, Objects& objects);
    std::vector<Candidate> candidatesOf(const std::filesystem::path& directory, const RaceWish& wish,
                                        const std::filesystem::path& base, Objects& objects);
    RaceJudge judgeOf(const std::filesystem::path& directory, const RaceWish& wish, Objects& objects);
    void addCosts(std::vector<RaceEntry>& entries);
    Change submitWinner(const std::filesystem::path& directory, const RaceWish& wish, const RaceReport& report,
                        const BaseFingerprint& base);
    void hideWhatIsWritten(const ProjectRules& project, CommandRequest& request) const;
    struct SandboxRules;
    SandboxRules sandboxRulesFor(const std::filesystem::path& directory, const SandboxWish& wish);
    CommandRequest confined(const std::filesystem::path& directory, const RunWords& words, const SandboxRules& rules);

    Surroundings around_;
    std::optional<Store> store_;
    bool writable_ = false;
    Backends backends_;
    std::unique_ptr<Sandboxes> sandboxes_;  // after what it refers to
    std::unique_ptr<EngineRoom> room_;
};

}  // namespace gradus
