#include <fmt/ranges.h>

#include <algorithm>

#include "pipeline/engine/drive.h"
#include "pipeline/engine/step_words.h"
#include "pipeline/service/engine_room.h"
#include "pipeline/service/project.h"
#include "pipeline/service/service.h"
#include "pipeline/service/word_teller.h"
#include "policies/language/suggest.h"
#include "store/adoption_records.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostLog = std::uint64_t{64} << 20;

/// What holds where nobody wrote a file: the work tree, and no checks.
constexpr std::string_view kWithoutFile = R"([pipeline]
name = "project"
stages = ["local"]
)";

/// The stage is closed by this one, or by another attempt to take back the same.
bool isOfOneWayBack(const Records& records, const std::optional<std::int64_t>& closing, const Promotion& stuck) {
    const auto other = closing ? records.promotion(*closing) : std::nullopt;
    return other && other->undoes.value_or(other->id) == stuck.undoes.value_or(stuck.id);
}

/// The one that moved last: one that waited may have gone in after what came later.
const Promotion& movedLast(const std::vector<Promotion>& all) {
    return *std::ranges::max_element(all, {}, [](const Promotion& one) { return std::pair(one.movedAt, one.id); });
}

/// The promotion that took it out again, if one came to its end with that.
std::optional<Promotion> whatTookBack(const Records& records, const Promotion& promotion) {
    const std::int64_t undone = promotion.undoes.value_or(promotion.id);
    for (Promotion& other : records.promotionsOf(promotion.change))
        if (other.undoes == undone && other.state == PromotionState::kPromoted) return std::move(other);
    return std::nullopt;
}

/// Why what got stuck does not close its stage any more.
std::string whatSettled(Store& store, const Promotion& stuck) {
    for (const Adoption& adoption : adoptionsOf(store.sql(), stuck.project, stuck.stage))
        if (adoption.settles ? *adoption.settles == stuck.id : adoption.at >= stuck.movedAt)
            return fmt::format("on {}: {}", formatTime(adoption.at), tellAdoption(store.records(), adoption).text);
    if (const auto back = whatTookBack(store.records(), stuck))
        return fmt::format("on {}: {} took it back", formatTime(back->movedAt), promotionHandle(back->id));
    return "since: the stage is open again";
}

RuleFiles rulesWithoutFile() {
    RuleFiles files;
    files.files.push_back({std::string(kPipelineFile), std::string(kWithoutFile)});
    return files;
}

RuleFiles inForce(const ProjectRules& rules) {
    if (rules.lost)
        throw Error(ErrorCode::kNotAllowed, "{}", *rules.lost).hint("read gradus.toml and run `gradus trust` again");
    if (rules.pinned) return *rules.pinned;
    if (rules.state == RulesState::kNone) return rulesWithoutFile();
    throw Error(ErrorCode::kNotAllowed, "nothing of gradus.toml runs before a person trusted it")
        .hint("read it, then `gradus trust`");
}

}  // namespace

Pipeline Service::pipelineInForce(const ProjectRules& project) {
    if (project.state == RulesState::kChanged)
        around_.warn("the rules on disk differ from the trusted ones, which are used");
    LoadResult loaded = load(inForce(project));
    if (!loaded.pipeline)
        throw Error(ErrorCode::kNotAllowed, "the trusted rules do not hold under this program and ceiling")
            .hint("gradus policy lint");
    return std::move(*loaded.pipeline);
}

Engine& Service::engine(const fs::path& directory) {
    if (room_ && room_->engine().project().root == projectRoot(directory)) return room_->engine();
    requireStateOutside(projectRoot(directory));
    writing();
    EngineProject engineProject;
    // Before the files: what is trusted from then on is noticed.
    if (const auto known = store_->records().findProject(identify(projectRoot(directory))))
        if (const auto trusted = store_->records().trustedRules(*known)) engineProject.trusted = trusted->files;
    const ProjectRules project = rules(directory);
    engineProject.root = project.root;
    engineProject.pipeline = pipelineInForce(project);
    engineProject.rules = rulesDigest(engineProject.pipeline);
    const ProjectIdentity identity = identify(project.root);
    const auto known = store_->records().findProject(identity);
    if (known && !store_->records().hasMoved(*known, identity))
        engineProject.id = *known;
    else
        record([&](Writer& writer) { engineProject.id = writer.project(identity, writer.actor(caller())); });
    engineProject.stateName = store_->records().stateName(engineProject.id, identity);
    room_ = std::make_unique<EngineRoom>(std::move(engineProject),
                                         EngineRoom::Surroundings{.store = writing(),
                                                                  .state = state(),
                                                                  .clock = around_.clock,
                                                                  .random = around_.random,
                                                                  .sandboxes = sandboxes(),
                                                                  .kinds = around_.checkKinds,
                                                                  .actor = caller(),
                                                                  .environment = around_.environment});
    return room_->engine();
}

Engine& Service::recovered(const fs::path& directory, const EngineProgress& progress, const std::stop_token& cancel) {
    Engine& engine = this->engine(directory);
    sandboxes().reap();
    for (const Recovered& one : engine.recover(progress, cancel)) {
        const Stage* stage = engine.project().pipeline.findStage(one.before.stage);
        // Everything looks at the work tree; what is the matter elsewhere concerns those who go there.
        const bool isHalfWay = !isFinal(one.before.state);
        if (one.fault && isHalfWay && (stage == nullptr || stage->driver == "worktree")) throw Error(*one.fault);
        if (one.fault) {
            around_.warn(
                fmt::format("{} needs `gradus recover`: {}", promotionHandle(one.before.id), one.fault->what()));
            continue;
        }
        if (!isFinal(one.report.promotion.state)) {
            around_.warn(fmt::format("{} is {} in {}: {}", promotionHandle(one.before.id),
                                     nameOf(kPromotionStates, one.report.promotion.state), one.before.stage,
                                     one.report.reason));
            continue;
        }
        around_.warn(fmt::format("{} was left {} by a process that ended; {} is {} now", promotionHandle(one.before.id),
                                 isHalfWay ? nameOf(kPromotionStates, one.before.state) : "half-way out",
                                 isHalfWay ? "it" : "the way back",
                                 nameOf(kPromotionStates, one.report.promotion.state)));
    }
    return engine;
}

Engine& Service::tended(const fs::path& directory, const EngineProgress& progress, const std::stop_token& cancel) {
    Engine& engine = recovered(directory, progress, cancel);
    const MonitorReport report = engine.lookWhereDue(progress, cancel);
    for (const Monitored& one : report.stages)
        if (one.isLeftToAPerson)
            around_.warn(fmt::format("{} failed in {} and is not taken back: {}; {}", promotionHandle(one.promotion.id),
                                     one.promotion.stage, one.note, wayBackOf(engine, one.promotion).hint));
    for (const StageReport& back : report.takenBack)
        around_.warn(fmt::format("{} failed in {} and was taken back by {}: {}",
                                 promotionHandle(back.promotion.undoes.value_or(0)), back.promotion.stage,
                                 promotionHandle(back.promotion.id), back.reason));
    return engine;
}

std::size_t Service::needRecovery(const fs::path& directory) {
    Store* store = reading();
    if (store == nullptr) return 0;
    const auto project = store->records().findProject(identify(projectRoot(directory)));
    return project ? gradus::needRecovery(store->records(), state(), engine(directory).project()) : 0;
}

Change Service::changeToPromote(const fs::path& directory, const std::optional<std::string>& words,
                                const std::optional<std::string>& title) {
    if (!words) return submitOnce(directory, {.worktree = true}, title);
    if (!namesChange(*words)) {
        const auto& stages = engine(directory).project().pipeline;
        if (stages.findStage(*words) != nullptr && !(writingIfThere() != nullptr && sandboxes().find(*words)))
            throw Error(ErrorCode::kUsage, "'{}' is a stage, not a change or a sandbox", printable(*words))
                .hint(fmt::format("to promote the work tree into it: gradus promote --to {}", *words));
        return submitOnce(directory, {.sandbox = *words}, title);
    }
    if (title)
        throw Error(ErrorCode::kUsage, "{} has its title already", printable(*words))
            .hint("a title is for what is submitted on the way: the work tree, or a sandbox");
    return viewChange(directory, *words).change;
}

Promotion Service::promotionNamed(const fs::path& directory, const std::optional<std::string>& words) {
    const Records& records = existing().records();
    const auto project = records.findProject(identify(projectRoot(directory)));
    const auto fail = [&]() -> Error {
        if (!words)
            return Error(ErrorCode::kNotFound, "nothing was promoted in this project yet")
                .hint("`gradus promote` promotes the work tree; `gradus ls` lists the changes");
        const auto known = project ? pipelineOf(records.trustedRules(*project)) : std::nullopt;
        std::vector<std::string> stages;
        for (const Stage& stage : known ? known->stages : std::vector<Stage>{}) stages.push_back(stage.name);
        if (const auto meant = suggest(*words, stages))
            return Error(ErrorCode::kNotFound, "there is no promotion, change or stage '{}' in this project",
                         printable(*words))
                .hint(fmt::format("did you mean the stage '{}'?", *meant));
        return Error(ErrorCode::kNotFound, "there is no promotion '{}' in this project", printable(*words))
            .hint("name a promotion (p3), a change (c2) or a stage; `gradus status` shows them");
    };
    if (!project) throw fail();
    if (words) {
        const auto handle = parseHandle(*words);
        if (handle && handle->kind == HandleKind::kPromotion) {
            const auto found = records.promotion(handle->number);
            if (found && found->project == *project) return *found;
        } else if (handle && (handle->kind == HandleKind::kChange || handle->kind == HandleKind::kLatest)) {
            const std::int64_t change = viewChange(directory, *words).change.id;
            const auto all = records.promotionsOf(change);
            if (!all.empty()) return movedLast(all);
            throw Error(ErrorCode::kNotFound, "nobody promoted {} yet", changeHandle(change))
                .hint("gradus promote " + changeHandle(change));
        } else if (const StageState holds = records.stageState(*project, *words); holds.stuck || holds.promotion) {
            return *records.promotion(holds.stuck ? *holds.stuck : *holds.promotion);
        } else if (const auto newest = records.promotionsIn(*project, *words, 1); !newest.empty()) {
            return newest.front();
        }
        const auto pipeline = pipelineOf(records.trustedRules(*project));
        if (pipeline && pipeline->findStage(*words) != nullptr)
            throw Error(ErrorCode::kNotFound, "nothing was ever brought into {}", printable(*words))
                .hint("`gradus status` shows what every stage holds");
        throw fail();
    }
    const auto newest = records.promotionsIn(*project, std::nullopt, 1);
    if (newest.empty()) throw fail();
    return newest.front();
}

Promotion Service::promotionToTakeBack(const fs::path& directory, const std::string& words) {
    Promotion named = promotionNamed(directory, words);
    const Records& records = existing().records();
    const auto handle = parseHandle(words);
    const auto stands = [&](const Promotion& promotion) {
        const StageState holds = records.stageState(promotion.project, promotion.stage);
        return !promotion.undoes &&
               (holds.promotion == promotion.id || holds.stuck == promotion.id ||
                promotion.state == PromotionState::kVerifying || promotion.state == PromotionState::kSoaking);
    };
    if (handle && handle->kind == HandleKind::kPromotion) return named;
    if (handle && (handle->kind == HandleKind::kChange || handle->kind == HandleKind::kLatest)) {
        const auto all = records.promotionsOf(named.change);
        const auto found = std::find_if(all.rbegin(), all.rend(), stands);
        return found == all.rend() ? named : *found;
    }
    const StageState holds = records.stageState(named.project, named.stage);
    // What is just coming in is what is meant.
    for (const Promotion& promotion : records.unfinished(named.project))
        if (promotion.stage == named.stage && !promotion.undoes && promotion.checkpoint) return promotion;
    if (holds.stuck || holds.promotion) return named;
    throw Error(ErrorCode::kNotAllowed, "{} holds nothing{}", printable(named.stage),
                holds.tree ? " that a promotion brought: there is nothing to go back to" : "")
        .hint(fmt::format("`gradus audit timeline {}` shows what came and went", named.stage));
}

std::optional<Promotion> Service::newestPromotion(std::int64_t change) {
    const auto all = existing().records().promotionsOf(change);
    return all.empty() ? std::nullopt : std::optional(movedLast(all));
}

PromotionStory Service::story(std::int64_t id) {
    const Records& records = existing().records();
    PromotionStory story;
    story.promotion = *records.promotion(id);
    story.reason = records.lastReason(id).value_or("");
    story.change = *records.change(story.promotion.change, story.promotion.revision);
    story.by = fmt::format("{}", fmt::join(tellMakers(records, story.change.id), ", "));
    story.checks = records.checkResults(id);
    story.steps = records.steps().of(story.promotion.undoes.value_or(id));
    const Time now = around_.clock.now();
    for (const Hold& hold : records.words().holds(story.promotion.project)) {
        const bool stands = !hold.until || now < *hold.until;
        const bool about = !hold.change || hold.change == story.promotion.change || hold.patch == story.change.patch;
        if (stands && about && (!hold.stage || *hold.stage == story.promotion.stage))
            story.holds.push_back(tellHold(records, hold));
    }
    story.stage = records.stageState(story.promotion.project, story.promotion.stage);
    if (story.promotion.state == PromotionState::kStuck && !isOfOneWayBack(records, story.stage.stuck, story.promotion))
        story.settled = whatSettled(existing(), story.promotion);
    if (story.promotion.state == PromotionState::kPromoted && !story.promotion.undoes)
        story.takenBack = whatTookBack(records, story.promotion);
    return story;
}

std::string Service::reasonNow(const fs::path& directory, const Promotion& promotion) {
    std::string recorded = existing().records().lastReason(promotion.id).value_or("");
    if (promotion.state != PromotionState::kWaiting) return recorded;
    try {
        const std::string now = closedGates(engine(directory).standing(promotion.change, promotion.stage).gates).reason;
        return now.empty() ? "nothing keeps it any more" : now;
    } catch (const Error&) {
        return recorded;
    }
}

std::optional<Conflict> Service::strayedIn(const fs::path& directory, const std::string& stage) {
    try {
        return engine(directory).strayed(stage);
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::optional<AdoptionTold> Service::adoptionIn(const fs::path& directory, const std::string& stage) {
    Store& store = existing();
    const auto project = store.records().findProject(identify(projectRoot(directory)));
    const auto adoption =
        project ? standingAdoption(store.sql(), store.records(), *project, stage) : std::optional<Adoption>();
    return adoption ? std::optional(tellAdoption(store.records(), *adoption)) : std::nullopt;
}

std::optional<std::string> Service::logOf(const CheckResult& check) {
    if (!check.log || !objects().contains(*check.log)) return std::nullopt;
    return objects().readAll(*check.log, kMostLog);
}

std::optional<std::string> Service::logOf(const StepRecord& step) {
    if (!step.log || !objects().contains(*step.log)) return std::nullopt;
    return objects().readAll(*step.log, kMostLog);
}

std::vector<std::string> Service::builtBy(const CheckResult& check) {
    std::vector<std::string> paths;
    const Objects all = objects();
    if (!check.outputs || !all.contains(*check.outputs)) return paths;
    const ChangeSet outputs = ChangeSet::decode(all.readAll(*check.outputs, kMostLog));
    for (const PathChange& built : outputs.changes())
        if (built.after && built.after->type != EntryType::kDirectory) paths.push_back(built.path);
    return paths;
}

}  // namespace gradus
