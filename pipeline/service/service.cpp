#include "pipeline/service/service.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "pipeline/engine/by_hand.h"
#include "pipeline/engine/queue.h"
#include "pipeline/engine/verified.h"
#include "pipeline/service/engine_room.h"
#include "pipeline/service/login.h"
#include "pipeline/service/project.h"
#include "pipeline/service/word_teller.h"
#include "stages/changes/git_work_tree.h"
#include "stages/changes/work_tree.h"
#include "stages/sandbox/clone_view.h"
#include "store/adoption_records.h"
#include "store/model/actor_name.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kNewestChanges = 5;
// Of a long line those whose turn is next are told as they stand now: that takes a look at the tree for each.
constexpr std::size_t kToldAsNow = 10;

std::vector<QueueEntry> queueOf(const Records& records, std::int64_t project, const Stage& stage, const Moment& now) {
    std::vector<QueueEntry> queue;
    const Milliseconds limit = stage.policy.settings.duration("wait-limit");
    for (const Promotion& promotion : lineOf(records, project, stage.name)) {
        QueueEntry entry{promotion, {}, waited(promotion, now), {}};
        if (!isUnderWay(promotion.state)) entry.expires = expiresAt(promotion, limit, now);
        if (const auto no = leftToAPerson(records, &stage, promotion)) {
            entry.isLeftToAPerson = true;
            entry.reason = fmt::format("{} said no, and the policy leaves taking it back to a person", *no);
        }
        queue.push_back(std::move(entry));
    }
    return queue;
}

StageStatus stageStatus(Store& store, std::int64_t project, const Stage& stage, const Moment& now) {
    const Records& records = store.records();
    StageStatus status;
    status.queue = queueOf(records, project, stage, now);
    status.stage = stage.name;
    status.driver = stage.driver;
    status.holds = records.stageState(project, stage.name);
    if (const auto newest = records.promotionsIn(project, stage.name, 1); !newest.empty()) status.newest = newest[0];
    const auto concerned = status.holds.stuck                                ? status.holds.stuck
                           : status.newest && !isFinal(status.newest->state) ? std::optional(status.newest->id)
                                                                             : std::nullopt;
    if (concerned) status.steps = records.steps().of(records.promotion(*concerned)->undoes.value_or(*concerned));
    if (const auto adoption = standingAdoption(store.sql(), records, project, stage.name))
        status.adopted = tellAdoption(records, *adoption);
    if (!status.holds.promotion) return status;
    status.promotion = records.promotion(*status.holds.promotion);
    // It failed where it is, and nobody could take it back.
    const auto holds = records.words().holds(project);
    if (std::ranges::find(holds, status.holds.promotion, &Hold::promotion) != holds.end())
        status.holds.attention = status.holds.promotion;
    const auto watch = records.watches().watch(*status.holds.promotion);
    if (watch && watch->phase == WatchPhase::kMonitor && !watch->ended) status.monitor = watch;
    if (const auto change = records.change(status.promotion->change)) {
        status.title = change->title.value_or("[redacted]");
        status.by = fmt::format("{}", fmt::join(tellMakers(records, change->id), ", "));
    }
    return status;
}

Actor parseActor(const std::string& text) {
    const std::size_t colon = text.find(':');
    const auto kind = fromName(kActorKinds, text.substr(0, colon));
    if (colon == std::string::npos || !kind || colon + 1 == text.size())
        throw Error(ErrorCode::kUsage, "GRADUS_ACTOR is '{}', which does not say who is acting", printable(text))
            .hint("write KIND:NAME, with person, agent, daemon or ci for KIND, for example GRADUS_ACTOR=agent:fixer");
    std::string name = text.substr(colon + 1);
    requireActorName("GRADUS_ACTOR", name);
    return {*kind, std::move(name)};
}

}  // namespace

Service::Service(Surroundings surroundings) : around_(std::move(surroundings)) {}
Service::Service(Service&&) noexcept = default;
Service::~Service() = default;

Actor Service::caller() const {
    const auto declared = around_.environment("GRADUS_ACTOR");
    return declared && !declared->empty() ? parseActor(*declared) : Actor{ActorKind::kPerson, loginName()};
}

Store& Service::writing() {
    if (!store_ || !writable_) {
        store_.emplace(Store::openForWriting(state(), {.clock = around_.clock, .random = around_.random}));
        writable_ = true;
        if (!store_->hasKey())
            around_.warn("the audit key is gone: new events are not signed until `gradus audit reanchor`");
    }
    return *store_;
}

void Service::record(const std::function<void(Writer&)>& work) {
    writing().write(work);
    if (const auto gap = writing().anchorGap()) around_.warn(*gap);
}

Store* Service::reading() {
    if (!store_) store_ = Store::openForReading(state(), {.clock = around_.clock, .random = around_.random});
    return store_ ? &*store_ : nullptr;
}

Store* Service::writingIfThere() {
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(state().database(), ignored))) return reading();
    return &writing();
}

Store& Service::existing() {
    if (Store* store = reading()) return *store;
    throw Error(ErrorCode::kNotFound, "there is no store at {} yet", state().root.native())
        .hint("it is made by the first command that records something, such as `gradus trust`");
}

namespace {

/// It got stuck, and that does not close its stage any more.
bool isSettled(const Records& records, const Promotion& promotion) {
    return promotion.state == PromotionState::kStuck &&
           records.stageState(promotion.project, promotion.stage).stuck != promotion.id;
}

/// How far the newest change came.
void followNewest(const Records& records, const EngineProject& project, StatusReport& report) {
    if (report.changes.empty()) return;
    const std::int64_t newest = report.changes.front().id;
    const auto promotions = records.promotionsOf(newest);
    const bool isEverywhere = std::ranges::all_of(project.pipeline.stages, [&](const Stage& stage) {
        return standingIn(project, records, newest, stage.name).has_value();
    });
    if (isEverywhere) return;
    if (promotions.empty() || (promotions.back().state == PromotionState::kPromoted && !promotions.back().undoes) ||
        isSettled(records, promotions.back()))
        report.ahead = newest;
    else if (!promotions.back().undoes && isFinal(promotions.back().state))
        report.stopped = promotions.back().id;
}

/// Without git nobody knows what was edited.
bool hasEdits(const fs::path& root, const fs::path& cache, const std::vector<Change>& changes) {
    try {
        if (!findWorkTree(root)) return false;
        const ChangeSet edits = readWorkTree({.project = root, .cache = cache}).differences;
        return !edits.empty() && (changes.empty() || sha256(edits.encode()) != changes.front().changeSet);
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

StatusReport Service::status(const fs::path& directory) {
    StatusReport report;
    report.rules = rules(directory);
    if (const auto& files = report.rules.pinned ? report.rules.pinned : report.rules.onDisk)
        report.loaded = load(*files);
    if (Store* store = reading()) {
        report.hasStore = true;
        report.counts = store->records().counts();
        if (const auto project = store->records().findProject(identify(report.rules.root))) {
            report.changes = store->records().changes(*project, kNewestChanges);
            report.unfinished = store->records().unfinished(*project);
            EngineProject known{*project, report.rules.root, {}, {}};
            if (report.loaded && report.loaded->pipeline) known.pipeline = *report.loaded->pipeline;
            report.needRecovery = gradus::needRecovery(store->records(), state(), known);
            if (report.loaded && report.loaded->pipeline)
                for (const Stage& stage : report.loaded->pipeline->stages)
                    report.stages.push_back(stageStatus(*store, *project, stage, around_.clock.moment()));
            if (report.rules.state == RulesState::kTrusted && report.loaded && report.loaded->pipeline) {
                const Pipeline& pipeline = *report.loaded->pipeline;
                followNewest(store->records(), {*project, report.rules.root, pipeline, rulesDigest(pipeline)}, report);
                report.hasEdits = hasEdits(report.rules.root, state().treeCache(report.rules.root), report.changes);
            }
        }
    }
    // Last: whoever looks at gates or targets opens the store anew.
    for (StageStatus& stage : report.stages)
        if (stage.holds.tree) stage.strayed = strayedIn(directory, stage.stage);
    for (StageStatus& stage : report.stages)
        for (std::size_t i = 0; i < stage.queue.size(); ++i)
            if (QueueEntry& entry = stage.queue[i]; !entry.isLeftToAPerson)
                entry.reason = i < kToldAsNow ? reasonNow(directory, entry.promotion)
                                              : existing().records().lastReason(entry.promotion.id).value_or("");
    return report;
}

// A clone of the project would show the keys of the log, and a change of it would carry them along.
void Service::requireStateOutside(const fs::path& root) const {
    std::error_code unreachable;
    const fs::path state = fs::weakly_canonical(this->state().root, unreachable);
    if (unreachable)
        throw Error(ErrorCode::kInfrastructure, "cannot use the state directory {}: {}", this->state().root.native(),
                    unreachable.message())
            .hint("HOME, XDG_STATE_HOME and GRADUS_HOME say where it is: set GRADUS_HOME to a directory of yours");
    if (!isWithin(state, root)) return;
    throw Error(ErrorCode::kUsage, "the state directory {} lies in the project {}", state.native(), root.native())
        .hint("set GRADUS_HOME to a directory elsewhere");
}

}  // namespace gradus
