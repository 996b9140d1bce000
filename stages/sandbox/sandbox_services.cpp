// Services beside a command: their data made ready, the program that keeps them added to the plan, their logs read.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stages/sandbox/layer_tree.h"
#include "stages/sandbox/layered_tree.h"
#include "stages/sandbox/proofs.h"
#include "stages/sandbox/sandboxes_inside.h"
#include "store/model/canonical.h"
#include "store/model/utf8.h"
#include "store/paths.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

// Making data again costs running its `prepare`, or copying.
constexpr Milliseconds kDataStays{std::int64_t{7} * 24 * 3600 * 1000};
constexpr int kSetupFailed = 125;
constexpr std::size_t kTailShown = 600;

fs::path targetOf(const ServiceRequest& service, const fs::path& project) {
    const fs::path target = (project / service.data).lexically_normal();
    return target.has_filename() ? target : target.parent_path();
}

void refuseBadTarget(const ServiceRequest& service, const fs::path& target, const fs::path& project,
                     const fs::path& state) {
    if (isWithin(project, target) || isWithin(target, state) || isWithin(state, target) ||
        isWithin(target, project / ".git"))
        throw Error(ErrorCode::kNotAllowed, "service '{}' cannot have its data at {}", service.name,
                    printable(target.native()))
            .hint("name a directory of its own: data = \"data\"");
}

void refuseMissing(const ServiceRequest& service, const fs::path& target) {
    if (fs::exists(fs::symlink_status(target))) return;
    throw Error(ErrorCode::kNotFound, "service '{}' is to start with the data at {}, which is not there", service.name,
                printable(target.native()))
        .hint("make that directory, or have the data made: prepare = [\"COMMAND\"]");
}

// What lies there is copied for the command to read: what `show` may not name, it may not either.
void refuseSecrets(const ServiceRequest& service, const fs::path& target, const CloneRequest& clone) {
    if (const auto reason = objectionTo(clone, target))
        throw Error(ErrorCode::kNotAllowed, "service '{}' cannot start with what lies at {}: {}", service.name,
                    printable(target.native()), *reason)
            .hint("name a directory of its own: data = \"data\"");
}

/// The program's file: another version makes other data.
std::string stampOfProgram(const std::string& word, const std::vector<std::string>& environment) {
    std::vector<fs::path> candidates;
    if (word.find('/') != std::string::npos) candidates.emplace_back(word);
    for (const std::string& variable : environment) {
        if (!variable.starts_with("PATH=") || !candidates.empty()) continue;
        for (std::size_t at = 5; at < variable.size();) {
            const std::size_t end = std::min(variable.find(':', at), variable.size());
            candidates.push_back(fs::path(variable.substr(at, end - at)) / word);
            at = end + 1;
        }
    }
    for (const fs::path& candidate : candidates) {
        struct stat info {};
        if (::stat(candidate.c_str(), &info) == 0)
            return fmt::format("{} {} {}", fs::weakly_canonical(candidate).native(), info.st_size, info.st_mtim.tv_sec);
    }
    return word;
}

/// Without what only says how a person looks at it.
std::vector<std::string> deciding(std::vector<std::string> environment) {
    std::erase_if(environment, [](const std::string& variable) {
        for (const char* name : {"TERM=", "COLORTERM=", "NO_COLOR=", "FORCE_COLOR=", "CLICOLOR="})
            if (variable.starts_with(name)) return true;
        return false;
    });
    return environment;
}

FileDescriptor openTop(const fs::path& directory) { return openFile(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); }

/// What a sandbox that is not kept shows before its command.
LayeredTree shownBy(const CloneRequest& clone) {
    std::vector<FileDescriptor> stack;
    for (const fs::path& lower : clone.lowers) stack.push_back(openTop(lower));
    if (stack.empty()) stack.push_back(openTop(clone.project));
    return LayeredTree(std::move(stack));
}

/// The files that `prepare` is to see, copied out of what the sandbox shows. They belong to who runs it.
void copyInputs(const ServiceRequest& service, const LayeredTree& tree, const Identity& identity,
                const fs::path& into) {
    const fs::path work = into.parent_path() / "work";
    makeDirectories(into);
    makeDirectories(work);
    std::vector<FileDescriptor> nothing;
    nothing.push_back(openTop(into));
    const LayeredTree nothingBelow(std::move(nothing));
    const LayerWriter writer(nothingBelow, openTop(into), openTop(work), {identity.uid, identity.gid});
    for (const std::string& input : service.inputs) {
        const auto entry = tree.find(namesOf(input));
        if (!entry)
            throw Error(ErrorCode::kNotFound, "'{}', an input of service '{}', is not in the project", printable(input),
                        service.name)
                .hint("correct `inputs`");
        copyShown(*entry, namesOf(input), writer);
    }
    if (::chmod(into.c_str(), 0755) != 0 || (isMachineRoot() && ::chown(into.c_str(), identity.uid, identity.gid) != 0))
        throw Error(ErrorCode::kInfrastructure, "cannot own {}: {}", into.native(), errnoText(errno));
}

std::string endOf(const ExecutionReport& report) {
    std::string text = report.out.text() + report.err.text();
    if (text.size() > kTailShown) text = text.substr(text.size() - kTailShown);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.empty() ? "it printed nothing" : "it ended with:\n" + text;
}

void refuseFailed(const ServiceRequest& service, const ExecutionReport& report) {
    std::string why;
    if (report.execution.verdict != Verdict::kOk) {
        why = report.failure ? report.failure->text() : std::string(verdictName(*report.execution.verdict));
        if (report.execution.exitCode) why = fmt::format("exit code {}", *report.execution.exitCode);
    } else if (report.leftBehind > 0) {
        why = fmt::format("it left {} processes running, so the data is not at rest", report.leftBehind);
    }
    if (why.empty()) return;
    SetupError error({"service " + service.name, 0,
                      fmt::format("its `prepare` (e{}) failed: {}; {}. It sees nothing of the project but its `inputs`",
                                  report.execution.id, why, endOf(report))});
    static_cast<Error&&>(error).hint(fmt::format(
        "correct `prepare` of [service.{}], or name the files it reads in its `inputs`; then `gradus trust`",
        service.name));
    throw error;
}

}  // namespace

fs::path partNameOf(const fs::path& target, const Digest& key) { return target / ("@" + key.hex()); }

// A run of its own, on record like any other.
void Sandboxes::Inside::prepareData(const ServiceRequest& service, const CommandRequest& command,
                                    const CloneRequest& clone, const fs::path& target, const fs::path& into) {
    CommandRequest request = command;
    request.arguments = service.prepare;
    request.input.clear();
    request.inputFrom.reset();
    request.terminal.reset();
    request.live = nullptr;
    const Confiner confiner = confinerFor(request);
    const Limits limits = insisted(request);
    ClonePlan plan = planClone(clone);
    const std::size_t data = plan.workspace.overlays.size();
    plan.workspace.overlays.push_back(
        {target, {serviceData().nothing(plan.identity.uid, plan.identity.gid)}, std::nullopt, std::nullopt, true});
    const ProjectIdentity project = identify(clone.project);
    SandboxDraft draft;
    draft.kind = SandboxKind::kTransient;
    draft.since = {};
    draft.owner = me();
    SandboxRecord record;
    std::int64_t execution = 0;
    const Execution asked = notRun(confiner, request, execution, record.id);
    write([&](SandboxWriter& writer, Writer& all) {
        draft.project = all.project(project, all.actor(around.actor));
        record = writer.create(draft);
        execution = writer.start({record.id, *draft.owner, std::string(confiner.backend.name()), lowered(request),
                                  request.arguments, plan.directory, asked.network.value_or(ExecutionNetwork::kNone),
                                  asked.destinations});
    });
    ExecutionReport report;
    report.execution = notRun(confiner, request, execution, record.id);
    const auto finish = [&](SandboxEnd end) {
        write([&](SandboxWriter& writer, Writer&) {
            writer.finish(report.execution);
            writer.end(record.id, end);
        });
    };
    try {
        const auto open = confiner.backend.open(plan.workspace, limits, request.network, plan.identity);
        report = reportOf(open->run(commandFrom(request, plan, record.id)), confiner, request, execution, record.id);
        refuseFailed(service, report);
        copyTree(open->upper(data), openFile(into, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).get());
        open->close();
    } catch (...) {
        finish(SandboxEnd::kFailed);
        throw;
    }
    finish(SandboxEnd::kDiscarded);
}

std::vector<ServiceDatum> Sandboxes::Inside::dataFor(const CommandRequest& command, const CloneRequest& clone,
                                                     const ClonePlan& plan, const Shown& shown) {
    std::vector<ServiceDatum> all;
    const ServiceData store = serviceData();
    for (const ServiceRequest& service : command.services) {
        if (service.data.empty()) continue;
        const fs::path target = targetOf(service, clone.project);
        refuseBadTarget(service, target, clone.project, around.state.root);
        if (service.prepare.empty()) {
            refuseMissing(service, target);
            refuseSecrets(service, target, clone);
            const auto [key, copy] = store.copyOf(target);
            all.push_back({target, copy, partNameOf(target, key)});
            continue;
        }
        const DataRoom room(around.state.root / "sandboxes/data");
        const fs::path inputs = room.path() / "tree";
        CloneRequest own = clone;
        own.upper.reset();
        own.work.reset();
        own.directory = clone.project;
        own.passed.insert(own.passed.end(), service.passed.begin(), service.passed.end());
        copyInputs(service, shown ? shown() : shownBy(clone), plan.identity, inputs);
        own.lowers = {inputs};
        Canonical form("gradus.service-data.2");
        form.text(target.native()).text(clone.project.native()).list(service.prepare.size());
        for (const std::string& word : service.prepare) form.text(word);
        const std::vector<std::string> environment = deciding(planClone(own).environment);
        form.list(environment.size());
        for (const std::string& variable : environment) form.text(variable);
        // What was fetched with one network is nothing to show to a command that has another.
        const std::vector<Destination>& destinations = command.network.destinations;
        form.list(destinations.size());
        for (const Destination& destination : destinations) form.text(formatDestination(destination));
        form.text(stampOfProgram(service.prepare.front(), environment))
            .number(std::int64_t{plan.identity.uid})
            .digest(contentDigest(inputs));
        const Digest key = form.hash();
        const fs::path made =
            store.find(key, target, [&](const fs::path& into) { prepareData(service, command, own, target, into); });
        all.push_back({target, made, partNameOf(target, key)});
    }
    return all;
}

// A kept sandbox whose data lies on one needs it for as long as it lives.
void Sandboxes::Inside::collectData(CollectReport& report) {
    const std::vector<std::int64_t> listed = layers().listed();
    const auto isNeeded = [&](const Digest& key, const fs::path& of) {
        return std::any_of(listed.begin(), listed.end(), [&](std::int64_t layer) {
            // What lies on a disk of its own is not looked into for this: it may be in use.
            return layers().imageOf(layer) || fs::exists(fs::symlink_status(layers().part(layer, partNameOf(of, key))));
        });
    };
    try {
        serviceData().collect(around.clock.now() - kDataStays, isNeeded, layersRoot() / "trash");
    } catch (const Error& e) {
        report.problems.emplace_back(e.what());
    }
}

ServicesAround::ServicesAround(Sandboxes::Inside& inside, const CommandRequest& command, const CloneRequest& clone,
                               ClonePlan& plan, const Shown& shown)
    : inside_(inside), request_(command) {
    if (command.services.empty()) return;
    if (command.network == Network::kHost)
        throw Error(ErrorCode::kNotAllowed, "services need a network of their own, and this command has the host's")
            .hint("leave the services out, or --network host");
    for (const ServiceDatum& datum : inside.dataFor(command, clone, plan, shown)) {
        parts_.emplace_back(plan.workspace.overlays.size(), datum.part);
        plan.workspace.overlays.push_back({datum.target, {datum.lower}, std::nullopt, std::nullopt, true});
        const fs::path below = datum.target.lexically_relative(clone.project);
        if (!below.empty() && *below.begin() != "..") plan.notOurs.push_back(below.native());
    }
    room_.emplace(plan, inside.serviceData().nothing(plan.identity.uid, plan.identity.gid));
}

Outcome ServicesAround::run(Sandbox& sandbox, Command command) {
    if (!room_) return sandbox.run(command);
    const std::string program = command.arguments.empty() ? "" : command.arguments.front();
    Outcome outcome = sandbox.run(room_->around(std::move(command), request_.services, inside_.around.environment));
    reports_ = room_->read(sandbox, request_.services);
    std::optional<SetupFailure> failure;
    const int code = outcome.exitCode.value_or(0);
    if (code == kSetupFailed) failure = ServiceRoom::failure(reports_);
    if (code == 126 || code == 127)
        if (const auto error = room_->notExecuted(sandbox)) failure = SetupFailure{"exec", *error, program};
    if (failure) {
        outcome.verdict = Verdict::kSetupFailed;
        outcome.exitCode.reset();
        outcome.failure = std::move(failure);
    }
    return outcome;
}

void ServicesAround::addTo(ExecutionReport& report) const {
    if (!room_) return;
    report.services = reports_;
    try {
        report.execution.services = inside_.objects().put(formatServices(reports_));
    } catch (const Error& e) {
        report.notes.push_back(fmt::format("what the services printed is not on record: {}", e.what()));
    }
    for (const ServiceReport& service : reports_) {
        if (service.endedEarly)
            report.notes.push_back(fmt::format("service {} ended by itself ({}) before the command had", service.name,
                                               service.status.value_or(0)));
        if (service.forced) report.notes.push_back(fmt::format("service {} had to be killed", service.name));
    }
}

}  // namespace gradus
