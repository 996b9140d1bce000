#include <fmt/format.h>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/period.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/service/timeline.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

constexpr std::int64_t kMostEntries = 1'000'000;

Json entryJson(const TimelineEntry& entry) {
    return {{"seq", entry.seq},
            {"at", formatTime(entry.at)},
            {"by", entry.by.empty() ? Json() : Json(entry.by)},
            {"event", nameOf(kEventKinds, entry.kind)},
            {"change", entry.change ? Json(changeHandle(*entry.change)) : Json()},
            {"promotion", entry.promotion ? Json(promotionHandle(*entry.promotion)) : Json()},
            {"stage", entry.stage ? Json(*entry.stage) : Json()},
            {"text", entry.text},
            {"redacted", entry.redacted},
            {"continues", entry.continues}};
}

Style styleOf(Tone tone) {
    switch (tone) {
        case Tone::kGood:
            return Style::kGreen;
        case Tone::kBad:
            return Style::kRed;
        case Tone::kWord:
            return Style::kYellow;
        default:
            return Style::kPlain;
    }
}

/// What went on together stands together: time, person and promotion are said once.
std::string entriesText(const Timeline& timeline, const Context& context) {
    TextTable table({{"at"}, {"who"}, {"about"}, {"what"}});
    for (const TimelineEntry& entry : timeline.entries) {
        const TextTable::Cell what(entry.text, styleOf(entry.tone));
        if (entry.continues)
            table.row({"", "", "", what});
        else
            table.row({formatTime(entry.at).substr(0, 19) + "Z", entry.by, entry.about, what});
    }
    // A sentence that is cut is none: on a terminal it goes on in the next line.
    return table.render(context.paint, 0);
}

Result timeline(Service& service, Context& context) {
    const Period period = periodFrom(context, "audit timeline");
    TimelineRequest request{.what = context.arguments.positional("WHAT"), .since = period.since, .until = period.until};
    if (const auto limit = context.arguments.number("limit", 1, kMostEntries)) request.limit = *limit;
    const Timeline told = service.timeline(context.host.directory(), request);
    Result result{.data = {{"about", told.about.empty() ? Json() : Json(told.about)},
                           {"entries", Json::array()},
                           {"earlier", told.earlier}}};
    for (const TimelineEntry& entry : told.entries) result.data["entries"].push_back(entryJson(entry));
    result.text = told.entries.empty() ? "nothing happened there\n" : entriesText(told, context);
    if (told.earlier > 0 && !context.json)
        context.progress.text(
            fmt::format("note: {} left out; --limit shows more", counted(told.earlier, "earlier line")));
    return result;
}

}  // namespace

std::vector<Verb> timelineVerbs(const OpenService& open) {
    return {
        {.words = "audit timeline",
         .group = Group::kAnswer,
         .summary = "tell what happened, a sentence for each thing",
         .examples = {{"gradus audit timeline", "this project, newest last"},
                      {"gradus audit timeline c12", "the story of one change"},
                      {"gradus audit timeline production --since 2d", "what production went through"}},
         .positionals = {{"WHAT", "a change (c2), a promotion (p3) or a stage; the whole project otherwise", false}},
         .options =
             {{.name = "since", .value = "TIME", .doc = "from then on: an age (2d, 90m) or RFC 3339"},
              {.name = "until", .value = "TIME", .doc = "before then"},
              {.name = "limit", .value = "N", .doc = "the newest so many lines", .letter = 'n', .fallback = "200"}},
         .handler = withService(open, timeline)}};
}

}  // namespace gradus
