#include <algorithm>

#include "pipeline/service/drill_ground.h"
#include "pipeline/service/engine_room.h"
#include "pipeline/service/service.h"
#include "stages/changes/source_tree.h"
#include "stages/drivers/target_lock.h"
#include "store/change_sets.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

const Stage& stageIn(const Pipeline& pipeline, const std::string& name) {
    if (const Stage* stage = pipeline.findStage(name)) return *stage;
    std::string known;
    for (const Stage& stage : pipeline.stages) known += (known.empty() ? "" : ", ") + stage.name;
    throw Error(ErrorCode::kNotFound, "there is no stage '{}'", printable(name)).hint("stages here: " + known);
}

/// The marker lies in the release directory itself.
fs::path releaseTarget(const StageDriver& driver) {
    const TargetIdentity identity = driver.identity();
    return identity.driver == "release-directory" ? identity.marker.parent_path() : fs::path();
}

/// A claim that nobody else can meet: the copy is known to this process alone.
std::optional<TargetLock> lockCopy(const StageDriver& driver, const DrillTarget& target, FileOperations& files) {
    if (target.stage.driver != "release-directory") return std::nullopt;
    TargetClaim claim;
    claim.store = "drill";
    claim.state = target.state.native();
    claim.project = target.project.native();
    claim.stage = target.stage.name;
    return TargetLock::take(driver.identity(), claim, files);
}

std::function<HostOutcome(const HostCommand&)> onlyTold(DrillReport& report) {
    return [&report](const HostCommand& command) {
        std::string words;
        for (const std::string& word : command.arguments) words += (words.empty() ? "" : " ") + word;
        const std::string note = fmt::format("not run: {}", words);
        if (std::ranges::find(report.notes, note) == report.notes.end()) report.notes.push_back(note);
        HostOutcome outcome;
        outcome.exitCode = 0;
        return outcome;
    };
}

void requireOpen(const Records& records, const Engine& engine, const Stage& stage) {
    const auto stuck = records.stageState(engine.project().id, stage.name).stuck;
    if (!stuck) return;
    throw Error(ErrorCode::kNotAllowed, "{} is closed: {} got stuck there", stage.name, promotionHandle(*stuck))
        .hint(fmt::format("gradus why {}", promotionHandle(*stuck)));
}

/// What is to be applied, not yet fitted to what the stage holds.
StageChange subjectOf(EngineRoom& room, const DrillOriginal& original, const std::optional<Change>& named) {
    if (!original.held && !named)
        throw Error(ErrorCode::kNotAllowed, "{} is empty: there is nothing that a change could be made up for",
                    original.stage.name)
            .hint(fmt::format("name one: gradus drill {} --change CHANGE", original.stage.name));
    StageChange change;
    if (!original.held) {
        const Seed seed = room.seed(*named);
        change.seed = seed.directory;
        change.leftOut = seed.leftOut;
    }
    change.handle = named ? fmt::format("{}.{}", changeHandle(named->id), named->revision) : "drill";
    change.title = named ? named->title.value_or("") : "a drill";
    change.changes = named ? readChanges(room.objects(), named->changeSet)
                           : madeUpChange(original.held->directory, original.source, room.objects());
    return change;
}

/// False: it does not fit, and the report says where.
bool fit(EngineRoom& room, const DrillOriginal& original, StageChange& change, DrillReport& report) {
    const DirectoryReader base(original.held ? original.held->directory : *change.seed);
    // What a check built is no part of the tree that a change is put onto, here as in a promotion.
    const PartialReader source(base, original.held ? original.held->outputs : std::vector<std::string>());
    MergeResult merge = mergeOnto(change.changes, source, room.objects());
    report.mergeConflicts = merge.conflicts;
    change.changes = std::move(merge.merged);
    report.changedPaths = change.changes.changes().size();
    // Whether anybody may bring in such paths is for the gates to ask.
    for (const PathChange& path : change.changes.changes()) change.granted.push_back(path.path);
    return merge.conflicts.empty();
}

/// What checks built goes along as it is, so that the release that is tried is as full as a real one.
void addBuilt(EngineRoom& room, const DrillOriginal& original, StageChange& change, DrillReport& report) {
    if (!original.held || original.held->outputs.empty()) return;
    change.outputs = builtAgain(*original.held, change.changes, room.objects());
    report.notes.emplace_back(change.outputs.empty()
                                  ? "what checks build is left out: the change touches it, and no check is run"
                                  : "what checks built goes along as it is: no check is run");
}

}  // namespace

DrillReport Service::drill(const fs::path& directory, const DrillWish& wish) {
    Engine& engine = this->engine(directory);
    const Stage& stage = stageIn(engine.project().pipeline, wish.stage);
    requireDrillable(stage);
    requireOpen(writing().records(), engine, stage);
    const auto real = room_->driver(stage, {});
    const DrillOriginal original{stage,        engine.project().root, room_->targetState(stage),
                                 real->held(), releaseTarget(*real),  real->source()};
    std::optional<Change> named;
    if (wish.change) named = viewChange(directory, *wish.change).change;
    StageChange change = subjectOf(*room_, original, named);
    DrillReport report{.stage = stage.name, .driver = stage.driver};
    report.subject = named ? change.handle : "a change made up for it";
    if (!fit(*room_, original, change, report)) return report;
    addBuilt(*room_, original, change, report);

    const DrillGround ground(state().root, around_.random, room_->files());
    const DrillTarget target = copyTarget(original, ground, room_->files(), report);
    const auto driver = room_->driverElsewhere({target.stage, target.project, target.state, onlyTold(report)});
    report.conflicts = driver->conflicts(change);
    if (!report.conflicts.empty()) return report;
    const auto lock = lockCopy(*driver, target, room_->files());
    report.outcome = rehearse(*driver, change, target.place);
    return report;
}

}  // namespace gradus
