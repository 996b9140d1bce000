// Goal 7, and what the engine costs: a step beside a durable commit, a stage with a check beside a process and two
// commits, and a promotion by the size of its project.
#include <fcntl.h>
#include <unistd.h>

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
#include "tests/bench/scratch.h"

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
        double whole = 0;    ///< milliseconds of one promotion of a new change of one file
        double looking = 0;  ///< of these, looking at whole trees, as the engine itself measures it
        int looks = 0;
        double rest() const { return whole - looking; }
    };
    /// Of a file that is not there yet.
    std::int64_t submit() { return submit("create", fmt::format("new{}", ++made_)); }
    /// Of one of those that are.
    std::int64_t submitEdit(int file) { return submit("modify", fmt::format("d{}/f{}", file / 100, file)); }
    Cost promote(const std::string& to = "sandbox") { return promote(submit(), to); }
    Cost promote(std::int64_t change, const std::string& to) {
        Engine& engine = service_->engine(project());
        Cost cost;
        const EngineProgress progress = watched(cost);
        Climb climb;
        cost.whole = microseconds([&] { climb = engine.promote(change, to, progress, {}); }) / 1000;
        if (!climb.succeeded()) throw Error(ErrorCode::kInfrastructure, "not promoted: {}", climb.stages.back().reason);
        return cost;
    }
    /// Up to the stage in which it waits.
    Cost promoteToWait(std::int64_t change) {
        Cost cost;
        const EngineProgress progress = watched(cost);
        Climb climb;
        cost.whole =
            microseconds([&] { climb = service_->engine(project()).promote(change, "production", progress, {}); }) /
            1000;
        if (climb.stages.back().promotion.state != PromotionState::kWaiting)
            throw Error(ErrorCode::kInfrastructure, "does not wait: {}", climb.stages.back().reason);
        return cost;
    }
    void hold(const std::string& stage) { service_->hold(project(), {.stage = stage}, "a bench", std::nullopt); }
    void unhold(const std::string& stage) { service_->unhold(project(), {.stage = stage}, false); }
    /// All that waits and is ready, to its end: what each cost from the one before it on, in the order in which they
    /// landed in the last stage.
    std::vector<Cost> driveReady() {
        std::vector<Cost> costs;
        Cost cost;
        EngineProgress progress = watched(cost);
        auto began = std::chrono::steady_clock::now();
        progress.moved = [&](const Promotion& promotion, const std::string&) {
            if (promotion.stage != "production" || promotion.state != PromotionState::kPromoted) return;
            const auto now = std::chrono::steady_clock::now();
            cost.whole = std::chrono::duration<double, std::milli>(now - std::exchange(began, now)).count();
            costs.push_back(std::exchange(cost, {}));
        };
        service_->engine(project()).driveReady(progress, {});
        return costs;
    }
    /// On record in the store that it promotes with.
    std::int64_t events() { return service_->status(project()).counts.events; }
    std::uintmax_t bytes() const { return fs::file_size(scratch_ / "state/state.db"); }
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
    static EngineProgress watched(Cost& cost) {
        EngineProgress progress;
        progress.looked = [&cost](const std::string&, std::chrono::nanoseconds took) {
            cost.looking += std::chrono::duration<double, std::milli>(took).count();
            ++cost.looks;
        };
        return progress;
    }
    std::int64_t submit(const char* operation, const std::string& path) {
        SubmitRequest request;
        request.source.files =
            fmt::format(R"([{{"relative_path": "{}", "operation": "{}", "new_content": "new"}}])", path, operation);
        return service_->submit(project(), request).change->id;
    }

    Scratch scratch_;
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

/// What promotions of a project of one size cost.
struct Size {
    Size(const std::string& jail, int count) : files(count), rig(jail, count, kTwoStages) {}

    void measure() {
        const Rig::Cost cost = rig.promote("local");
        whole.push_back(cost.whole);
        looking.push_back(cost.looking);
        rest.push_back(cost.rest());
        looks = cost.looks;
    }
    void show() const {
        note(fmt::format("promotion into two stages, {}k files", files / 1000),
             fmt::format("{:.1f} ms", median(whole)));
        note(fmt::format("  looking at the tree, {} times", looks), fmt::format("{:.1f} ms", median(looking)));
        note("  all the rest", fmt::format("{:.1f} ms", median(rest)));
    }

    int files;
    Rig rig;
    int looks = 0;
    std::vector<double> whole{};
    std::vector<double> looking{};
    std::vector<double> rest{};
};

/// Into the sandbox stage and into the work tree. Each stage looks at the whole tree once, which must ask the file
/// system about every file; all the rest, gates, journal, files and commits, follows from the change alone.
void benchSizes(const std::string& jail) {
    Size small(jail, 1'000);
    Size middle(jail, 10'000);
    Size large(jail, 100'000);
    for (int round = 0; round < kRounds; ++round)
        for (Size* size : {&small, &middle, &large}) size->measure();
    for (const Size* size : {&small, &middle, &large}) size->show();
    for (const Size* size : {&middle, &large}) {
        const double growth = median(size->rest) / median(small.rest);
        row(fmt::format("  all the rest, {}k files against 1k", size->files / 1000), fmt::format("{:.2f}x", growth),
            "<= 1.3x", growth <= 1.3);
    }
}

struct InMemory {
    InMemory() { fs::create_directories(path); }
    ~InMemory() {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
    const fs::path path = fmt::format("/dev/shm/gradus-bench-{}", ::getpid());
};

/// Both releases in memory: what copying a tree costs is the disk's affair.
std::string fourStages(const fs::path& releases) {
    return fmt::format(R"([pipeline]
name = "bench"
stages = ["sandbox", "local", "staging", "production"]
[check.true]
run = "/bin/true"
[stage.staging]
driver = "release-directory"
path = "{0}/staging"
[stage.production]
driver = "release-directory"
path = "{0}/production"
[policy.local]
extends = "none"
freshness = "allow"
alone = ["person"]
queue = 1000
[policy.staging]
extends = "none"
alone = ["person"]
[policy.production]
extends = "none"
alone = ["person"]
)",
                       releases.native());
}

long peakMemory() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
    return 0;
}

/// So many promotions wait in one stage, which is held, each of a change of another file; then the hold is lifted, and
/// they are driven one after the other through three stages, with a check in each, after the sandbox. Some were before
/// them: a stage keeps a way back for its newest twenty, and only then does a new release cost the removal of an old
/// one.
struct Queue {
    int length = 0;
    double perChange = 0;
    double rest = 0;
    double firstTen = 0;
    double lastTen = 0;
    long peakMemory = 0;
    double overStep = 0;   ///< the rest of one step, in commits
    double overStage = 0;  ///< the rest of one stage, in a process and two commits
    std::int64_t events = 0;
    std::uintmax_t bytes = 0;
};

Queue bringThrough(const std::string& jail, int length) {
    constexpr int kFew = 10;
    constexpr int kFiles = 1'000;
    constexpr int kStages = 4;
    constexpr int kEarlier = 25;
    const InMemory releases;
    Rig rig(jail, kFiles, fourStages(releases.path));
    for (int i = 0; i < kEarlier; ++i) rig.promote("production");
    rig.hold("local");
    std::vector<double> costs;
    std::vector<double> rests;
    std::vector<double> commits;
    std::vector<double> spawns;
    std::vector<Rig::Cost> waited;
    for (int i = 0; i < length; ++i) waited.push_back(rig.promoteToWait(rig.submitEdit(i)));
    rig.unhold("local");
    const std::vector<Rig::Cost> landed = rig.driveReady();
    if (landed.size() != waited.size())
        throw Error(ErrorCode::kInfrastructure, "{} of {} landed", landed.size(), waited.size());
    for (std::size_t i = 0; i < landed.size(); ++i) {
        costs.push_back(waited[i].whole + landed[i].whole);
        rests.push_back(waited[i].rest() + landed[i].rest());
        if (i % 10 != 0) continue;
        commits.push_back(rig.commit());
        spawns.push_back(microseconds(spawnTrue) / 1000);
    }
    Queue queue;
    queue.length = length;
    queue.perChange = median(costs);
    queue.rest = median(rests);
    queue.firstTen = median({costs.begin(), costs.begin() + kFew});
    queue.lastTen = median({costs.end() - kFew, costs.end()});
    queue.overStep = queue.rest / (kStages * kSteps) / median(commits);
    queue.overStage = queue.rest / kStages / (median(spawns) + 2 * median(commits));
    queue.peakMemory = peakMemory();
    queue.events = rig.events();
    queue.bytes = rig.bytes();
    return queue;
}

}  // namespace

void benchQueue(const std::string& jail) {
    std::vector<Queue> queues;
    for (const int length : {10, 100, 1'000}) queues.push_back(bringThrough(jail, length));
    for (const Queue& queue : queues)
        note(fmt::format("{} queued changes through four stages, each", queue.length),
             fmt::format("{:.1f} ms, {:.1f} without looking at trees", queue.perChange, queue.rest));
    const Queue& few = queues.front();
    const Queue& many = queues.back();
    note("  memory at most, after 10, 100 and 1,000",
         fmt::format("{}, {}, {} MiB", queues[0].peakMemory >> 10, queues[1].peakMemory >> 10,
                     queues[2].peakMemory >> 10));
    row("  each of 1,000 against each of 10", fmt::format("{:.2f}x", many.perChange / few.perChange), "<= 1.3x",
        many.perChange <= 1.3 * few.perChange);
    row("  the last ten of 1,000 against the first ten",
        fmt::format("{:.1f}, {:.1f} ms: {:.2f}x", many.lastTen, many.firstTen, many.lastTen / many.firstTen), "<= 1.3x",
        many.lastTen <= 1.3 * many.firstTen);
    note("  without looking, a step (checks and copies of releases in it)",
         fmt::format("{:.2f}x a commit", many.overStep));
    note("  without looking, a stage (the same)", fmt::format("{:.2f}x spawn + 2 commits", many.overStage));
    const double bytes = static_cast<double>(many.bytes) / static_cast<double>(many.events);
    row(fmt::format("  {} events of {} changes", many.events, many.length), fmt::format("{:.0f} B an event", bytes),
        "<= 400 B", bytes <= 400);
}

void benchPromotion(const std::string& jail) {
    benchSteps(jail);
    benchStage(jail);
    benchSizes(jail);
}

}  // namespace gradus::bench
