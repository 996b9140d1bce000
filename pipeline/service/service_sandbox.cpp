#include "pipeline/engine/confinement.h"
#include "pipeline/service/project.h"
#include "pipeline/service/service.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string_view rulesRemark(const ProjectRules& rules) {
    if (rules.state == RulesState::kUntrusted) return "gradus.toml is not trusted, so its [sandbox] is not used";
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
    found.settings = sandboxRules(found.files(), wish, around_.vocabulary, readCeiling(around_.ceiling));
    return found;
}

CommandRequest Service::confined(const fs::path& directory, const RunWords& words) {
    return confined(directory, words, sandboxRulesFor(directory, words.wish));
}

CommandRequest Service::confined(const fs::path& directory, const RunWords& words, const SandboxRules& rules) {
    if (const auto remark = rulesRemark(rules.project); !remark.empty()) around_.warn(std::string(remark));
    CommandRequest request = confinedBy(rules.settings);
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
    // Before anything is read: starting what will confine the command takes as long as all of that.
    if (words.wish.asked.text("network") != "host") sandboxes().expect();
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

SandboxRecord Service::sandbox(const std::string& handleOrName) {
    const auto found = sandboxes().find(handleOrName);
    if (!found)
        throw Error(ErrorCode::kNotFound, "there is no sandbox '{}'", handleOrName)
            .hint("see the living ones with 'gradus sandbox list'");
    return *found;
}

}  // namespace gradus
