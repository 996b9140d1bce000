#include "pipeline/engine/confinement.h"
#include "pipeline/service/project.h"
#include "pipeline/service/service.h"
#include "stages/sandbox/proofs.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string_view rulesRemark(const ProjectRules& rules) {
    if (rules.state == RulesState::kUntrusted)
        return "gradus.toml is not trusted, so nothing of its [sandbox] is used but what it hides";
    if (rules.state == RulesState::kChanged) return "the rules on disk differ from the trusted ones, which are used";
    return {};
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
        request.remarks.push_back(fmt::format("the rules give up {}", names));
    }
    request.show = shownBy(rules.settings, rules.project.root);
    request.arguments = words.command;
    request.directory = fs::canonical(directory);
    request.inputFrom = words.inputFrom;
    request.live = words.live;
    request.cancel = words.cancel;
    request.grace = words.grace;
    if (const RuleFiles* files = rules.files())
        if (const auto loaded = load(*files); loaded.pipeline)
            request.hiddenPaths = targetsOf(*loaded.pipeline, rules.project.root);
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

std::vector<SandboxView> Service::keptSandboxes(const std::optional<fs::path>& project) {
    return writingIfThere() != nullptr ? sandboxes().list(project) : std::vector<SandboxView>();
}

SandboxRecord Service::sandbox(const std::string& handleOrName) {
    const auto found = writingIfThere() != nullptr ? sandboxes().find(handleOrName) : std::nullopt;
    if (!found)
        throw Error(ErrorCode::kNotFound, "there is no sandbox '{}'", handleOrName)
            .hint("see the living ones with 'gradus sandbox list'");
    return *found;
}

}  // namespace gradus
