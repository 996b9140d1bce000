// What all commands share, whatever they run in: the request as a command, its record, its report.

#include "stages/sandbox/sandbox_run.h"

#include <fcntl.h>
#include <unistd.h>

#include "stages/sandbox/clone_mounts.h"
#include "stages/sandbox/clone_view.h"
#include "stages/sandbox/proofs.h"
#include "stages/sandbox/system_changes.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::optional<Digest> storeText(Objects& objects, const CapturedStream& stream) {
    if (stream.bytes == 0) return std::nullopt;
    return objects.put(stream.text());
}

// The command has run and its output was shown: a disk that cannot take it is no reason to lose how it ended.
void storeOutput(const Sandboxes::Surroundings& around, ExecutionReport& report) {
    if (report.out.bytes + report.err.bytes == 0) return;
    try {
        Objects objects(around.state.objects(), around.clock);
        report.execution.out = storeText(objects, report.out);
        report.execution.err = storeText(objects, report.err);
    } catch (const Error& e) {
        report.notes.push_back(fmt::format("the output is not on record: {}", e.what()));
    }
}

}  // namespace

void notePlan(const CommandRequest& command, const CloneRequest& request, const ClonePlan& plan,
              ExecutionReport& report) {
    report.home = plan.home;
    report.notes.insert(report.notes.end(), plan.notes.begin(), plan.notes.end());
    report.notes.insert(report.notes.end(), command.remarks.begin(), command.remarks.end());
    if (command.arguments.empty()) return;
    if (auto line = resolvesDifferently(plan, request, command.arguments.front()))
        report.notes.push_back(std::move(*line));
}

ExecutionNetwork networkOf(const CommandRequest& request) {
    if (request.network.host) return ExecutionNetwork::kHost;
    return request.network.isByName() ? ExecutionNetwork::kByName : ExecutionNetwork::kNone;
}

std::vector<std::string> destinationsOf(const CommandRequest& request) {
    std::vector<std::string> all;
    for (const Destination& destination : request.network.destinations) all.push_back(formatDestination(destination));
    return all;
}

std::vector<std::pair<std::size_t, fs::path>> repositoriesIn(const ClonePlan& plan) {
    std::vector<std::pair<std::size_t, fs::path>> found;
    for (const std::size_t part : plan.alsoKept) {
        const fs::path& base = plan.workspace.overlays.at(part).lowers.back();
        if (::access((base / "HEAD").c_str(), F_OK) == 0 && ::access((base / "objects").c_str(), F_OK) == 0)
            found.emplace_back(part, base);
    }
    return found;
}

SystemChanges systemChangesIn(const ClonePlan& plan, const std::function<std::vector<int>(std::size_t)>& layers,
                              const HarvestOptions& options) {
    std::vector<SystemSource> sources;
    for (const std::size_t overlay : plan.system)
        sources.push_back({layers(overlay), plan.workspace.overlays.at(overlay).target});
    return systemChanges(sources, plan.workspace.seeds, [&] { goOnHarvesting(options); });
}

Command commandFrom(const CommandRequest& request, const ClonePlan& plan, std::int64_t sandbox) {
    Command command;
    command.arguments = request.arguments;
    command.environment = plan.environment;
    // What runs inside can tell where it is.
    std::erase_if(command.environment, [](const std::string& word) { return word.starts_with("GRADUS_SANDBOX="); });
    command.environment.push_back(fmt::format("GRADUS_SANDBOX=s{}", sandbox));
    command.directory = plan.directory;
    command.input = request.input;
    command.inputFrom = request.inputFrom;
    command.terminal = request.terminal;
    command.keepOut = request.keepOut;
    command.keepErr = request.keepErr;
    command.live = request.live;
    command.grace = request.grace;
    command.cancel = request.cancel;
    return command;
}

CloneRequest Sandboxes::Inside::cloneRequest(const fs::path& project, const CommandRequest& command) const {
    CloneRequest request;
    request.project = project;
    request.directory = command.directory.empty() ? project : command.directory;
    request.environment = around.environment;
    request.passed = command.passed;
    request.hide = command.hide;
    request.hiddenPaths = command.hiddenPaths;
    request.show = command.show;
    request.hiddenPaths.push_back(around.state.root);
    request.system = command.system;
    return request;
}

// Memory is what holds a size that is insisted on; what it cannot do then is in a note of the plan.
bool Sandboxes::Inside::writesToDisk(const Limits& limits) const {
    const std::optional<Limit>& disk = limits[LimitName::kDisk];
    if (disk && disk->required) return false;
    const fs::path& state = around.state.root;
    return around.onDisk.value_or(!memoryHoldsLayers() && takesUserAttributes(state) && !unfitAsUpper(state));
}

ExecutionReport Sandboxes::Inside::reportOf(Outcome outcome, const Confiner& confiner, const CommandRequest& request,
                                            std::int64_t id, std::int64_t sandbox) {
    ExecutionReport report;
    Execution& execution = report.execution;
    execution = notRun(confiner, request, id, sandbox);
    execution.guarantees = held(confiner.proofs, request, outcome);
    execution.verdict = outcome.verdict;
    execution.exitCode = outcome.exitCode;
    execution.signal = outcome.signal;
    execution.outBytes = outcome.out.bytes;
    execution.errBytes = outcome.err.bytes;
    execution.truncated = outcome.out.truncated || outcome.err.truncated;
    execution.startedAt = outcome.startedAt;
    execution.wallMillis = outcome.wallMillis;
    execution.cpuMillis = outcome.cpuMillis;
    execution.peakMemoryBytes = outcome.peakMemoryBytes;
    execution.limits = std::move(outcome.limits);
    report.out = std::move(outcome.out);
    report.err = std::move(outcome.err);
    report.failure = std::move(outcome.failure);
    report.leftBehind = outcome.leftBehind;
    execution.sideEffects = std::move(outcome.sideEffects);
    report.backendVersion = confiner.proofs.version;
    storeOutput(around, report);
    return report;
}

Execution Sandboxes::Inside::notRun(const Confiner& confiner, const CommandRequest& request, std::int64_t id,
                                    std::int64_t sandbox) {
    Execution execution;
    execution.id = id;
    execution.sandbox = sandbox;
    execution.state = ExecutionState::kFinished;
    execution.backend = confiner.backend.name();
    execution.without = lowered(request);
    execution.verdict = Verdict::kSetupFailed;
    execution.startedAt = around.clock.now();
    execution.arguments = request.arguments;
    execution.network = networkOf(request);
    execution.destinations = destinationsOf(request);
    return execution;
}

ExecutionDraft draftOf(const Confiner& confiner, const ProcessIdentity& me, const CommandRequest& request,
                       const ClonePlan& plan, std::int64_t sandbox) {
    return {sandbox,
            me,
            std::string(confiner.backend.name()),
            lowered(request),
            request.arguments,
            plan.directory,
            networkOf(request),
            destinationsOf(request),
            request.reads};
}

Parts partsOf(const ClonePlan& plan, const ServicesAround& services) {
    Parts parts;
    for (const std::size_t index : plan.alsoKept) parts.emplace_back(index, plan.workspace.overlays.at(index).target);
    parts.insert(parts.end(), services.parts().begin(), services.parts().end());
    return parts;
}

void useDisk(const Layers& layers, std::int64_t layer, const fs::path& part, Overlay& overlay) {
    layers.makePart(layer, part, openFile(overlay.lowers.front(), O_RDONLY | O_DIRECTORY));
    const fs::path own = layers.part(layer, part);
    overlay.upper = own / "upper";
    overlay.work = own / "work";
}

void useDisk(const Layers& layers, std::int64_t layer, const Parts& parts, Workspace& workspace) {
    for (const auto& [index, name] : parts) useDisk(layers, layer, name, workspace.overlays.at(index));
}

void standOn(const StandingBase& base, CloneRequest& clone) {
    clone.lowers.insert(clone.lowers.end(), base.lowers.begin(), base.lowers.end());
    clone.lowersHaveGit = base.hasGit;
}

}  // namespace gradus
