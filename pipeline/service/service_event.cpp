// What an event of the log was, what led to it and what came of it.
#include <limits>
#include <nlohmann/json.hpp>

#include "pipeline/service/event_story.h"
#include "pipeline/service/service.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
/// Of what led to it, and of what came of it: the nearest so many.
constexpr std::size_t kMostNear = 5;

std::string at(std::string_view what, const Origin& origin) { return fmt::format("{} {}", what, origin.text()); }

void addKey(const Settings& settings, const std::string& key, std::vector<std::string>& rules) {
    if (const Value* value = settings.find(key)) rules.push_back(at(key, value->origin));
}

/// What the rules say about an event of this kind in this stage.
std::vector<std::string> rulesAbout(const Event& event, const Pipeline& pipeline) {
    std::vector<std::string> rules;
    const Stage* const stage = event.stage ? pipeline.findStage(*event.stage) : nullptr;
    if (event.kind == EventKind::kCheckFinished) {
        const auto check = pipeline.checks.find(event.fields.text("check"));
        if (check != pipeline.checks.end()) rules.push_back(at("check " + check->first, check->second.origin));
    }
    if (stage == nullptr) return rules;
    if (event.kind == EventKind::kApprovalGiven || event.kind == EventKind::kApprovalUsed)
        addKey(stage->policy.settings, "approvals", rules);
    if (event.kind == EventKind::kGateOverridden) addKey(stage->policy.settings, "overridable", rules);
    if (event.kind == EventKind::kPromotionWatched) addKey(stage->settings, event.fields.text("phase"), rules);
    if (event.kind == EventKind::kStepMoved) addKey(stage->settings, "step", rules);
    if (rules.empty()) rules.push_back(at("stage " + stage->name, stage->origin));
    return rules;
}

/// Where it is written what a promotion waited for: on record beside the reason.
std::optional<std::string> rulesOnRecord(const Event& event) {
    const auto json = event.payload ? nlohmann::json::parse(*event.payload, nullptr, false) : nlohmann::json();
    if (!json.is_object() || !json.contains("rules") || !json["rules"].is_string()) return std::nullopt;
    return json["rules"].get<std::string>();
}

/// The rules that were trusted when it was recorded.
std::optional<TrustedRules> trustedAt(Sql& sql, std::int64_t project, std::int64_t seq) {
    std::optional<TrustedRules> trusted;
    const AuditQuery query{.kind = EventKind::kRulesTrusted, .project = project, .limit = kAll};
    for (const Event& event : queryEvents(sql, query))
        if (event.seq <= seq)
            trusted = TrustedRules{event.fields.digest("rules"), event.fields.digest("files"), 0, event.at};
    return trusted;
}

/// Part of the same: the same promotion, or a word about its change and stage.
bool belongs(const TimelineEntry& entry, const Event& event, const std::optional<Promotion>& promotion) {
    if (entry.promotion && promotion) return *entry.promotion == promotion->id;
    return !entry.stage || !event.stage || entry.stage == event.stage;
}

/// The change and the promotion that it names, or that the command was run for.
void addSubject(const Records& records, EventStory& story) {
    const Event& event = story.entry.event;
    auto promotion = event.promotion;
    if (!promotion && event.fields.has("execution"))
        promotion = records.promotionOfExecution(event.fields.number("execution"));
    if (promotion) story.promotion = records.promotion(*promotion);
    if (const auto asked = event.fields.optionalNumber("for"))
        if (const auto actor = records.actor(*asked))
            story.inNameOf = fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name);
    if (story.promotion)
        story.change = records.change(story.promotion->change, story.promotion->revision);
    else if (event.change)
        story.change = records.change(*event.change, event.fields.optionalNumber("revision").value_or(1));
}

std::string nameOfStory(const Event& event, const std::optional<Promotion>& promotion) {
    if (promotion) return changeHandle(promotion->change);
    return event.change ? changeHandle(*event.change) : event.stage.value_or("");
}

void addNear(const std::vector<TimelineEntry>& entries, EventStory& story) {
    const Event& event = story.entry.event;
    for (const TimelineEntry& entry : entries) {
        if (entry.seq == event.seq || !belongs(entry, event, story.promotion)) continue;
        (entry.seq < event.seq ? story.before : story.after).push_back(entry);
    }
    if (story.before.size() > kMostNear) {
        story.earlier = static_cast<std::int64_t>(story.before.size() - kMostNear);
        story.before.erase(story.before.begin(), story.before.begin() + story.earlier);
    }
    if (story.after.size() > kMostNear) {
        story.later = static_cast<std::int64_t>(story.after.size() - kMostNear);
        story.after.resize(kMostNear);
    }
}

}  // namespace

bool Service::hasEvent(std::int64_t seq) {
    Store* store = reading();
    return store != nullptr && seq >= 1 && seq <= store->records().counts().events;
}

std::vector<TimelineEntry> Service::around(const fs::path& directory, const EventStory& story) {
    const Event& event = story.entry.event;
    // What else went on in another project is told there.
    const bool isHere =
        event.project && existing().records().findProject(identify(projectRoot(directory))) == event.project;
    const bool isTold = !story.text.empty() || story.promotion;
    if (!isHere || !isTold) return {};
    TimelineRequest near{.what = std::nullopt, .limit = kAll};
    if (const std::string name = nameOfStory(event, story.promotion); !name.empty()) near.what = name;
    try {
        return timeline(directory, near).entries;
    } catch (const Error& e) {
        // A stage that the rules do not have any more, and that nothing ever entered.
        if (e.code() != ErrorCode::kNotFound) throw;
        return {};
    }
}

EventStory Service::eventStory(const fs::path& directory, std::int64_t seq) {
    AuditRequest one;
    one.query.afterSeq = seq - 1;
    one.query.limit = 1;
    auto entries = seq < 1 ? std::vector<AuditEntry>() : queryAudit(one);
    if (entries.empty() || entries.front().event.seq != seq)
        throw Error(ErrorCode::kNotFound, "there is no event {}", seq).hint("`gradus audit query` lists the events");
    Store& store = existing();
    EventStory story{.entry = std::move(entries.front())};
    const Event& event = story.entry.event;
    story.text = tellEvent(store.records(), event);
    addSubject(store.records(), story);
    if (const auto onRecord = rulesOnRecord(event))
        story.rules = {*onRecord};
    else if (const auto pipeline =
                 event.project ? pipelineOf(trustedAt(store.sql(), *event.project, seq)) : std::nullopt)
        story.rules = rulesAbout(event, *pipeline);
    addNear(around(directory, story), story);
    return story;
}

}  // namespace gradus
