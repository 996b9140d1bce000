#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <thread>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/event_view.h"
#include "pipeline/cli/export_view.h"
#include "pipeline/cli/period.h"
#include "pipeline/cli/text_table.h"
#include "pipeline/cli/verbs.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

constexpr std::int64_t kMostRows = 1'000'000;
/// The log is signed every thousand events, at the end of a commit.
constexpr std::int64_t kMostUnsigned = 2000;
constexpr auto kFollowEvery = std::chrono::milliseconds(200);

std::string hintFor(Tampering kind) {
    switch (kind) {
        case Tampering::kStateMismatch:
            return "the events themselves are whole; `gradus store rebuild` recomputes the tables from them";
        case Tampering::kUnanchoredSince:
            return "put the anchor file back if you have it; `gradus audit reanchor` starts a new one, on the record";
        default:
            return "keep the state directory as it is for whoever investigates, and restore the latest backup";
    }
}

Result verify(Service& service, Context& context) {
    if (const auto file = context.arguments.value("export")) return verifyExportFile(context, *file);
    for (const char* option : {"public-key", "anchor"})
        if (context.arguments.value(option))
            throw usageError("audit verify", fmt::format("--{} is for a file: --export names it", option));
    const AuditVerdict verdict = service.verifyAudit(progressLine(context, "verified"));
    Result result{.data = verdictJson(verdict)};
    if (verdict.kind == Tampering::kNone) {
        result.text = fmt::format("{}  {}, {} ({} redacted), {}\n", context.paint(Style::kGreen, "ok"),
                                  counted(verdict.events, "event"), counted(verdict.payloads, "payload"),
                                  verdict.redacted, counted(verdict.signatures, "signature"));
        if (verdict.notYetAnchored > 0)
            result.text += fmt::format("    the last commit ({}) is not anchored yet; the next write does that\n",
                                       counted(verdict.notYetAnchored, "event"));
        if (verdict.events - verdict.signedThrough > kMostUnsigned)
            result.text += fmt::format(
                "    nothing after event {} is signed: audit.key was missing; `gradus audit reanchor` makes a new "
                "one\n",
                verdict.signedThrough);
        return result;
    }
    const std::string_view kind = nameOf(kTamperings, verdict.kind);
    result.exit = Exit::kFailed;
    result.problem =
        Problem{std::string(kind),
                fmt::format("the audit log is not whole: {} at event {}: {}", kind, verdict.seq, verdict.detail),
                hintFor(verdict.kind)};
    return result;
}

Style styleOf(const Event& event) {
    if (event.kind == EventKind::kClockWentBack || event.kind == EventKind::kLogReanchored) return Style::kYellow;
    if (event.kind != EventKind::kPromotionMoved && event.kind != EventKind::kCheckFinished) return Style::kPlain;
    const std::string& cause = event.fields.text(event.kind == EventKind::kCheckFinished ? "verdict" : "cause");
    if (cause == "passed") return Style::kGreen;
    return cause == "proceeded" ? Style::kPlain : Style::kRed;
}

std::string entriesTable(const std::vector<AuditEntry>& entries, const Context& context) {
    TextTable table(
        {{"seq", TextTable::Align::kRight}, {"at"}, {"actor"}, {"event"}, {"change"}, {"stage"}, {"detail"}});
    for (const AuditEntry& entry : entries) {
        const Event& event = entry.event;
        table.row({std::to_string(event.seq), formatTime(event.at).substr(0, 19) + "Z", entry.actor,
                   std::string(nameOf(kEventKinds, event.kind)),
                   event.change ? changeHandle(*event.change) : std::string(), event.stage.value_or(""),
                   TextTable::Cell(eventDetail(entry), styleOf(event))});
    }
    return table.render(context.paint, context.width);
}

AuditRequest requestFrom(const Context& context) {
    AuditRequest request;
    const Period period = periodFrom(context, "audit query");
    request.query.since = period.since;
    request.query.until = period.until;
    request.actor = context.arguments.value("actor");
    if (const auto kind = context.arguments.value("event")) request.query.kind = fromName(kEventKinds, *kind);
    request.query.stage = context.arguments.value("stage");
    request.change = context.arguments.value("change");
    if (const auto project = context.arguments.value("project")) request.projectDirectory = *project;
    request.query.limit = context.arguments.number("limit", 1, kMostRows).value_or(100);
    return request;
}

void writeEntry(const AuditEntry& entry, Context& context) {
    if (context.arguments.flag("ndjson") || context.json) return context.lines.json(entryJson(entry));
    context.lines.text(fmt::format("{:>6}  {}  {:<16}  {:<18}  {:<6}  {:<11}  {}", entry.event.seq,
                                   formatTime(entry.event.at), entry.actor, nameOf(kEventKinds, entry.event.kind),
                                   entry.event.change ? changeHandle(*entry.event.change) : "",
                                   entry.event.stage.value_or(""), eventDetail(entry)));
}

/// Until interrupted: what matches now, then whatever is added.
Result follow(Service& service, Context& context, AuditRequest request) {
    std::vector<AuditEntry> entries = service.queryAudit(request);
    request.query.afterSeq = 0;
    while (true) {
        for (const AuditEntry& entry : entries) {
            writeEntry(entry, context);
            request.query.afterSeq = entry.event.seq;
        }
        context.lines.flush();
        std::this_thread::sleep_for(kFollowEvery);
        entries = service.queryAudit(request);
    }
}

Result query(Service& service, Context& context) {
    const AuditRequest request = requestFrom(context);
    if (context.arguments.flag("follow")) return follow(service, context, request);
    const std::vector<AuditEntry> entries = service.queryAudit(request);
    if (entries.empty() && request.query.stage)
        service.requireKnownStage(context.host.directory(), *request.query.stage);
    if (context.arguments.flag("ndjson")) {
        for (const AuditEntry& entry : entries) writeEntry(entry, context);
        return {.streamed = true};
    }
    Json events = Json::array();
    for (const AuditEntry& entry : entries) events.push_back(entryJson(entry));
    Result result{.data = {{"events", std::move(events)}}};
    result.text = entries.empty() ? "no event matches\n" : entriesTable(entries, context);
    return result;
}

Result redact(Service& service, Context& context) {
    std::int64_t seq = 0;
    const std::string text = context.arguments.positional("SEQ").value();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seq);
    if (error != std::errc() || end != text.data() + text.size() || seq < 1)
        throw usageError("audit redact", fmt::format("'{}' is not the number of an event", text),
                         "`gradus audit query` shows the numbers");
    const bool gone = service.redact(seq, service.caller());
    const std::string_view rest =
        gone ? ""
             : "a program that is reading keeps it in the write-ahead log until the next redaction or checkpoint\n";
    return {.data = {{"redacted", seq}, {"gone_from_disk", gone}},
            .text = fmt::format("the text of event {} is gone; its hash stays in the chain\n{}", seq, rest),
            .next = {"gradus audit verify"}};
}

Result reanchor(Service& service, Context& /*context*/) {
    service.reanchor(service.caller());
    return {.text = "a new anchor starts at the end of the log; the log says so\n", .next = {"gradus audit verify"}};
}

std::vector<std::string_view> eventWords() {
    std::vector<std::string_view> words;
    words.reserve(kEventKinds.size());
    for (const auto& row : kEventKinds) words.push_back(row.word);
    return words;
}

}  // namespace

Json verdictJson(const AuditVerdict& verdict) {
    Json data{{"kind", nameOf(kTamperings, verdict.kind)},
              {"first_bad_seq", nullptr},
              {"detail", verdict.detail},
              {"events", verdict.events},
              {"payloads", verdict.payloads},
              {"redacted", verdict.redacted},
              {"signatures", verdict.signatures},
              {"signed_through", verdict.signedThrough},
              {"not_yet_anchored", verdict.notYetAnchored}};
    if (verdict.kind != Tampering::kNone) data["first_bad_seq"] = verdict.seq;
    return data;
}

std::vector<Verb> auditVerbs(const OpenService& open) {
    return {
        {.words = "audit query",
         .group = Group::kAnswer,
         .summary = "list what happened, newest last",
         .examples = {{"gradus audit query --since 2d", "the last two days"},
                      {"gradus audit query --change c12", "everything about one change"},
                      {"gradus audit query --stage production --event promotion.moved", "what production went through"},
                      {"gradus audit query --follow --ndjson", "new events as they come, for programs"}},
         .options = {{.name = "since", .value = "TIME", .doc = "from then on: an age (2d, 90m) or RFC 3339"},
                     {.name = "until", .value = "TIME", .doc = "before then"},
                     {.name = "actor", .value = "NAME", .doc = "only what this one did"},
                     {.name = "event", .value = "KIND", .doc = "only events of this kind", .choices = eventWords()},
                     {.name = "stage", .value = "STAGE", .doc = "only this stage"},
                     {.name = "change", .value = "CHANGE", .doc = "only this change, such as c12"},
                     {.name = "project", .value = "DIR", .doc = "only the project in this directory"},
                     {.name = "limit", .value = "N", .doc = "the newest so many", .letter = 'n', .fallback = "100"},
                     {.name = "follow", .doc = "go on with new events until interrupted", .letter = 'f'},
                     {.name = "ndjson", .doc = "one JSON object per line instead of a table"}},
         .onFrontPage = true,
         .handler = withService(open, query)},
        {.words = "audit verify",
         .group = Group::kAnswer,
         .summary = "prove that the audit log was not edited",
         .examples = {{"gradus audit verify", "walk the whole log; exit 1 names what was done to it"},
                      {"gradus audit verify --json", "the kind and the first bad event, for programs"},
                      {"gradus audit verify --export log.ndjson", "a file that `audit export` wrote, without a log"}},
         .options = {{.name = "export", .value = "FILE", .doc = "verify this file instead of the log"},
                     {.name = "public-key", .value = "KEY", .doc = "with it: only signatures of this key count"},
                     {.name = "anchor", .value = "FILE", .doc = "with it: a copy of the anchor kept elsewhere"}},
         .onFrontPage = true,
         .handler = withService(open, verify)},
        {.words = "audit redact",
         .group = Group::kAnswer,
         .summary = "take one event's free text away, on the record",
         .examples = {{"gradus audit redact 57", "titles, names and paths of event 57 go; its hash stays"}},
         .positionals = {{"SEQ", "the event's number"}},
         .handler = withService(open, redact)},
        {.words = "audit reanchor",
         .group = Group::kAnswer,
         .summary = "start a new anchor after the old one was lost",
         .examples = {{"gradus audit reanchor", "the log itself records that this was done"}},
         .handler = withService(open, reanchor)},
    };
}

}  // namespace gradus
