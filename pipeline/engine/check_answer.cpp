#include "pipeline/engine/check_answer.h"

#include <sys/utsname.h>

#include <csignal>

#include "policies/language/duration.h"
#include "policies/language/size.h"
#include "store/model/canonical.h"
#include "store/model/error.h"

namespace gradus {

namespace {

std::string kernel() {
    utsname name{};
    ::uname(&name);
    return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::string logOf(const CapturedStream& out, const CapturedStream& err) {
    std::string text = out.text();
    if (err.bytes == 0) return text;
    if (!text.empty()) text += text.back() == '\n' ? "--- stderr ---\n" : "\n--- stderr ---\n";
    return text + err.text();
}

std::string limitText(const LimitReport& limit) {
    const auto number = static_cast<std::int64_t>(limit.value);
    switch (limit.name) {
        case LimitName::kMemory:
        case LimitName::kDisk:
        case LimitName::kOutput:
        case LimitName::kFileSize:
            return formatSize(number);
        case LimitName::kWallTime:
        case LimitName::kCpuTime:
            return formatDuration(Milliseconds(number));
        default:
            return std::to_string(number);
    }
}

std::string trippedText(const std::vector<LimitReport>& limits) {
    std::string text;
    for (const LimitReport& limit : limits)
        if (limit.tripped)
            text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", limitName(limit.name), limitText(limit));
    return text.empty() ? "a limit" : text;
}

}  // namespace

std::string endingOf(const Execution& execution) {
    if (!execution.verdict && execution.state == ExecutionState::kRunning)
        return "it has not ended, as far as is known";
    if (!execution.verdict && execution.state == ExecutionState::kLost)
        return "nobody saw its end: what ran it was killed, and it with that";
    switch (execution.verdict.value_or(Verdict::kSetupFailed)) {
        case Verdict::kOk:
        case Verdict::kFailed:
            return fmt::format("exit code {}", execution.exitCode.value_or(0));
        case Verdict::kTimeout:
            return fmt::format("timed out: over its {}", trippedText(execution.limits));
        case Verdict::kOom:
            return fmt::format("out of memory: over its {}", trippedText(execution.limits));
        case Verdict::kLimit:
            return fmt::format("over its {}", trippedText(execution.limits));
        case Verdict::kKilled:
            return fmt::format("killed by signal {}", execution.signal.value_or(0));
        case Verdict::kSetupFailed:
            return "could not run";
    }
    return {};
}

namespace {

std::string reasonOf(const ExecutionReport& report) {
    if (report.execution.verdict.value_or(Verdict::kSetupFailed) != Verdict::kSetupFailed)
        return endingOf(report.execution);
    return "could not run: " + (report.failure ? report.failure->text() : std::string("the sandbox was lost"));
}

// A limit belongs to the check, so breaking it is a no. A SIGKILL that no limit explains came from outside (the
// machine's own memory, an administrator): that says nothing about the change.
Cause verdictOf(const Execution& execution, bool cancelled) {
    switch (execution.verdict.value_or(Verdict::kSetupFailed)) {
        case Verdict::kOk:
            return Cause::kPassed;
        case Verdict::kTimeout:
            return Cause::kTimedOut;
        case Verdict::kFailed:
        case Verdict::kOom:
        case Verdict::kLimit:
            return Cause::kFailed;
        case Verdict::kKilled:
            if (cancelled) return Cause::kCancelled;
            return execution.signal == SIGKILL ? Cause::kErrored : Cause::kFailed;
        case Verdict::kSetupFailed:
            return cancelled ? Cause::kCancelled : Cause::kErrored;
    }
    return Cause::kErrored;
}

Cause verdictOf(const HostOutcome& outcome) {
    if (!outcome.failure.empty()) return Cause::kErrored;
    if (outcome.cancelled) return Cause::kCancelled;
    if (outcome.timedOut) return Cause::kTimedOut;
    if (outcome.signal == SIGKILL) return Cause::kErrored;
    return outcome.succeeded() ? Cause::kPassed : Cause::kFailed;
}

void addSettings(Canonical& form, const Settings& settings) {
    form.list(settings.values().size());
    for (const auto& [key, value] : settings.values()) form.text(key).text(valueText(value));
}

std::string valueIn(const std::vector<std::string>& environment, const std::string& name) {
    for (const std::string& variable : environment)
        if (variable.starts_with(name + "=")) return variable;
    return name;
}

}  // namespace

CheckAnswer answerOf(const ExecutionReport& report, bool cancelled) {
    CheckAnswer answer;
    answer.verdict = verdictOf(report.execution, cancelled);
    answer.exitCode = report.execution.exitCode;
    answer.reason = answer.verdict == Cause::kCancelled ? "cancelled" : reasonOf(report);
    answer.log = logOf(report.out, report.err);
    answer.environment = Canonical("gradus.environment.1")
                             .text(kernel())
                             .text(report.execution.backend)
                             .text(report.backendVersion)
                             .text(formatGuarantees(report.execution.guarantees))
                             .hash();
    answer.execution = report.execution.id;
    answer.isKept = report.keptAs.has_value();
    return answer;
}

CheckAnswer answerOf(const HostOutcome& outcome) {
    CheckAnswer answer;
    answer.verdict = verdictOf(outcome);
    if (outcome.exitCode && !outcome.timedOut) answer.exitCode = *outcome.exitCode;
    answer.reason = outcome.text();
    answer.log = logOf(outcome.out, outcome.err);
    return answer;
}

CheckAnswer erroredBy(const std::exception& fault) {
    CheckAnswer answer;
    answer.verdict = Cause::kErrored;
    answer.reason = fault.what();
    const auto* const error = dynamic_cast<const Error*>(&fault);
    if (error != nullptr && !error->hint().empty()) answer.reason += "; " + error->hint();
    return answer;
}

namespace {

void addDefinition(Canonical& form, const Stage& stage, const Check& check) {
    form.text(check.kind);
    addSettings(form, check.settings);
    for (const Settings* demands : {&stage.settings, &stage.policy.settings})
        for (const char* key : {"requires", "limits"}) {
            const Value* value = demands->find(key);
            form.optionalText(value != nullptr ? std::optional(valueText(*value)) : std::nullopt);
        }
}

// Of variables that are passed in, the values.
void addPassed(Canonical& form, const Check& check, const std::vector<std::string>& environment) {
    const std::vector<std::string> passed = check.settings.list("env");
    form.list(passed.size());
    for (const std::string& name : passed) form.text(valueIn(environment, name));
}

}  // namespace

Digest checkDefinition(const Stage& stage, const Check& check) {
    Canonical form("gradus.definition.1");
    addDefinition(form, stage, check);
    return form.hash();
}

Digest checkDigest(const Stage& stage, const Check& check, const std::vector<std::string>& environment) {
    Canonical form("gradus.check.1");
    addDefinition(form, stage, check);
    addPassed(form, check, environment);
    return form.hash();
}

Digest buildDigest(const Check& check, const std::vector<std::string>& environment) {
    Canonical form("gradus.build.1");
    form.text(check.kind);
    addSettings(form, check.settings);
    addPassed(form, check, environment);
    return form.hash();
}

Digest hostEnvironmentDigest() { return Canonical("gradus.environment.1").text(kernel()).text("host").hash(); }

}  // namespace gradus
