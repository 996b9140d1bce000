#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/model/actor.h"
#include "store/model/change.h"
#include "store/model/evidence.h"
#include "store/model/promotion.h"
#include "store/project_identity.h"
#include "store/race_records.h"
#include "store/sandbox_records.h"
#include "store/sql.h"
#include "store/step_records.h"
#include "store/watch_records.h"
#include "store/word_records.h"

namespace gradus {

/// The rules a person trusted last.
struct TrustedRules {
    Digest rules;  ///< digest of the set of files
    Digest files;  ///< the object that holds them
    ActorId actor = 0;
    Time at{};
};

struct StoreCounts {
    std::int64_t events = 0;
    std::int64_t redactions = 0;
    std::int64_t projects = 0;
    std::int64_t changes = 0;
    std::int64_t promotions = 0;
    std::int64_t unfinished = 0;
};

/// What is remembered, to be asked. "Not found" is an answer. One thread at a time.
class Records {
  public:
    explicit Records(Sql& sql) : sql_(&sql) {}

    std::optional<ActorId> findActor(const Actor& actor) const;
    /// Nothing once the name is redacted.
    std::optional<Actor> actor(ActorId id) const;
    std::optional<std::int64_t> findProject(const ProjectIdentity& project) const;
    std::optional<ProjectIdentity> project(std::int64_t id) const;
    /// What is recorded of it does not lead there: it was moved, or was recorded before it had a key.
    bool hasMoved(std::int64_t id, const ProjectIdentity& project) const;
    /// The name under which its state is kept: the path where it was first seen, which stays when it is moved, and is
    /// never shared with another project that was first seen there later.
    std::string stateName(std::int64_t id, const ProjectIdentity& project) const;
    std::optional<TrustedRules> trustedRules(std::int64_t project) const;

    std::optional<Change> change(std::int64_t id) const;
    /// As it was at that revision.
    std::optional<Change> change(std::int64_t id, std::int64_t revision) const;
    std::optional<std::int64_t> latestChange(std::int64_t project) const;
    /// Newest first.
    std::vector<Change> changes(std::int64_t project, std::int64_t limit) const;

    std::optional<Promotion> promotion(std::int64_t id) const;
    std::vector<Promotion> promotionsOf(std::int64_t change) const;
    /// Oldest first.
    std::vector<Promotion> unfinished(std::int64_t project) const;
    std::vector<Promotion> unfinishedOf(std::int64_t change) const;
    /// Those of a project, or of one of its stages, that are neither finished nor waiting; oldest first.
    std::vector<Promotion> atWork(std::int64_t project, const std::optional<std::string>& stage = std::nullopt) const;
    /// Those that wait to enter a stage, in the order of their places from one on.
    std::vector<Promotion> waitingIn(std::int64_t project, const std::string& stage, std::int64_t from,
                                     std::int64_t limit) const;
    /// How many are on their way into a stage, waiting or not.
    std::int64_t lineLength(std::int64_t project, const std::string& stage) const;
    /// What stages of a project hold although the same change was taken out above it: that was cut off on its way.
    std::vector<Promotion> leftBelow(std::int64_t project) const;
    std::vector<CheckResult> checkResults(std::int64_t promotion) const;
    /// The newest yes of a before check to the same question in this project, not older than `since`; one that was
    /// itself taken from an earlier promotion does not count.
    std::optional<EarlierProof> earlierProof(std::int64_t project, const Digest& asked, Time since) const;
    /// The newest run of a check in this project that built something of exactly this.
    std::optional<EarlierProof> builtBefore(std::int64_t project, const Digest& builtOf) const;
    /// The objects that list what checks built, of all projects.
    std::vector<Digest> outputs() const;
    /// The promotion that one of its checks ran as this execution for.
    std::optional<std::int64_t> promotionOfExecution(std::int64_t execution) const;
    /// When something happened in this stage that a machine had a hand in, by making the change or by promoting it:
    /// after `since`, newest first, at most so many. What was taken back later was spent all the same.
    enum class Spent { kPromotions, kRollbacks };
    std::vector<Time> spentByMachines(std::int64_t project, const std::string& stage, Spent what, Time since,
                                      std::int64_t most) const;
    /// Newest first; of one stage, or of all.
    std::vector<Promotion> promotionsIn(std::int64_t project, const std::optional<std::string>& stage,
                                        std::int64_t limit) const;
    /// What was said when it last moved; nothing when there was nothing to say, or once redacted.
    std::optional<std::string> lastReason(std::int64_t promotion) const;
    /// Who moved it last, or for whom another did; nothing once the name is redacted.
    std::optional<Actor> movedBy(std::int64_t promotion) const;
    /// A stage that was never touched holds nothing.
    StageState stageState(std::int64_t project, const std::string& stage) const;
    /// The promotion at work on the target; nothing: nobody.
    std::optional<std::int64_t> atWorkOn(const std::string& target) const;
    /// Promotions that a driver may still have to take back: unfinished, stuck, and of each stage the newest few.
    std::vector<Promotion> takeable(std::int64_t project, const std::string& stage) const;
    /// The objects that hold their checkpoints, of all projects.
    std::vector<Digest> checkpoints() const;

    SandboxRecords sandboxes() const { return SandboxRecords(*sql_); }
    WordRecords words() const { return WordRecords(*sql_); }
    RaceRecords races() const { return RaceRecords(*sql_); }
    WatchRecords watches() const { return WatchRecords(*sql_); }
    StepRecords steps() const { return StepRecords(*sql_); }

    /// Change sets as they were first handed in from that sandbox, newest first, twenty at most.
    std::vector<Digest> changeSetsOf(std::int64_t project, std::int64_t sandbox) const;
    /// When checks said no to that revision before it touched the stage, since it came in last; newest first, twenty at
    /// most.
    std::vector<Time> failedTries(std::int64_t change, std::int64_t revision, const std::string& stage) const;
    /// The number of the newest event; 0: there is none.
    std::int64_t newestEvent() const;
    /// The latest time that any event after that one bears: a clock may have gone back since. Time::min(): none is.
    Time latestSince(std::int64_t seq) const;
    /// The number of the event that opened a promotion; 0: there is none. Reads the log from its change on.
    std::int64_t openingEvent(std::int64_t promotion) const;
    StoreCounts counts() const;
    /// Every object that a row names, and the rules that were ever trusted. Objects named inside those objects are the
    /// caller's to follow.
    std::vector<Digest> referencedObjects() const;
    /// Those among them that hold a change set.
    std::vector<Digest> changeSets() const;

  protected:
    Sql& sql() const { return *sql_; }

  private:
    Sql* sql_;
};

}  // namespace gradus
