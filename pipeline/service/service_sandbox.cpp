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

CommandRequest Service::confined(const fs::path& directory, const RunWords& words) {
    const ProjectRules project = rules(directory);
    if (const auto remark = rulesRemark(project); !remark.empty()) around_.warn(std::string(remark));
    const RuleFiles* files = project.pinned ? &*project.pinned : nullptr;
    const Settings settings = sandboxRules(files, words.wish, around_.vocabulary, readCeiling(around_.ceiling));
    CommandRequest request = confinedBy(settings);
    request.arguments = words.command;
    request.directory = fs::canonical(directory);
    request.inputFrom = words.inputFrom;
    request.live = words.live;
    request.cancel = words.cancel;
    request.grace = words.grace;
    if (files != nullptr)
        if (const auto loaded = load(*files); loaded.pipeline)
            request.hiddenPaths = targetsOf(*loaded.pipeline, project.root);
    return request;
}

Milliseconds Service::sandboxLifetime(const fs::path& directory) {
    const ProjectRules project = rules(directory);
    const RuleFiles* files = project.pinned ? &*project.pinned : nullptr;
    return sandboxRules(files, {}, around_.vocabulary, readCeiling(around_.ceiling)).duration("lifetime");
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
