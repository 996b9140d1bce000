#include "tests/pipeline/engine/engine_rig.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "pipeline/engine/check_answer.h"
#include "plugins/checks/builtin.h"
#include "policies/language/loader.h"
#include "policies/language/time_zone.h"
#include "stages/changes/work_tree.h"
#include "stages/drivers/builtin.h"
#include "store/project_identity.h"

namespace gradus::test {

namespace fs = std::filesystem;

namespace {

fs::path inMemory() {
    std::string name = "/dev/shm/gradus-engine-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw Error(ErrorCode::kInfrastructure, "no {}", name);
    return name;
}

constexpr const char* kChecks = R"([check.unit]
run = "true"
[check.health]
run = "true"
on = "host"
when = "after"
)";

std::string stageList(const EngineRig& rig) {
    std::string list;
    for (const std::string stage : {"sandbox", "local", "production"}) {
        list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", stage);
        if (stage == rig.lastStage()) break;
    }
    return list;
}

std::string localText(const EngineRig& rig) {
    return fmt::format(R"([stage.local]
checks = ["unit", "health"]
commit = {}
[policy.local]
extends = "none"
hazards = "allow"
freshness = "{}"
alone = ["person", "agent"]
)",
                       rig.place().scene().withCommit, rig.freshness);
}

/// The keys that say what the last stage is.
std::string targetText(const EngineRig& rig) {
    const Scene& scene = rig.place().scene();
    const std::string target = rig.place().target().native();
    if (scene.driver == "branch")
        return fmt::format("repository = \"{}\"\nbranch = \"main\"\n{}", target,
                           scene.withPush ? "push = true\nremote = \"upstream\"\n" : "");
    if (scene.driver == "command")
        return fmt::format("apply = [\"deploy\"]\nrollback = [\"deploy\"]\nhealth = [\"deploy\"]\n{}",
                           scene.withStatus ? "status = [\"deploy\"]\n" : "");
    return fmt::format("path = \"{}\"\n{}{}", target, scene.withActivate ? "activate = [\"restart\"]\n" : "",
                       scene.withShared ? "shared = [\"uploads\"]\n" : "");
}

std::string productionText(const EngineRig& rig) {
    return fmt::format(R"([stage.production]
driver = "{}"
{}checks = ["unit", "health"]
soak = "{}ms"
monitor = "{}ms"
[policy.production]
extends = "none"
hazards = "allow"
rollback = "{}"
alone = ["person", "agent"]
{}
)",
                       rig.place().scene().driver, targetText(rig), rig.soak.count(), rig.monitor.count(), rig.rollback,
                       rig.productionPolicy);
}

std::string rulesText(const EngineRig& rig) {
    const std::string last = rig.lastStage();
    return fmt::format("[pipeline]\nname = \"shop\"\nstages = [{}]\n{}{}{}{}\n", stageList(rig), kChecks,
                       last == "sandbox" ? "" : localText(rig), last == "production" ? productionText(rig) : "",
                       rig.moreRules);
}

}  // namespace

EngineRig::EngineRig(Scene scene)
    : base_(inMemory()), place_(std::move(scene), base_), objects_(base_ / "state/objects", clock_) {
    layOut(base_, place_.scene().withGit);
    openStore();
}

EngineRig::~EngineRig() {
    store_.reset();
    // Without git the markers of the project lie where no test directory is.
    std::error_code ignored;
    for (const fs::path& marker : markers_) fs::remove(marker, ignored);
    fs::remove_all(base_, ignored);
}

std::string EngineRig::lastStage() const {
    const std::string& driver = place_.scene().driver;
    if (driver == "sandbox") return driver;
    return driver == "worktree" ? "local" : "production";
}

HostOutcome EngineRig::runForStage(const HostCommand& command) {
    const std::string action = told(command, "GRADUS_ACTION");
    HostOutcome outcome = deploy(base_, command);
    if (action.empty()) std::ofstream(base_ / "activated") << told(command, "GRADUS_RELEASE");
    if (!action.empty())
        std::ofstream(base_ / "commands", std::ios::app) << action << " " << told(command, "GRADUS_PROMOTION") << "\n";
    if (ran) ran();
    return outcome;
}

std::vector<std::string> EngineRig::commandsRun() const {
    std::vector<std::string> lines;
    std::ifstream in(base_ / "commands");
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::string EngineRig::activated() const {
    std::string release;
    std::getline(std::ifstream(base_ / "activated"), release);
    return release;
}

void EngineRig::openStore() {
    if (!store_) store_.emplace(Store::openForWriting({base_ / "state"}, {.clock = clock_, .random = random_}));
}

void EngineRig::close() { store_.reset(); }

EngineProject EngineRig::engineProject() {
    Registry registry;
    addBuiltinChecks(registry);
    addBuiltinDrivers(registry);
    RuleFiles files;
    files.files.push_back({std::string(kPipelineFile), rulesText(*this)});
    LoadResult loaded = load(files, registry.vocabulary(), Ceiling{});
    for (const Diagnostic& diagnostic : loaded.diagnostics) ADD_FAILURE() << diagnostic.message;
    pipeline_ = *loaded.pipeline;
    EngineProject known;
    known.root = project();
    known.rules = rulesDigest(pipeline_);
    known.pipeline = pipeline_;
    store_->write([&](Writer& writer) { known.id = writer.project(identify(project()), writer.actor(actor)); });
    return known;
}

std::vector<CheckReport> EngineRig::answer(const Stage& stage, CheckWhen when, const Evidence& evidence,
                                           const std::function<Cause(const std::string&)>& say) {
    std::vector<CheckReport> reports;
    for (const std::string& name : stage.checks) {
        if (pipeline_.checks.at(name).when != when) continue;
        CheckReport report;
        report.check = name;
        report.answer.verdict = say(stage.name);
        report.answer.reason = report.answer.verdict == Cause::kPassed ? "" : "it said no";
        report.evidence = evidence;
        report.definition = checkDefinition(stage, pipeline_.checks.at(name));
        reports.push_back(report);
    }
    return reports;
}

EngineParts EngineRig::parts(FileOperations& files) {
    return {
        .store = *store_,
        .objects = objects_,
        .state = {base_ / "state"},
        .clock = clock_,
        .actor = actor,
        .driver =
            [this, &files](const Stage& stage, std::stop_token cancel) {
                return makeDriver({.stage = stage,
                                   .project = project(),
                                   .state = base_ / "state/targets" / stage.name,
                                   .objects = objects_,
                                   .files = files,
                                   .random = random_,
                                   .clock = clock_,
                                   .run = [this](const HostCommand& command) { return runForStage(command); },
                                   .cancel = std::move(cancel),
                                   .environment = {"PATH=/usr/bin:/bin"},
                                   .treeCache = base_ / "state/tree-cache"});
            },
        .files = files,
        .before =
            [this](const Stage& stage, const TreeUnderTest& tree, const CheckProgress&, const std::stop_token&) {
                auto reports = answer(stage, CheckWhen::kBefore, tree.evidence, answers.before);
                for (CheckReport& report : reports)
                    if (built) built(stage, tree, report);
                return reports;
            },
        .after = [this](const Stage& stage, const fs::path&, const Evidence& evidence, const CheckProgress&,
                        const std::stop_token&) { return answer(stage, CheckWhen::kAfter, evidence, answers.after); },
        .seed =
            [this](const Change&) {
                const WorkTree tree = readWorkTree({.project = project(), .cache = base_ / "state/seed-cache"});
                return Seed{project(), {}, tree.fingerprint.digest(), {}};
            },
        .zones = [](const Pipeline& pipeline) { return readZones(pipeline); },
        .systemGroups = [](const Actor&) { return std::vector<std::string>{}; },
        .sleep =
            [this](Milliseconds time, const std::stop_token&) {
                clock_.advance(time);
                if (woken) woken();
            },
        .targetPatience = Milliseconds(200),
        .run =
            [this](const HostCommand& command) {
                HostOutcome outcome = runOnHost(command);
                if (ran) ran();
                return outcome;
            },
        .environment = {"PATH=/usr/bin:/bin"},
    };
}

std::unique_ptr<Engine> EngineRig::engine(FileOperations& files) {
    openStore();
    EngineProject known = engineProject();
    for (const Stage& stage : pipeline_.stages)
        if (fs::path marker = targetOf(stage.name).marker; !marker.empty()) markers_.insert(std::move(marker));
    return std::make_unique<Engine>(std::move(known), parts(files));
}

Tree EngineRig::projectTree() const {
    Tree tree = readTree(project());
    std::erase_if(tree, [](const auto& node) { return node.first == ".git" || node.first.starts_with(".git/"); });
    return tree;
}

std::int64_t EngineRig::submit(const Tree& after, const Actor& by) {
    return submitChanges(changesBetween(plain(projectTree()), after, objects_), by);
}

std::int64_t EngineRig::submitChanges(const ChangeSet& changes, const Actor& by) {
    openStore();
    const WorkTree tree = readWorkTree({.project = project(), .cache = base_ / "state/submit-cache"});
    Submission submission;
    submission.changeSet = objects_.put(changes.encode());
    submission.base = objects_.put(tree.fingerprint.encode());
    submission.patch = sha256(changes.encode());
    submission.title = "a change";
    std::int64_t id = 0;
    store_->write([&](Writer& writer) {
        const ActorId actorId = writer.actor(by);
        id = writer.submit(writer.project(identify(project()), actorId), actorId, submission);
    });
    return id;
}

Climb EngineRig::promote(std::int64_t change, const std::string& to) {
    return engine()->promote(change, to, progress, {});
}

TargetIdentity EngineRig::targetOf(const std::string& name) { return parts(real_).driver(stage(name), {})->identity(); }

TargetLock EngineRig::lockTarget(const std::string& name, std::int64_t promotion) {
    engine();
    TargetClaim claim;
    claim.store = store_->storeId();
    claim.project = project().native();
    claim.stage = name;
    claim.promotion = promotion;
    return TargetLock::take(targetOf(name), claim, real_, {.patience = Milliseconds(0), .takeOver = false});
}

std::optional<Tree> EngineRig::productionTree() const {
    if (!fs::exists(fs::symlink_status(production() / "current"))) return std::nullopt;
    return readTree(fs::canonical(production() / "current"));
}

std::vector<Promotion> EngineRig::promotions() {
    openStore();
    const auto id = store_->records().findProject(identify(project()));
    auto all = store_->records().promotionsIn(*id, std::nullopt, 1000);
    std::reverse(all.begin(), all.end());
    return all;
}

void EngineRig::expectWhole() {
    openStore();
    const AuditVerdict verdict = verifyAudit(store_->sql(), store_->anchor());
    EXPECT_EQ(verdict.kind, Tampering::kNone) << nameOf(kTamperings, verdict.kind);
    for (const Promotion& promotion : promotions())
        EXPECT_TRUE(isFinal(promotion.state)) << promotion.id << " is " << nameOf(kPromotionStates, promotion.state);
}

}  // namespace gradus::test
