#include "pipeline/engine/confinement.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "store/model/error.h"

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

/// Calls `use` with every limit that the settings name.
template <typename Use>
void eachLimit(const Settings& settings, const Use& use) {
    const Value* said = settings.find("limits");
    if (said == nullptr) return;
    for (const LimitKey& row : kLimitKeys) {
        const auto field = said->fields.find(std::string(row.key));
        if (field == said->fields.end()) continue;
        const std::int64_t number = field->second.number;
        const bool share = row.name == LimitName::kCpuShare;
        use(row.name, static_cast<std::uint64_t>(share ? number / kThousandthsPerPercent : number));
    }
}

Limits limitsOf(const Settings& settings) {
    Limits limits = defaultLimits();
    eachLimit(settings, [&](LimitName name, std::uint64_t value) { limits[name] = Limit{value, true}; });
    return limits;
}

// A policy's limits are the most that a check may have, whether it asks for any or not.
void holdTo(const Settings& policy, Limits& limits) {
    eachLimit(policy, [&](LimitName name, std::uint64_t most) {
        auto& limit = limits[name];
        if (!limit || !limit->required || limit->value > most) limit = Limit{most, true};
    });
}

Network networkOf(const Settings& settings) {
    const std::string word = settings.text("network");
    if (word == "allow")
        throw Error(ErrorCode::kNotAllowed, "no backend here can let through only the listed addresses")
            .hint("use --network none, or --network host to give up no-network visibly");
    return word == "host" ? Network::kHost : Network::kNone;
}

void addGuarantees(const Settings& settings, std::string_view key, std::vector<Guarantee>& all) {
    for (const std::string& name : settings.list(key)) {
        const auto guarantee = guaranteeNamed(name);
        if (guarantee && std::find(all.begin(), all.end(), *guarantee) == all.end()) all.push_back(*guarantee);
    }
}

// What the language knows and no sandbox gives yet: said, not left out in silence.
void refuseUnbuilt(const Settings& settings) {
    if (settings.text("base") == "system")
        throw Error(ErrorCode::kNotAllowed, "base = \"system\" is not something a sandbox can have yet")
            .hint("leave `base` out of [sandbox]");
}

std::vector<std::string> hiddenBy(const Settings& settings) {
    std::vector<std::string> patterns = settings.list("hide");
    for (std::string& pattern : patterns)
        while (pattern.starts_with("./")) pattern.erase(0, 2);
    return patterns;
}

// A policy's list is the most that may be shown; without one it forbids nothing.
bool mayShow(const Settings& policy, const fs::path& project, const fs::path& path) {
    const std::vector<fs::path> most = shownBy(policy, project);
    return policy.find("show") == nullptr || std::find(most.begin(), most.end(), path) != most.end();
}

}  // namespace

CommandRequest confinedBy(const Settings& settings) {
    refuseUnbuilt(settings);
    CommandRequest request;
    request.passed = settings.list("env");
    request.hide = hiddenBy(settings);
    request.limits = limitsOf(settings);
    request.network = networkOf(settings);
    addGuarantees(settings, "requires", request.required);
    addGuarantees(settings, "without", request.without);
    return request;
}

CommandRequest confinedCheck(const Pipeline& pipeline, const Stage& stage, const Check& check,
                             const fs::path& project) {
    refuseUnbuilt(pipeline.sandbox);
    CommandRequest request = confinedBy(check.settings);
    request.directory = (project / check.settings.text("directory")).lexically_normal();
    if (!request.directory.has_filename()) request.directory = request.directory.parent_path();
    request.hide = hiddenBy(pipeline.sandbox);
    request.hiddenPaths = targetsOf(pipeline, project);
    for (const fs::path& path : shownBy(pipeline.sandbox, project))
        if (mayShow(stage.policy.settings, project, path)) request.show.push_back(path);
    request.keepFailed = stage.policy.settings.duration("keep-failed");
    holdTo(stage.policy.settings, request.limits);
    addGuarantees(stage.settings, "requires", request.required);
    addGuarantees(stage.policy.settings, "requires", request.required);
    request.services = servicesOf(pipeline, check.settings.list("services"));
    return request;
}

std::vector<ServiceRequest> servicesOf(const Pipeline& pipeline, const std::vector<std::string>& names) {
    std::vector<ServiceRequest> all;
    for (const std::string& name : names) {
        const auto found = pipeline.services.find(name);
        if (found == pipeline.services.end())
            throw Error(ErrorCode::kNotFound, "there is no service '{}' in the rules", name)
                .hint("write a [service." + name + "], and trust it");
        const Settings& settings = found->second;
        ServiceRequest service;
        service.name = name;
        service.run = settings.list("run");
        service.passed = settings.list("env");
        service.ready = settings.list("ready");
        if (settings.has("port")) service.port = static_cast<std::uint16_t>(settings.number("port"));
        service.readyLog = settings.text("ready-log");
        service.startTimeout = settings.duration("start-timeout");
        service.stopTimeout = settings.duration("stop-timeout");
        service.data = settings.text("data");
        service.prepare = settings.list("prepare");
        service.inputs = settings.list("inputs");
        if (!service.prepare.empty() && service.data.empty())
            throw Error(ErrorCode::kUsage, "service '{}' has a `prepare` and no `data` for it to fill", name)
                .hint("name the directory: data = \"data\"");
        all.push_back(std::move(service));
    }
    return all;
}

std::vector<fs::path> shownBy(const Settings& sandbox, const fs::path& project) {
    std::vector<fs::path> paths;
    for (const std::string& path : sandbox.list("show")) paths.push_back((project / path).lexically_normal());
    return paths;
}

std::vector<fs::path> targetsOf(const Pipeline& pipeline, const fs::path& project) {
    std::vector<fs::path> targets;
    for (const Stage& stage : pipeline.stages)
        if (const std::string path = stage.settings.text("path"); !path.empty())
            targets.push_back((project / path).lexically_normal());
    return targets;
}

}  // namespace gradus
