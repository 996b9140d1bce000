// Goal 7, and what the engine costs: a step beside a durable commit, a stage with a check beside a process and two
// commits, and a promotion by the size of its project.
#include <fcntl.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "pipeline/service/service.h"
#include "plugins/checks/builtin.h"
#include "plugins/isolation/namespaces.h"
#include "stages/drivers/builtin.h"
#include "store/file.h"
#include "tests/bench/report.h"
#include "tests/support/scratch.h"

namespace gradus::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 15;
constexpr std::size_t kPooled = 2;  // as in a process that lives long
constexpr int kSteps = 6;  // opened, waiting, checking, applying, verifying, soaking, promoted: six steps between them

/// A project with a pipeline, promoted by the service itself.
class Rig {
  public:
    Rig(const std::string& jail, int files, std::string_view rules) {
        addBuiltinChecks(registry_);
        addBuiltinDrivers(registry_);
        for (int i = 0; i < files; ++i) {
            const fs::path directory = project() / ("d" + std::to_string(i / 100));
            if (i % 100 == 0) fs::create_directories(directory);
            std::ofstream(directory / ("f" + std::to_string(i))) << "x\n";
        }
        std::ofstream(project() / "gradus.toml") << rules;
        service_.emplace(Service::Surroundings{
            .environment = [this](const std::string& name) -> std::optional<std::string> {
                if (name == "GRADUS_HOME") return (scratch_ / "state").native();
                if (name == "HOME") return (scratch_ / "home").native();
                return name == "PATH" ? std::optional<std::string>("/usr/bin:/bin") : std::nullopt;
            },
            .clock = clock_,
            .random = random_,
            .vocabulary = registry_.vocabulary(),
            .checkKinds = registry_.checkKinds(),
            .backends =
                [this, jail] {
                    Backends all;
                    all.push_back(std::make_unique<NamespacesBackend>(
                        NamespacesConfig{jail, "/sys/fs/cgroup", Milliseconds(30'000), kPooled}, clock_));
                    return all;
                }});
        fs::create_directories(scratch_ / "home");
        service_->trust(project(), {ActorKind::kPerson, "bench"});
        store_.emplace(Store::openForWriting({scratch_ / "commits"}, {.clock = clock_, .random = random_}));
    }

    fs::path project() const { return scratch_ / "project"; }

    struct Cost {
        double whole = 0;  ///< milliseconds of one promotion of a new change of one file
        double steps = 0;  ///< of these, from the first step in each stage to the last: the tree was looked at before
    };
    std::int64_t submit() {
        SubmitRequest request;
        request.source.files =
            fmt::format(R"([{{"relative_path": "new{}", "operation": "create", "new_content": "x"}}])", ++made_);
        return service_->submit(project(), request).change->id;
    }
    Cost promote(const std::string& to = "sandbox") { return promote(submit(), to); }
    Cost promote(std::int64_t change, const std::string& to) {
        Engine& engine = service_->engine(project());
        using Steady = std::chrono::steady_clock;
        std::map<std::string, std::pair<Steady::time_point, Steady::time_point>> stages;
        EngineProgress progress;
        progress.moved = [&](const Promotion& promotion, const std::string&) {
            const auto now = Steady::now();
            stages.try_emplace(promotion.stage, now, now).first->second.second = now;
        };
        bool promoted = false;
        Cost cost;
        cost.whole = microseconds([&] { promoted = engine.promote(change, to, progress, {}).succeeded(); }) / 1000;
        for (const auto& [stage, time] : stages)
            cost.steps += std::chrono::duration<double, std::milli>(time.second - time.first).count();
        if (!promoted) note("a promotion did not succeed", "the figures mean nothing");
        return cost;
    }
    double commit() {
        return microseconds([&] {
                   store_->write([](Writer& writer) {
                       EventDraft draft;
                       draft.kind = EventKind::kClockWentBack;
                       draft.fields.set("by-ms", 1);
                       writer.record(std::move(draft));
                   });
               }) /
               1000;
    }

  private:
    test::ScratchDirectory scratch_;
    SystemClock clock_;
    SystemRandom random_;
    Registry registry_;
    std::optional<Service> service_;
    std::optional<Store> store_;
    int made_ = 0;
};

constexpr std::string_view kNoChecks = "[pipeline]\nname = \"bench\"\nstages = [\"sandbox\"]\n";
constexpr std::string_view kOneCheck =
    "[pipeline]\nname = \"bench\"\nstages = [\"sandbox\"]\n[check.true]\nrun = \"/bin/true\"\n";

void benchSteps(const std::string& jail) {
    Rig rig(jail, 100, kNoChecks);
    std::vector<double> promotions;
    std::vector<double> commits;
    for (int round = 0; round < kRounds; ++round) {
        promotions.push_back(rig.promote().whole);
        commits.push_back(rig.commit());
    }
    const double step = median(promotions) / kSteps;
    row("engine, one step of a promotion", fmt::format("{:.2f} ms, {:.2f}x a commit", step, step / median(commits)),
        "<= 2x a commit", step <= 2 * median(commits));
}

void benchStage(const std::string& jail) {
    Rig rig(jail, 100, kOneCheck);
    std::vector<double> stages;
    std::vector<double> bare;
    for (int round = 0; round < kRounds; ++round) {
        stages.push_back(rig.promote().whole);
        bare.push_back(microseconds(spawnTrue) / 1000 + 2 * rig.commit());
    }
    note("engine, promotion into the sandbox with one check",
         fmt::format("{:.2f} ms, {:.2f}x spawn + 2 commits", median(stages), median(stages) / median(bare)));
}

constexpr std::string_view kTwoStages =
    "[pipeline]\nname = \"bench\"\nstages = [\"sandbox\", \"local\"]\n[policy.local]\nextends = \"none\"\n"
    "freshness = \"allow\"\nalone = [\"person\"]\n";

/// Into the sandbox stage and into the work tree. Every file is looked at before the first step of each; all the rest,
/// gates, journal, files and commits, follows from the change alone.
void benchSizes(const std::string& jail) {
    Rig small(jail, 1'000, kTwoStages);
    Rig large(jail, 100'000, kTwoStages);
    std::vector<double> few;
    std::vector<double> many;
    std::vector<double> fewSteps;
    std::vector<double> manySteps;
    for (int round = 0; round < 7; ++round) {
        const Rig::Cost one = small.promote("local");
        few.push_back(one.whole);
        fewSteps.push_back(one.steps);
        const Rig::Cost other = large.promote("local");
        many.push_back(other.whole);
        manySteps.push_back(other.steps);
    }
    note("promotion into two stages, 1k files", fmt::format("{:.1f} ms", median(few)));
    note("promotion into two stages, 100k files", fmt::format("{:.1f} ms", median(many)));
    const double growth = median(manySteps) / median(fewSteps);
    row("  without looking at the tree, 100k against 1k",
        fmt::format("{:.1f} ms, {:.1f} ms: {:.2f}x", median(manySteps), median(fewSteps), growth), "<= 1.5x",
        growth <= 1.5);
}

constexpr std::string_view kFourStages =
    "[pipeline]\nname = \"bench\"\nstages = [\"sandbox\", \"local\", \"staging\", \"production\"]\n"
    "[check.true]\nrun = \"/bin/true\"\n"
    "[stage.staging]\ndriver = \"release-directory\"\npath = \"../staging\"\n"
    "[stage.production]\ndriver = \"release-directory\"\npath = \"../production\"\n"
    "[policy.local]\nextends = \"none\"\nfreshness = \"allow\"\nalone = [\"person\"]\n"
    "[policy.staging]\nextends = \"none\"\nalone = [\"person\"]\n"
    "[policy.production]\nextends = \"none\"\nalone = [\"person\"]\n";

long peakMemory() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
    return 0;
}

/// So many changes submitted, then each brought through four stages with a check in each. Every one that lands is one
/// more file to look at; the tree is large enough for that to matter little.
void benchMany(const std::string& jail) {
    constexpr int kFew = 10;
    constexpr int kMany = 1'000;
    Rig rig(jail, 5 * kMany, kFourStages);
    std::vector<std::int64_t> changes;
    for (int i = 0; i < kMany; ++i) changes.push_back(rig.submit());
    std::vector<double> costs;
    for (const std::int64_t change : changes) costs.push_back(rig.promote(change, "production").whole);
    const double first = median({costs.begin(), costs.begin() + kFew});
    const double last = median({costs.end() - kFew, costs.end()});
    note("1,000 changes through four stages",
         fmt::format("{:.1f} ms each, {} MiB at most", median(costs), peakMemory() >> 10));
    row("  the last ten against the first ten", fmt::format("{:.1f}, {:.1f} ms: {:.2f}x", last, first, last / first),
        "<= 1.5x", last <= 1.5 * first);
}

}  // namespace

void benchPromotion(const std::string& jail) {
    benchSteps(jail);
    benchStage(jail);
    benchSizes(jail);
    benchMany(jail);
}

}  // namespace gradus::bench
