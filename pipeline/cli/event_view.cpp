#include "pipeline/cli/event_view.h"

#include <fmt/format.h>

#include "pipeline/cli/climb_view.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

Json fieldsJson(const EventFields& fields) {
    Json out = Json::object();
    for (const auto& [key, value] : fields.all()) std::visit([&, &name = key](const auto& v) { out[name] = v; }, value);
    return out;
}

Json nearJson(const std::vector<TimelineEntry>& entries) {
    Json all = Json::array();
    for (const TimelineEntry& entry : entries)
        all.push_back({{"seq", entry.seq},
                       {"at", formatTime(entry.at)},
                       {"by", entry.by.empty() ? Json() : Json(entry.by)},
                       {"promotion", entry.promotion ? Json(promotionHandle(*entry.promotion)) : Json()},
                       {"text", entry.text}});
    return all;
}

std::string nearText(std::string_view heading, const std::vector<TimelineEntry>& entries) {
    if (entries.empty()) return {};
    std::string text = fmt::format("{}\n", heading);
    for (const TimelineEntry& entry : entries)
        text += fmt::format("  {:>6}  {}  {}{}\n", entry.seq, formatTime(entry.at).substr(0, 19) + "Z",
                            entry.by.empty() ? "" : printable(entry.by) + ": ", printable(entry.text));
    return text;
}

/// "c1.2 Cache the price list, p3 into production, which is rolled-back now".
std::string aboutText(const EventStory& story) {
    std::string text;
    const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
    if (story.change)
        add(fmt::format("{}.{} {}", changeHandle(story.change->id), story.change->revision,
                        printable(story.change->title.value_or("(no title)"))));
    if (story.promotion)
        add(fmt::format("{} {} {}, which is {} now", promotionHandle(story.promotion->id),
                        story.promotion->undoes ? "out of" : "into", printable(story.promotion->stage),
                        nameOf(kPromotionStates, story.promotion->state)));
    else if (story.entry.event.stage)
        add("stage " + printable(*story.entry.event.stage));
    return text;
}

std::vector<std::string> nextOf(const EventStory& story) {
    std::vector<std::string> next;
    if (story.promotion) next.push_back("gradus why " + promotionHandle(story.promotion->id));
    if (story.change) next.push_back("gradus audit timeline " + changeHandle(story.change->id));
    return next;
}

}  // namespace

Json entryJson(const AuditEntry& entry) {
    const Event& event = entry.event;
    Json out{{"seq", event.seq}, {"at", formatTime(event.at)}, {"event", nameOf(kEventKinds, event.kind)}};
    out["actor"] = event.actor ? Json(entry.actor) : Json();
    out["project"] = event.project ? Json(entry.project) : Json();
    out["change"] = event.change ? Json(changeHandle(*event.change)) : Json();
    out["promotion"] = event.promotion ? Json(promotionHandle(*event.promotion)) : Json();
    out["stage"] = event.stage ? Json(*event.stage) : Json();
    out["body"] = fieldsJson(event.fields);
    out["payload"] = event.payload ? Json::parse(*event.payload, nullptr, false) : Json();
    out["redacted"] = event.redacted;
    return out;
}

std::string eventDetail(const AuditEntry& entry) {
    const Event& event = entry.event;
    std::string out;
    const auto add = [&](const std::string& piece) { out += (out.empty() ? "" : " ") + piece; };
    if (event.kind == EventKind::kPromotionMoved) {
        add(fmt::format("{} → {}", event.fields.text("from"), event.fields.text("to")));
        if (event.fields.text("cause") != "proceeded") add("(" + event.fields.text("cause") + ")");
        return out;
    }
    if (event.redacted) add("[redacted]");
    if (event.payload) {
        const Json payload = Json::parse(*event.payload, nullptr, false);
        for (const char* key : {"title", "name", "path"})
            if (payload.is_object() && payload.contains(key) && payload[key].is_string())
                add(payload[key].get<std::string>());
    }
    for (const auto& [key, value] : event.fields.all()) {
        const auto* text = std::get_if<std::string>(&value);
        if (text == nullptr)
            add(fmt::format("{}={}", key, std::get<std::int64_t>(value)));
        else if (text->size() < 32)
            add(fmt::format("{}={}", key, *text));
    }
    return out;
}

Result eventResult(const EventStory& story, const Context& context) {
    const Event& event = story.entry.event;
    Result result;
    result.data["event"] = entryJson(story.entry);
    result.data["text"] = story.text.empty() ? eventDetail(story.entry) : story.text;
    result.data["rules"] = story.rules;
    result.data["in_name_of"] = story.inNameOf.empty() ? Json() : Json(story.inNameOf);
    if (story.change)
        result.data["change"] = {{"id", changeHandle(story.change->id)},
                                 {"revision", story.change->revision},
                                 {"title", story.change->title ? Json(*story.change->title) : Json()}};
    if (story.promotion) result.data["promotion"] = promotionJson(*story.promotion, "");
    result.data["before"] = nearJson(story.before);
    result.data["after"] = nearJson(story.after);
    result.data["earlier"] = story.earlier;
    result.data["later"] = story.later;
    const std::string by = story.entry.actor.empty() ? "nobody in particular" : printable(story.entry.actor);
    result.text = fmt::format("event {}: {}\n  {} by {}{} on {}\n", event.seq,
                              context.paint(Style::kBold, printable(result.data["text"].get<std::string>())),
                              nameOf(kEventKinds, event.kind), by,
                              story.inNameOf.empty() ? "" : " for " + printable(story.inNameOf), formatTime(event.at));
    if (const std::string about = aboutText(story); !about.empty()) result.text += "  about  " + about + "\n";
    for (const std::string& rule : story.rules) result.text += "  under  " + printable(rule) + "\n";
    result.text += nearText("what led to it", story.before) + nearText("what came of it", story.after);
    if (story.later > 0) result.text += fmt::format("          and {} more\n", story.later);
    result.next = nextOf(story);
    return result;
}

}  // namespace gradus
