#include <fmt/format.h>
#include <unistd.h>

#include "pipeline/service/project.h"
#include "pipeline/service/service.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kDefaultTasks = 2048;
constexpr std::int64_t kThousandthsPerPercent = 10;

struct LimitKey {
    std::string_view key;
    LimitName name;
};
// `cpus` counts processors in thousandths, the limit percents of one.
constexpr std::array kLimitKeys{
    LimitKey{"memory", LimitName::kMemory},    LimitKey{"tasks", LimitName::kTasks},
    LimitKey{"disk", LimitName::kDisk},        LimitKey{"wall-time", LimitName::kWallTime},
    LimitKey{"cpu-time", LimitName::kCpuTime}, LimitKey{"cpus", LimitName::kCpuShare},
    LimitKey{"output", LimitName::kOutput},
};

/// Half the machine and plenty of tasks, where it can be had: a slip should not take the machine down.
Limits defaultLimits() {
    Limits limits;
    const auto pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
    const auto pageSize = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
    limits[LimitName::kMemory] = Limit{pages * pageSize / 2, false};
    limits[LimitName::kTasks] = Limit{kDefaultTasks, false};
    return limits;
}

Limits limitsOf(const Settings& settings) {
    Limits limits = defaultLimits();
    const Value* said = settings.find("limits");
    if (said == nullptr) return limits;
    for (const LimitKey& row : kLimitKeys) {
        const auto field = said->fields.find(std::string(row.key));
        if (field == said->fields.end()) continue;
        const std::int64_t number = field->second.number;
        const bool share = row.name == LimitName::kCpuShare;
        limits[row.name] = Limit{static_cast<std::uint64_t>(share ? number / kThousandthsPerPercent : number), true};
    }
    return limits;
}

Network networkOf(const Settings& settings) {
    const std::string word = settings.text("network");
    if (word == "allow")
        throw Error(ErrorCode::kNotAllowed, "no backend here can let through only the listed addresses")
            .hint("use --network none, or --network host to give up no-network visibly");
    return word == "host" ? Network::kHost : Network::kNone;
}

std::vector<Guarantee> guaranteesOf(const Settings& settings, std::string_view key) {
    std::vector<Guarantee> all;
    for (const std::string& name : settings.list(key))
        if (const auto guarantee = guaranteeNamed(name)) all.push_back(*guarantee);
    return all;
}

/// Where later stages put things: a sandbox of the project must not see them.
std::vector<fs::path> targetsOf(const Pipeline& pipeline, const fs::path& root) {
    std::vector<fs::path> targets;
    for (const Stage& stage : pipeline.stages)
        if (const std::string path = stage.settings.text("path"); !path.empty())
            targets.push_back((root / path).lexically_normal());
    return targets;
}

std::string_view rulesRemark(const ProjectRules& rules) {
    if (rules.state == RulesState::kUntrusted) return "gradus.toml is not trusted, so its [sandbox] is not used";
    if (rules.state == RulesState::kChanged) return "the rules on disk differ from the trusted ones, which are used";
    return {};
}

// What the language knows and no sandbox gives yet: said, not left out in silence.
void refuseUnbuilt(const Settings& settings) {
    if (settings.text("base") == "system")
        throw Error(ErrorCode::kNotAllowed, "base = \"system\" is not something a sandbox can have yet")
            .hint("leave `base` out of [sandbox]");
    if (!settings.list("show").empty())
        throw Error(ErrorCode::kNotAllowed, "`show` is not something a sandbox can have yet")
            .hint("leave `show` out of [sandbox]");
}

}  // namespace

CommandRequest Service::confined(const fs::path& directory, const RunWords& words) {
    const ProjectRules project = rules(directory);
    if (const auto remark = rulesRemark(project); !remark.empty()) around_.warn(std::string(remark));
    const RuleFiles* files = project.pinned ? &*project.pinned : nullptr;
    const Settings settings = sandboxRules(files, words.wish, around_.vocabulary, readCeiling(around_.ceiling));
    refuseUnbuilt(settings);
    CommandRequest request;
    request.arguments = words.command;
    request.directory = fs::canonical(directory);
    request.passed = settings.list("env");
    request.hide = settings.list("hide");
    request.limits = limitsOf(settings);
    request.network = networkOf(settings);
    request.required = guaranteesOf(settings, "requires");
    request.without = guaranteesOf(settings, "without");
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
