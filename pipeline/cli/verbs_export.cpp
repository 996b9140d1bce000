#include <fmt/format.h>

#include "pipeline/cli/counted.h"
#include "pipeline/cli/export_view.h"
#include "pipeline/cli/period.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/service/export_wish.h"
#include "store/export_verify.h"
#include "store/model/handle.h"
#include "store/model/hex.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kKeySize = 32;

ExportWitness witnessFrom(const Context& context) {
    ExportWitness witness;
    if (const auto key = context.arguments.value("public-key")) {
        witness.publicKey = fromHex(*key);
        if (!witness.publicKey || witness.publicKey->size() != kKeySize)
            throw usageError("audit verify", "--public-key takes 64 lower-case hexadecimal digits",
                             "`gradus audit query --event log.started --json` shows the log's own");
    }
    if (const auto path = context.arguments.value("anchor")) {
        witness.anchor = FileAnchor(*path).read();
        if (!witness.anchor)
            throw Error(ErrorCode::kNotFound, "there is no anchor at {}", *path).hint("name a copy of the anchor file");
    }
    return witness;
}

Json headerJson(const ExportHeader& header) {
    return {{"store", header.store},
            {"first", header.first},
            {"last", header.last},
            {"public_keys", header.publicKeys},
            {"exported_at", formatTime(header.at)}};
}

std::string vouchedText(const ExportVerdict& verdict) {
    const std::int64_t last = verdict.header.last;
    if (verdict.audit.signedThrough == last) return "    a signature covers all of it\n";
    std::string text =
        verdict.audit.signedThrough == 0
            ? std::string("    no signature covers any of it")
            : fmt::format("    no signature covers what comes after event {}", verdict.audit.signedThrough);
    return text +
           fmt::format("; the anchor in it {}\n", verdict.anchoredThrough == last ? "fits" : "does not reach the end");
}

std::string goodText(const ExportVerdict& verdict, const Paint& paint) {
    std::string text = fmt::format("{}  {} to {}: {}, {} ({} redacted, {} withheld), {}\n", paint(Style::kGreen, "ok"),
                                   verdict.header.first, verdict.header.last, counted(verdict.audit.events, "event"),
                                   counted(verdict.audit.payloads, "payload"), verdict.audit.redacted, verdict.withheld,
                                   counted(verdict.audit.signatures, "signature"));
    if (verdict.redactedElsewhere > 0)
        text += fmt::format("    {} taken away by events after the last one here: only the file says so\n",
                            counted(verdict.redactedElsewhere, "payload"));
    return text + vouchedText(verdict);
}

ExportWish wishFrom(const Context& context) {
    const Period period = periodFrom(context, "audit export");
    ExportWish wish;
    wish.request.query.since = period.since;
    wish.request.query.until = period.until;
    wish.request.query.stage = context.arguments.value("stage");
    wish.request.change = context.arguments.value("change");
    wish.file = context.host.directory() / context.arguments.positional("FILE").value();
    return wish;
}

Result exportLog(Service& service, Context& context) {
    const ExportWish wish = wishFrom(context);
    const AuditExport report = service.exportAudit(wish, progressLine(context, "exported"));
    Json data = headerJson(report.header);
    data["file"] = wish.file.native();
    data["events"] = report.events;
    data["payloads"] = report.payloads;
    data["redacted"] = report.redacted;
    data["withheld"] = report.withheld;
    data["bytes"] = report.bytes;
    const std::string name = context.arguments.positional("FILE").value();
    return {.data = std::move(data),
            .text = fmt::format("exported {} ({} to {}) with {} to {}\n", counted(report.events, "event"),
                                report.header.first, report.header.last, counted(report.payloads, "payload"),
                                printable(name)),
            .next = {"gradus audit verify --export " + name}};
}

}  // namespace

VerifyProgress progressLine(Context& context, std::string_view done) {
    if (!context.host.terminal().errIsTerminal || context.json) return {};
    return [&context, done](std::int64_t count, std::int64_t total) {
        context.progress.text(fmt::format("{} {} of {} events", done, count, total));
    };
}

Result verifyExportFile(Context& context, const std::string& file) {
    const ExportVerdict verdict =
        verifyExport(context.host.directory() / file, witnessFrom(context), progressLine(context, "verified"));
    Result result{.data = verdictJson(verdict.audit)};
    result.data.erase("not_yet_anchored");
    result.data["withheld"] = verdict.withheld;
    result.data["redacted_elsewhere"] = verdict.redactedElsewhere;
    result.data["anchored_through"] = verdict.anchoredThrough;
    result.data["export"] = headerJson(verdict.header);
    if (verdict.audit.kind == Tampering::kNone) {
        result.text = goodText(verdict, context.paint);
        return result;
    }
    const std::string_view kind = nameOf(kTamperings, verdict.audit.kind);
    result.exit = Exit::kFailed;
    result.problem = Problem{
        std::string(kind),
        fmt::format("the export is not whole: {} at event {}: {}", kind, verdict.audit.seq, verdict.audit.detail),
        "keep the file as it is for whoever investigates, and ask for another one"};
    return result;
}

std::vector<Verb> exportVerbs(const OpenService& open) {
    return {{.words = "audit export",
             .group = Group::kAnswer,
             .summary = "write events to a file that proves itself",
             .examples = {{"gradus audit export log.ndjson", "everything"},
                          {"gradus audit export march.ndjson --since 31d", "a month of it"},
                          {"gradus audit export c12.ndjson --change c12", "with the texts of one change alone"}},
             .positionals = {{"FILE", "a new file"}},
             .options = {{.name = "since", .value = "TIME", .doc = "from then on: an age (2d, 90m) or RFC 3339"},
                         {.name = "until", .value = "TIME", .doc = "before then"},
                         {.name = "change", .value = "CHANGE", .doc = "texts of this change only, such as c12"},
                         {.name = "stage", .value = "STAGE", .doc = "texts of this stage only"}},
             .handler = withService(open, exportLog)}};
}

}  // namespace gradus
