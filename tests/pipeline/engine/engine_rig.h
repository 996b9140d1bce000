#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/engine/engine.h"
#include "stages/drivers/target_lock.h"
#include "store/audit_verify.h"
#include "store/store.h"
#include "tests/stages/drivers/target_scene.h"
#include "tests/support/effort.h"

namespace gradus::test {

inline const Actor kAda{ActorKind::kPerson, "ada"};
inline const Actor kBot{ActorKind::kAgent, "bot"};

/// An engine over real drivers, a real store and made-up checks, in memory: a project, and as its last stage whatever
/// the scene says; a release directory beside a project without git unless told otherwise.
class EngineRig {
  public:
    /// What the checks of a stage say; all pass unless told otherwise.
    struct Answers {
        std::function<Cause(const std::string& stage)> before = [](const std::string&) { return Cause::kPassed; };
        std::function<Cause(const std::string& stage)> after = [](const std::string&) { return Cause::kPassed; };
    };

    explicit EngineRig(Scene scene = {.name = "ReleaseDirectory", .driver = "release-directory", .withGit = false});
    ~EngineRig();
    EngineRig(const EngineRig&) = delete;
    EngineRig& operator=(const EngineRig&) = delete;

    std::filesystem::path project() const { return base_ / "project"; }
    std::filesystem::path production() const { return place_.target(); }
    std::filesystem::path outside() const { return base_; }

    const TargetScene& place() const { return place_; }
    std::string lastStage() const;
    /// What the last stage's own commands were run for, in order: "apply p3", "rollback p3".
    std::vector<std::string> commandsRun() const;
    /// The release that `activate` was run for last.
    std::string activated() const;

    /// A fresh process, as it were: everything opened anew.
    std::unique_ptr<Engine> engine(FileOperations& files);
    std::unique_ptr<Engine> engine() { return engine(real_); }
    Store& store() { return *store_; }
    /// Closes the store, for a child that opens its own.
    void close();

    /// A change from what the project holds to that tree.
    std::int64_t submit(const Tree& after, const Actor& by = {ActorKind::kPerson, "ada"});
    std::int64_t submitChanges(const ChangeSet& changes, const Actor& by = {ActorKind::kPerson, "ada"});

    Climb promote(std::int64_t change, const std::string& to = "production");
    /// As another process of this store would while it promotes into the stage.
    TargetLock lockTarget(const std::string& stage, std::int64_t promotion = 0);
    /// Without what git keeps there.
    Tree projectTree() const;
    /// Nothing: the stage is empty.
    std::optional<Tree> productionTree() const;

    /// The log verifies and the tables are what it says.
    void expectWhole();
    std::vector<Promotion> promotions();

    Answers answers;
    Actor actor{ActorKind::kPerson, "ada"};
    EngineProgress progress;
    Milliseconds soak{0};
    Milliseconds monitor{0};
    std::function<void()> woken;  ///< whenever the engine has slept
    std::function<void()> ran;    ///< whenever a command of a step or of the last stage has ended
    /// What a before check builds, if anything: puts it into the report.
    std::function<void(const Stage&, const TreeUnderTest&, CheckReport&)> built;
    std::string freshness = "recheck";
    std::string rollback = "automatic";
    std::string productionPolicy;  ///< further lines of it
    std::string moreRules;         ///< whatever follows
    FakeClock& clock() { return clock_; }
    Objects& objects() { return objects_; }
    const Stage& stage(const std::string& name) const { return *pipeline_.findStage(name); }

  private:
    EngineProject engineProject();
    EngineParts parts(FileOperations& files);
    TargetIdentity targetOf(const std::string& stage);
    std::vector<CheckReport> answer(const Stage& stage, CheckWhen when, const Evidence& evidence,
                                    const std::function<Cause(const std::string&)>& say);
    /// In the place of what a stage would run on the host.
    HostOutcome runForStage(const HostCommand& command);
    void openStore();

    std::filesystem::path base_;
    TargetScene place_;
    FakeClock clock_;
    SystemRandom random_;
    RealFileOperations real_;
    Objects objects_;
    std::optional<Store> store_;
    Pipeline pipeline_;
    std::set<std::filesystem::path> markers_;
};

}  // namespace gradus::test
