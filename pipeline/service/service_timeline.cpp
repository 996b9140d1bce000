#include <algorithm>
#include <limits>
#include <set>

#include "pipeline/service/pinned_rules.h"
#include "pipeline/service/project.h"
#include "pipeline/service/service.h"
#include "pipeline/service/stage_names.h"
#include "pipeline/service/timeline.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMostPinned = std::uint64_t{64} << 20;

/// What the story is about.
struct Scope {
    std::int64_t project = 0;
    std::optional<std::int64_t> change;
    std::optional<std::int64_t> promotion;
    std::optional<std::string> stage;

    std::string text() const {
        if (promotion) return promotionHandle(*promotion);
        return change ? changeHandle(*change) : stage.value_or("");
    }
};

[[noreturn]] void throwUnknown(const std::string& what, const std::vector<std::string>& stages) {
    std::string known;
    for (const std::string& stage : stages) known += (known.empty() ? "" : ", ") + stage;
    throw Error(ErrorCode::kNotFound, "nothing in this project is called '{}'", printable(what))
        .hint("name a change (c2), a promotion (p3)" + (known.empty() ? "" : " or a stage: " + known));
}

Scope scopeOf(const Records& records, std::int64_t project, const std::string& what,
              const std::vector<std::string>& stages) {
    Scope scope{.project = project};
    // A stage may be called like a handle.
    if (std::find(stages.begin(), stages.end(), what) != stages.end()) {
        scope.stage = what;
        return scope;
    }
    const auto handle = parseHandle(what);
    if (handle && handle->kind == HandleKind::kChange) {
        const auto change = records.change(handle->number);
        if (!change || change->project != project) throwUnknown(what, stages);
        scope.change = change->id;
    } else if (handle && handle->kind == HandleKind::kPromotion) {
        const auto promotion = records.promotion(handle->number);
        if (!promotion || promotion->project != project) throwUnknown(what, stages);
        scope.promotion = promotion->id;
        scope.change = promotion->change;
        scope.stage = promotion->stage;
    } else if (handle && handle->kind == HandleKind::kLatest && records.latestChange(project)) {
        scope.change = records.latestChange(project);
    } else {
        throwUnknown(what, stages);
    }
    return scope;
}

/// Said for everybody, whatever the story is about.
bool isForAll(EventKind kind) {
    return kind == EventKind::kWorkHalted || kind == EventKind::kWorkResumed || kind == EventKind::kClockWentBack;
}

/// Words about the promotion's change and stage name no promotion; they belong to it while it is under way.
void keepPromotion(std::vector<Event>& events, const Scope& scope) {
    std::int64_t first = kAll;
    std::int64_t last = 0;
    for (const Event& event : events)
        if (event.promotion == scope.promotion) {
            first = std::min(first, event.seq);
            last = std::max(last, event.seq);
        }
    std::erase_if(events, [&](const Event& event) {
        if (event.promotion) return event.promotion != scope.promotion;
        return event.stage != scope.stage || event.seq < first || event.seq > last;
    });
}

class Gatherer {
  public:
    Gatherer(Sql& sql, const Scope& scope, const TimelineRequest& request) : sql_(sql), scope_(scope) {
        query_.since = request.since;
        query_.until = request.until;
        query_.limit = kAll;
    }

    std::vector<Event> run() {
        const ReadTransaction oneMoment(sql_);
        scope_.change ? ofChange() : ofProject();
        ofEverybody();
        std::ranges::sort(events_, {}, &Event::seq);
        return std::move(events_);
    }

  private:
    void ofChange() {
        AuditQuery query = query_;
        query.change = scope_.change;
        events_ = queryEvents(sql_, query);
        if (scope_.promotion) keepPromotion(events_, scope_);
    }

    // By kind: what is told is a small part of what a project records.
    void ofProject() {
        for (const EventKind kind : toldKinds()) {
            if (isForAll(kind)) continue;
            AuditQuery query = query_;
            query.kind = kind;
            query.stage = scope_.stage;
            if (!isAboutTheLog(kind)) query.project = scope_.project;
            if (scope_.stage && isAboutTheLog(kind)) continue;
            for (Event& event : queryEvents(sql_, query)) events_.push_back(std::move(event));
        }
    }

    static bool isAboutTheLog(EventKind kind) {
        return kind == EventKind::kLogStarted || kind == EventKind::kLogReanchored ||
               kind == EventKind::kPayloadRedacted;
    }

    void ofEverybody() {
        const bool isNarrow = scope_.change || scope_.stage;
        if (isNarrow && events_.empty()) return;
        const auto [first, last] = std::ranges::minmax_element(events_, {}, &Event::seq);
        const std::int64_t begin = isNarrow ? first->seq : 0;
        const std::int64_t end = isNarrow ? last->seq : kAll;
        for (const EventKind kind : toldKinds()) {
            if (!isForAll(kind)) continue;
            AuditQuery query = query_;
            query.kind = kind;
            for (Event& event : queryEvents(sql_, query)) {
                const bool isOurs = !event.project || event.project == scope_.project;
                if (isOurs && event.seq > begin && event.seq < end) events_.push_back(std::move(event));
            }
        }
    }

    Sql& sql_;
    const Scope& scope_;
    AuditQuery query_;
    std::vector<Event> events_;
};

}  // namespace

std::int64_t Service::recordedProject(const fs::path& directory) {
    const fs::path root = projectRoot(directory);
    if (const auto project = existing().records().findProject(identify(root))) return *project;
    throw Error(ErrorCode::kNotFound, "nothing is recorded about the project {}", root.native())
        .hint("`gradus audit query --event project.registered` lists the projects");
}

std::optional<Pipeline> Service::pipelineOf(const std::optional<TrustedRules>& trusted) const {
    if (!trusted || !objects().contains(trusted->files)) return std::nullopt;
    try {
        return load(decodeRuleFiles(objects().readAll(trusted->files, kMostPinned))).pipeline;
    } catch (const Error&) {
        return std::nullopt;
    }
}

Timeline Service::timeline(const fs::path& directory, const TimelineRequest& request) {
    const std::int64_t project = recordedProject(directory);
    Store& store = existing();
    Scope scope{.project = project};
    if (request.what) {
        const auto pipeline = pipelineOf(store.records().trustedRules(project));
        const auto stages = stageNames(store.records(), project, pipeline ? &*pipeline : nullptr);
        scope = scopeOf(store.records(), project, *request.what, stages);
    }
    Timeline timeline{.about = scope.text()};
    timeline.entries = tellStory(store.records(), Gatherer(store.sql(), scope, request).run());
    const auto count = static_cast<std::int64_t>(timeline.entries.size());
    timeline.earlier = std::max<std::int64_t>(0, count - request.limit);
    timeline.entries.erase(timeline.entries.begin(), timeline.entries.begin() + timeline.earlier);
    if (!timeline.entries.empty()) timeline.entries.front().continues = false;
    return timeline;
}

}  // namespace gradus
