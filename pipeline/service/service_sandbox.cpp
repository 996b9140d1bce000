#include <algorithm>

#include "pipeline/engine/confinement.h"
#include "pipeline/service/project.h"
#include "pipeline/service/service.h"
#include "stages/sandbox/proofs.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

// What a network by name leads to.
std::string opened(const CommandRequest& request) {
    std::string names;
    for (const Destination& destination : request.network.destinations)
        names += fmt::format("{}{}", names.empty() ? ": the network leads to " : ", ", formatDestination(destination));
    return names;
}

std::string_view rulesRemark(const ProjectRules& rules) {
    if (rules.state == RulesState::kUntrusted)
        return "gradus.toml is not trusted, so nothing of its [sandbox] is used but what it hides";
    if (rules.state == RulesState::kChanged) return "the rules on disk differ from the trusted ones, which are used";
    return {};
}

/// The same with a number, where another has it.
std::string freeName(const std::string& wanted, const std::vector<SandboxView>& all) {
    std::string name = wanted;
    const auto isTaken = [&] {
        return std::any_of(all.begin(), all.end(), [&](const SandboxView& view) { return view.record.name == name; });
    };
    for (int number = 2; isTaken(); ++number) name = fmt::format("{}-{}", wanted, number);
    return name;
}

// Nothing of the project goes in, and what it costs to be sure is no matter. What the rules give to the project's own
// commands is no stranger's.
void distrust(TryRequest& request, const SandboxWish& wish) {
    if (wish.asked.has("network") && request.command.network != Network::kNone)
        throw Error(ErrorCode::kNotAllowed, "an untrusted command gets no network")
            .hint("leave --network out, or run it without --untrusted");
    request.untrusted = true;
    request.command.network = Network::kNone;
    request.command.without.clear();
    request.afterwards = Afterwards::kDiscard;
    request.command.strongest = true;
    request.command.system = false;  // there it would be root
    request.command.services.clear();
    request.command.remarks.clear();
}

}  // namespace

struct Service::SandboxRules {
    ProjectRules project;
    Settings settings;

    const RuleFiles* files() const { return project.pinned ? &*project.pinned : nullptr; }
};

Service::SandboxRules Service::sandboxRulesFor(const fs::path& directory, const SandboxWish& wish) {
    SandboxRules found{rules(directory), {}};
    if (found.project.lost)
        throw Error(ErrorCode::kNotAllowed, "{}", *found.project.lost)
            .hint("read gradus.toml and run `gradus trust` again");
    found.settings = sandboxRules(found.files(), wish, around_.vocabulary, readCeiling(around_.ceiling));
    return found;
}

CommandRequest Service::confined(const fs::path& directory, const RunWords& words) {
    return confined(directory, words, sandboxRulesFor(directory, words.wish));
}

// To hide more than was trusted harms nobody; to show what somebody meant to hide does.
void Service::hideWhatIsWritten(const ProjectRules& project, CommandRequest& request) const {
    if (!project.onDisk || project.state == RulesState::kTrusted) return;
    try {
        for (std::string& pattern :
             confinedBy(sandboxRules(&*project.onDisk, {}, around_.vocabulary, readCeiling(around_.ceiling))).hide)
            request.hide.push_back(std::move(pattern));
    } catch (const Error&) {
        return;  // not yet fit to be trusted: `gradus policy lint` says why
    }
}

CommandRequest Service::confined(const fs::path& directory, const RunWords& words, const SandboxRules& rules) {
    CommandRequest request = confinedBy(rules.settings);
    if (const auto remark = rulesRemark(rules.project); !remark.empty()) request.remarks.emplace_back(remark);
    hideWhatIsWritten(rules.project, request);
    const bool asked = words.wish.asked.has("network");
    if (const auto given = lowered(request); !given.empty() && !asked) {
        std::string names;
        for (const Guarantee guarantee : given)
            names += fmt::format("{}{}", names.empty() ? "" : ", ", guaranteeName(guarantee));
        request.remarks.push_back(fmt::format("the rules give up {}{}", names, opened(request)));
    }
    request.show = shownBy(rules.settings, rules.project.root);
    request.arguments = words.command;
    request.directory = fs::canonical(directory);
    request.inputFrom = words.inputFrom;
    request.terminal = words.terminal;
    request.live = words.live;
    request.cancel = words.cancel;
    request.grace = words.grace;
    std::vector<std::string> services = rules.settings.list("services");
    for (const std::string& name : words.services)
        if (std::find(services.begin(), services.end(), name) == services.end()) services.push_back(name);
    if (const RuleFiles* files = rules.files()) {
        if (const auto loaded = load(*files); loaded.pipeline) {
            request.hiddenPaths = targetsOf(*loaded.pipeline, rules.project.root);
            request.services = servicesOf(*loaded.pipeline, services);
        }
    } else if (!services.empty() && rules.project.state == RulesState::kUntrusted) {
        throw Error(ErrorCode::kNotAllowed, "service '{}' cannot start: the rules in gradus.toml are not trusted",
                    printable(services.front()))
            .hint("read them, then trust them: gradus trust");
    } else if (!services.empty()) {
        throw Error(ErrorCode::kNotAllowed, "no rules are trusted here, so there is no service '{}'", services.front())
            .hint("write a [service." + services.front() + "] in gradus.toml, then `gradus trust`");
    }
    return request;
}

TryRequest Service::attempted(const fs::path& directory, const RunWords& words) {
    requireStateOutside(projectRoot(directory));
    // Before anything is read: starting what will confine the command takes as long as all of that.
    if (words.wish.asked.text("network") != "host" && words.wish.asked.text("base") != "system") sandboxes().expect();
    writingIfThere();  // the one connection, instead of one to read and one to write
    const SandboxRules rules = sandboxRulesFor(directory, words.wish);
    TryRequest request;
    request.project = rules.project.root;
    request.command = confined(directory, words, rules);
    request.lifetime = rules.settings.duration("lifetime");
    if (words.untrusted) distrust(request, words.wish);
    return request;
}

Milliseconds Service::sandboxLifetime(const fs::path& directory) {
    return sandboxRulesFor(directory, {}).settings.duration("lifetime");
}

bool Service::sandboxesAreOfTheSystem(const fs::path& directory) {
    return confinedBy(sandboxRulesFor(directory, {}).settings).system;
}

std::vector<IsolationBackend*> Service::backends() {
    if (backends_.empty()) backends_ = around_.backends();
    std::vector<IsolationBackend*> all;
    for (const auto& backend : backends_) all.push_back(backend.get());
    return all;
}

Sandboxes& Service::sandboxes() {
    if (!sandboxes_)
        sandboxes_ =
            std::make_unique<Sandboxes>(Sandboxes::Surroundings{.store = [this]() -> Store& { return writing(); },
                                                                .state = state(),
                                                                .backends = backends(),
                                                                .clock = around_.clock,
                                                                .environment = around_.environment,
                                                                .actor = caller(),
                                                                .warn = around_.warn});
    return *sandboxes_;
}

SandboxRecord Service::reopen(const std::string& execution, const std::optional<std::string>& name) {
    const auto handle = parseHandle(execution);
    if (!handle || handle->kind != HandleKind::kExecution)
        throw Error(ErrorCode::kUsage, "'{}' is not the handle of an execution", printable(execution))
            .hint("an execution is written e90; a failed check names its own");
    const auto left = writingIfThere() != nullptr ? sandboxes().leftBy(handle->number) : std::nullopt;
    if (!left)
        throw Error(ErrorCode::kNotFound, "nothing was kept of {}", execution)
            .hint("before checks that said no are kept, the newest eight, as long as the policy's `keep-failed` says");
    const fs::path project = sandboxes().projectOf(left->id);
    const std::string called = name ? *name : freeName("reopened-" + execution, sandboxes().list(std::nullopt));
    return sandboxes().fork(left->id, 1, {called}, {}, sandboxLifetime(project)).front();
}

std::vector<SandboxView> Service::keptSandboxes(const std::optional<fs::path>& project) {
    return writingIfThere() != nullptr ? sandboxes().list(project) : std::vector<SandboxView>();
}

std::optional<ExpiredSandbox> Service::expiredSandbox(const std::string& handle) {
    return writingIfThere() != nullptr ? sandboxes().findExpired(handle) : std::nullopt;
}

SandboxRecord Service::sandbox(const std::string& handleOrName) {
    const auto found = writingIfThere() != nullptr ? sandboxes().find(handleOrName) : std::nullopt;
    if (!found)
        throw Error(ErrorCode::kNotFound, "there is no sandbox '{}'", handleOrName)
            .hint("see the living ones with 'gradus sandbox list'");
    return *found;
}

}  // namespace gradus
