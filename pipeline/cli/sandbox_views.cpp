#include "pipeline/cli/sandbox_views.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <set>

#include "pipeline/cli/counted.h"
#include "policies/language/duration.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr int kShellsSignalBase = 128;

struct KindFace {
    ChangeKind kind;
    char letter;
    Style style;
};
constexpr std::array kKindFaces{
    KindFace{ChangeKind::kAdded, 'A', Style::kGreen},        KindFace{ChangeKind::kModified, 'M', Style::kYellow},
    KindFace{ChangeKind::kDeleted, 'D', Style::kRed},        KindFace{ChangeKind::kModeChanged, 'm', Style::kYellow},
    KindFace{ChangeKind::kTypeChanged, 'T', Style::kYellow},
};

const KindFace& faceOf(ChangeKind kind) {
    return *std::find_if(kKindFaces.begin(), kKindFaces.end(), [&](const KindFace& row) { return row.kind == kind; });
}

Json orNull(const auto& value) { return value ? Json(*value) : Json(); }

Json entryJson(const std::optional<Entry>& entry) {
    if (!entry) return nullptr;
    Json json{{"type", nameOf(kEntryTypes, entry->type)}, {"mode", fmt::format("{:04o}", entry->mode)}};
    if (entry->type != EntryType::kDirectory) {
        // Of what is thrown away, contents are not read.
        if (entry->digest != Digest{}) json["digest"] = entry->digest.hex();
        json["size"] = entry->size;
    }
    return json;
}

Json beforeJson(const PathChange& change) {
    return change.beforeKnown ? entryJson(change.before) : Json{{"unknown", true}};
}

Json limitsJson(const std::vector<LimitReport>& limits) {
    Json all = Json::array();
    for (const LimitReport& limit : limits)
        all.push_back({{"name", limitName(limit.name)},
                       {"value", limit.value},
                       {"enforced_by", enforcerName(limit.enforcedBy)},
                       {"peak", orNull(limit.peak)},
                       {"tripped", limit.tripped}});
    return all;
}

Json namesJson(const std::vector<Guarantee>& guarantees) {
    Json all = Json::array();
    for (const Guarantee guarantee : guarantees) all.push_back(guaranteeName(guarantee));
    return all;
}

Json servicesJson(const std::vector<ServiceReport>& services) {
    Json all = Json::array();
    for (const ServiceReport& service : services)
        all.push_back({{"name", service.name},
                       {"ready", service.ready},
                       {"ready_ms", service.readyMillis},
                       {"ended_early", service.endedEarly},
                       {"status", orNull(service.status)},
                       {"forced", service.forced},
                       {"log", service.log},
                       {"log_bytes", service.logBytes}});
    return all;
}

std::string limitText(const LimitReport& limit) {
    const bool bytes = limit.name == LimitName::kMemory || limit.name == LimitName::kDisk ||
                       limit.name == LimitName::kOutput || limit.name == LimitName::kFileSize;
    const bool time = limit.name == LimitName::kWallTime || limit.name == LimitName::kCpuTime;
    const std::string value = bytes  ? humanSize(limit.value)
                              : time ? formatDuration(Milliseconds(limit.value))
                                     : std::to_string(limit.value);
    return fmt::format("{} {}", limitName(limit.name), value);
}

std::string trippedText(const std::vector<LimitReport>& limits) {
    std::string text;
    for (const LimitReport& limit : limits)
        if (limit.tripped) text += (text.empty() ? "" : ", ") + limitText(limit);
    return text.empty() ? "a limit" : text;
}

// The first few, and how many more.
std::string listed(const std::vector<std::string>& names, std::uint64_t count) {
    constexpr std::size_t kShown = 3;
    std::string text;
    std::set<std::string> shown;
    for (const std::string& name : names)
        if (shown.size() < kShown && shown.insert(name).second) text += (text.empty() ? "" : ", ") + printable(name);
    if (text.empty()) return std::to_string(count);
    return count > shown.size() ? fmt::format("{} and {} more", text, count - shown.size()) : text;
}

std::string destinationText(const std::string& host, std::uint16_t port) {
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

}  // namespace

std::string humanSize(std::uintmax_t bytes) {
    double value = static_cast<double>(bytes);
    for (const char* unit : {"B", "KiB", "MiB", "GiB"}) {
        if (value < 1024) return fmt::format("{:.{}f} {}", value, unit == std::string_view("B") ? 0 : 1, unit);
        value /= 1024;
    }
    return fmt::format("{:.1f} TiB", value);
}

namespace {

Json networkJson(const Execution& run) {
    Json json{{"kind", run.network ? Json(nameOf(kExecutionNetworks, *run.network)) : Json()}};
    if (!run.destinations.empty()) json["allow"] = run.destinations;
    return json;
}

}  // namespace

std::string sideEffectsText(const SideEffects& effects) {
    std::vector<std::string> parts;
    if (const auto count = effects.outsideWrites.size() + effects.moreOutsideWrites; count > 0)
        parts.push_back(fmt::format("wrote {} outside of the project, gone with the sandbox",
                                    listed(effects.outsideWrites, count)));
    if (effects.leftoverCount > 0)
        parts.push_back(
            fmt::format("left {} running, now ended", listed(effects.leftoverProcesses, effects.leftoverCount)));
    std::vector<std::string> names;
    for (const AllowedConnection& one : effects.networkAllowed)
        if (one.connections > 0) names.push_back(destinationText(one.host, one.port));
    if (!names.empty()) parts.push_back("connected to " + listed(names, names.size()));
    names.clear();
    for (const AllowedConnection& one : effects.networkAllowed)
        if (one.connections == 0) names.push_back(destinationText(one.host, one.port));
    if (!names.empty()) parts.push_back("could not reach " + listed(names, names.size()));
    names.clear();
    for (const RefusedConnection& one : effects.networkDenied)
        names.push_back(destinationText(one.host, one.port) +
                        (one.reason == "not-allowed" ? std::string() : " (" + one.reason + ")"));
    if (!names.empty())
        parts.push_back("was refused " + listed(names, names.size() + (effects.moreDenied > 0 ? 1 : 0)));
    names.clear();
    for (const RefusedCall& one : effects.syscallsDenied) names.push_back(one.name);
    if (!names.empty()) parts.push_back(fmt::format("was refused the calls {}", listed(names, names.size())));
    return fmt::format("{}", fmt::join(parts, "; "));
}

Json recordJson(const Execution& run) {
    return {{"id", executionHandle(run.id)},
            {"state", nameOf(kExecutionStates, run.state)},
            {"command", run.arguments},
            {"backend", run.backend},
            {"guarantees", namesJson(run.guarantees)},
            {"without", namesJson(run.without)},
            {"verdict", run.verdict ? Json(verdictName(*run.verdict)) : Json()},
            {"exit_code", orNull(run.exitCode)},
            {"started_at", formatTime(run.startedAt)},
            {"wall_ms", run.wallMillis},
            {"network", networkJson(run)},
            {"side_effects", Json::parse(formatSideEffects(run.sideEffects))}};
}

Json executionJson(const ExecutionReport& report) {
    const Execution& run = report.execution;
    Json json{{"id", executionHandle(run.id)},
              {"sandbox", sandboxHandle(run.sandbox)},
              {"backend", run.backend},
              {"guarantees", namesJson(run.guarantees)},
              {"without", namesJson(run.without)},
              {"verdict", run.verdict ? Json(verdictName(*run.verdict)) : Json()},
              {"success", run.success()},
              {"exit_code", orNull(run.exitCode)},
              {"signal", orNull(run.signal)},
              {"stdout", report.out.text()},
              {"stderr", report.err.text()},
              {"stdout_bytes", run.outBytes},
              {"stderr_bytes", run.errBytes},
              {"truncated", run.truncated},
              {"started_at", formatTime(run.startedAt)},
              {"wall_ms", run.wallMillis},
              {"cpu_ms", run.cpuMillis},
              {"peak_memory_bytes", orNull(run.peakMemoryBytes)},
              {"limits", limitsJson(run.limits)},
              {"network", networkJson(run)},
              {"side_effects", Json::parse(formatSideEffects(run.sideEffects))},
              {"left_behind", report.leftBehind}};
    if (report.failure) json["failure"] = report.failure->text();
    if (!report.services.empty()) json["services"] = servicesJson(report.services);
    return json;
}

namespace {

Json systemJson(const SystemChanges& system) {
    Json below = Json::object();
    for (const auto& [top, count] : system.below) below[top] = count;
    Json paths = Json::array();
    for (const SystemChange& change : system.listed)
        paths.push_back({{"path", change.path}, {"kind", nameOf(kChangeKinds, change.kind)}});
    return {{"entries", system.entries},
            {"below", std::move(below)},
            {"paths", std::move(paths)},
            {"more", system.entries > system.listed.size()}};
}

// "system: 95 entries below /usr, /var"
std::string systemText(const SystemChanges& system) {
    if (system.entries == 0) return "";
    std::string tops;
    for (const auto& [top, count] : system.below) tops += (tops.empty() ? "" : ", ") + printable(top);
    return fmt::format("system: {} below {}; not part of the change\n",
                       system.entries == 1 ? "1 entry" : fmt::format("{} entries", system.entries), tops);
}

}  // namespace

bool isUntouched(const Harvest& harvest) {
    return harvest.changes.empty() && harvest.ignored == 0 && harvest.refused.empty() && harvest.inRepository == 0 &&
           (!harvest.system || harvest.system->entries == 0);
}

void addChanges(Json& data, const Harvest& harvest) {
    Json changes = Json::array();
    for (const PathChange& change : harvest.changes.changes())
        changes.push_back({{"path", change.path},
                           {"kind", nameOf(kChangeKinds, kindOf(change))},
                           {"before", beforeJson(change)},
                           {"after", entryJson(change.after)}});
    Json refused = Json::array();
    for (const Unharvested& item : harvest.refused) refused.push_back({{"path", item.path}, {"reason", item.reason}});
    data["changes"] = std::move(changes);
    data["ignored"] = harvest.ignored;
    data["in_repository"] = harvest.inRepository;
    data["base_moved"] = harvest.baseMoved;
    data["refused"] = std::move(refused);
    if (harvest.system) data["system"] = systemJson(*harvest.system);
}

Json sandboxJson(const SandboxRecord& record) {
    return {{"id", sandboxHandle(record.id)},
            {"name", orNull(record.name)},
            {"kind", nameOf(kSandboxKinds, record.kind)},
            {"commit", orNull(record.commit)},
            {"base", record.system ? "system" : "project"},
            {"forked_from", record.forkedFrom ? Json(sandboxHandle(*record.forkedFrom)) : Json()},
            {"created_at", formatTime(record.createdAt)},
            {"used_at", formatTime(record.usedAt)},
            {"expires_at", record.kind == SandboxKind::kKept ? Json(formatTime(record.expiresAt())) : Json()}};
}

std::string changesText(const Harvest& harvest, const Paint& paint, std::size_t most) {
    const auto& changes = harvest.changes.changes();
    std::map<ChangeKind, std::size_t> counts;
    for (const PathChange& change : changes) ++counts[kindOf(change)];
    std::string text = changes.empty() ? "no changes" : counted(changes.size(), "change") + ":";
    for (const auto& [kind, count] : counts)
        text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", count, nameOf(kChangeKinds, kind));
    if (harvest.ignored > 0) text += fmt::format("; {} that git ignores", counted(harvest.ignored, "file"));
    text += "\n";
    for (std::size_t i = 0; i < std::min(most, changes.size()); ++i) {
        const KindFace& face = faceOf(kindOf(changes[i]));
        text += fmt::format("  {} {}{}\n", paint(face.style, std::string(1, face.letter)), printable(changes[i].path),
                            changes[i].beforeKnown ? "" : "  (changed outside meanwhile)");
    }
    if (changes.size() > most) text += fmt::format("  … and {} more\n", changes.size() - most);
    for (const Unharvested& item : harvest.refused)
        text += fmt::format("  {} {}  ({})\n", paint(Style::kRed, "!"), printable(item.path), printable(item.reason));
    if (harvest.system) text += systemText(*harvest.system);
    if (harvest.inRepository > 0)
        text += fmt::format("the repository itself changed (.git: {}); that is not part of the change\n",
                            counted(harvest.inRepository, "file"));
    return text;
}

std::string verdictText(const ExecutionReport& report) {
    const Execution& run = report.execution;
    const std::string after = fmt::format("after {}", formatDuration(Milliseconds(run.wallMillis)));
    switch (run.verdict.value_or(Verdict::kSetupFailed)) {
        case Verdict::kOk:
        case Verdict::kFailed:
            return {};
        case Verdict::kTimeout:
            return fmt::format("timeout {}", after);
        case Verdict::kOom:
            return fmt::format("out of memory {}: {}", after, trippedText(run.limits));
        case Verdict::kKilled:
            return fmt::format("killed by {} {}", run.signal ? ::strsignal(*run.signal) : "the caller", after);
        case Verdict::kLimit:
            return fmt::format("stopped {}: {} reached", after, trippedText(run.limits));
        case Verdict::kSetupFailed:
            if (exitOf(report) == Exit::kNoSuchCommand && report.failure->detail.find('/') == std::string::npos)
                return fmt::format("{} is in no directory of PATH, as the sandbox shows them", report.failure->detail);
            return fmt::format("the command could not be started: {}", report.failure && !report.failure->text().empty()
                                                                           ? report.failure->text()
                                                                           : "the sandbox ended before it began");
    }
    return {};
}

Exit exitOf(const ExecutionReport& report) {
    const Execution& run = report.execution;
    switch (run.verdict.value_or(Verdict::kSetupFailed)) {
        case Verdict::kTimeout:
            return Exit::kTimedOut;
        case Verdict::kSetupFailed: {
            if (!report.failure || report.failure->step != "exec") return Exit::kSetupFailed;
            return report.failure->error == ENOENT ? Exit::kNoSuchCommand : Exit::kNotExecutable;
        }
        default:
            // A command may end well although something of it was killed: that is no success.
            if (run.exitCode && (*run.exitCode != 0 || run.verdict == Verdict::kOk))
                return passedThrough(*run.exitCode);
            return passedThrough(kShellsSignalBase + run.signal.value_or(SIGKILL));
    }
}

}  // namespace gradus
