#include <fmt/format.h>

#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/cli/verbs.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kLinesShown = 20;

struct VerdictFace {
    Cause verdict;
    Style style;
};
constexpr std::array kVerdictFaces{VerdictFace{Cause::kPassed, Style::kGreen}, VerdictFace{Cause::kFailed, Style::kRed},
                                   VerdictFace{Cause::kErrored, Style::kYellow},
                                   VerdictFace{Cause::kTimedOut, Style::kRed},
                                   VerdictFace{Cause::kCancelled, Style::kYellow}};

Style styleOf(Cause verdict) {
    for (const VerdictFace& face : kVerdictFaces)
        if (face.verdict == verdict) return face.style;
    return Style::kPlain;
}

/// "passed    unit  1.2s", and the reason where it is no.
std::string reportLine(const CheckReport& report, const Paint& paint) {
    const std::string_view word = nameOf(kCauses, report.answer.verdict);
    std::string line = fmt::format("{}{:<{}} {}  {:.1f}s", paint(styleOf(report.answer.verdict), word), "",
                                   9 - std::min<std::size_t>(word.size(), 9), printable(report.check),
                                   static_cast<double>(report.answer.wallMs) / 1000);
    if (report.answer.verdict != Cause::kPassed) line += "  " + printable(report.answer.reason);
    if (report.attempts > 1) line += fmt::format("  ({} attempts)", report.attempts);
    return line;
}

/// The end of what a check printed, indented.
std::string lastLines(const std::string& log) {
    std::size_t start = log.size();
    for (std::size_t lines = 0; start > 0 && lines <= kLinesShown; ++lines)
        start = start < 2 ? 0 : log.rfind('\n', start - 2) + 1;
    std::string text;
    for (; start < log.size();) {
        const std::size_t end = std::min(log.find('\n', start), log.size());
        text += "    " + printable(log.substr(start, end - start)) + "\n";
        start = end + 1;
    }
    return text;
}

Json reportJson(const CheckReport& report) {
    Json json{{"name", report.check},           {"verdict", nameOf(kCauses, report.answer.verdict)},
              {"reason", report.answer.reason}, {"wall_ms", report.answer.wallMs},
              {"attempts", report.attempts},    {"evidence", report.fingerprint().hex()}};
    if (report.answer.exitCode) json["exit_code"] = *report.answer.exitCode;
    if (report.answer.execution) json["execution"] = executionHandle(*report.answer.execution);
    if (report.log) json["log"] = report.log->hex();
    json["kept"] = report.answer.isKept;
    return json;
}

struct Ending {
    Cause verdict;
    Exit exit;
    std::string_view code;
    std::string_view message;
};
constexpr std::array kEndings{
    Ending{Cause::kFailed, Exit::kFailed, "failed", "a check said no"},
    Ending{Cause::kCancelled, Exit::kInterrupted, "cancelled", "cancelled before the checks were through"},
    Ending{Cause::kTimedOut, Exit::kFailed, "timed-out", "a check took longer than it may"},
    Ending{Cause::kErrored, Exit::kInfrastructure, "errored", "a check could not judge"},
};

void judge(const CheckSummary& summary, int signal, Result& result) {
    const Cause verdict = verdictOf(summary.reports);
    for (const Ending& ending : kEndings) {
        if (ending.verdict != verdict) continue;
        result.exit = signal != 0 ? passedThrough(128 + signal) : ending.exit;
        result.problem = Problem{std::string(ending.code), std::string(ending.message), "nothing was touched",
                                 verdict == Cause::kErrored};
    }
}

std::string summaryText(const CheckSummary& summary, const Paint& paint) {
    if (summary.reports.empty() && summary.notRun.empty())
        return fmt::format("stage {} has no checks that run before\n", printable(summary.stage));
    std::string text;
    for (const CheckReport& report : summary.reports) {
        if (report.answer.verdict == Cause::kPassed) continue;
        text += fmt::format("{}: {}\n{}", printable(report.check), printable(report.answer.reason),
                            lastLines(report.answer.log));
    }
    for (const std::string& name : summary.notRun)
        text += fmt::format("{} {}\n", paint(Style::kDim, "not run"), printable(name));
    if (verdictOf(summary.reports) == Cause::kPassed)
        text += fmt::format("{} passed on {} for stage {}\n", counted(summary.reports.size(), "check"),
                            printable(summary.subject), printable(summary.stage));
    return text;
}

Result check(Service& service, Context& context) {
    Interrupt interrupt;
    CheckWish wish;
    wish.stage = context.arguments.positional("STAGE");
    wish.on = context.arguments.value("on");
    wish.cancel = interrupt.token();
    const bool isLive = !context.json && context.host.terminal().errIsTerminal;
    if (isLive)
        wish.progress.started = [&](const Check& one) {
            context.progress.text(fmt::format("{} {}", context.progress.paint()(Style::kDim, "running  "), one.name));
        };
    if (!context.json)
        wish.progress.finished = [&](const CheckReport& report) {
            context.progress.text(reportLine(report, context.progress.paint()));
        };
    const CheckSummary summary = service.check(context.host.directory(), wish);
    Result result;
    Json checks = Json::array();
    for (const CheckReport& report : summary.reports) checks.push_back(reportJson(report));
    result.data = {{"stage", summary.stage},
                   {"on", summary.subject},
                   {"verdict", nameOf(kCauses, verdictOf(summary.reports))},
                   {"checks", std::move(checks)},
                   {"not_run", summary.notRun}};
    result.text = summaryText(summary, context.paint);
    judge(summary, interrupt.signal(), result);
    for (const CheckReport& report : summary.reports)
        if (report.answer.isKept) result.next.push_back("gradus reopen " + executionHandle(*report.answer.execution));
    return result;
}

}  // namespace

std::vector<Verb> checkVerbs(const OpenService& open) {
    return {{.words = "check",
             .group = Group::kPromote,
             .summary = "run a stage's checks and promote nothing",
             .examples = {{"gradus check", "the first stage's checks on the files as they are"},
                          {"gradus check production --on s3", "would what sandbox s3 changed pass there?"}},
             .positionals = {{"STAGE", "whose checks and demands count; the first one if left out", false}},
             .options = {{.name = "on", .value = "CHANGE|SANDBOX", .doc = "over the work tree with this applied"}},
             .onFrontPage = true,
             .handler = withService(open, check)}};
}

}  // namespace gradus
