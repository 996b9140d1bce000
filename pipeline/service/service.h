#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/engine/engine.h"
#include "pipeline/service/audit_entry.h"
#include "pipeline/service/blame.h"
#include "pipeline/service/changes.h"
#include "pipeline/service/races.h"
#include "pipeline/service/reports.h"
#include "plugins/api/isolation.h"
#include "stages/changes/change_sources.h"
#include "stages/changes/patch_writer.h"
#include "stages/sandbox/clone.h"
#include "store/audit_query.h"
#include "store/audit_verify.h"
#include "store/objects.h"
#include "store/store.h"

namespace gradus {

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
    /// Throws Error(kNotFound) for a stage that neither the log nor the rules here know; suggests the one that is
    /// meant.
    void requireKnownStage(const std::filesystem::path& directory, const std::string& stage);
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
    /// One that expired and is gone, by handle; nothing if it is none.
    std::optional<ExpiredSandbox> expiredSandbox(const std::string& handle);
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
    ChangeSet withEarlierBefore(std::int64_t sandbox, const std::filesystem::path& project, const ChangeSet& changes,
                                const Objects& store);
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
    /// As Engine::strayed(); nothing where nobody can look.
    std::optional<Conflict> strayedIn(const std::filesystem::path& directory, const std::string& stage);
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
