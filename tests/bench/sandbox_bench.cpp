// What a sandbox costs beside a bare posix_spawn of the same program, and beside other tools that confine, in one run:
// medians of interleaved rounds, in a tight loop and after an idle gap, in which warm caches and wake-ups are gone.
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "plugins/isolation/namespaces.h"
#include "tests/bench/peers.h"
#include "tests/bench/report.h"
#include "tests/support/scratch.h"

namespace gradus::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kWorkers = 16;
constexpr const char* kProgram = "/bin/true";
// One that takes hundreds of milliseconds needs fewer rounds to be told apart.
constexpr double kSlow = 50;
constexpr int kEverySlow = 8;

/// One of those that run the same program, each in its own way.
struct Contender {
    std::string name;
    std::function<void()> work;
    std::function<void()> before;  ///< not counted
    int every = 1;                 ///< in which rounds it takes part
    std::vector<double> times;
};

std::string cgroupVersion() {
    const bool unified = fs::exists("/sys/fs/cgroup/cgroup.controllers");
    const bool old = fs::exists("/sys/fs/cgroup/memory/tasks");
    return unified ? "v2" : old ? "v1" : "none";
}

std::string favorDynMods() {
    std::ifstream mounts("/proc/self/mounts");
    for (std::string line; std::getline(mounts, line);)
        if (line.find("favordynmods") != std::string::npos) return "on";
    return "off";
}

class SandboxBench {
  public:
    SandboxBench(const std::string& jail, int rounds)
        : rounds_(rounds),
          single_(NamespacesConfig{jail, "/sys/fs/cgroup", Milliseconds(30'000), 0}, clock_),
          pooled_(NamespacesConfig{jail, "/sys/fs/cgroup", Milliseconds(30'000), 2 * kWorkers}, clock_),
          ahead_(NamespacesConfig{jail, "/sys/fs/cgroup", Milliseconds(30'000), 2, 1, Milliseconds(2)}, clock_) {
        ::chmod(project_.path().c_str(), 0755);
        workspace_.overlays.push_back({project_.path(), {project_.path()}, std::nullopt, std::nullopt, true});
        limits_[LimitName::kMemory] = Limit{std::uint64_t{1} << 30, false};
        limits_[LimitName::kTasks] = Limit{2048, false};
    }

    void run() {
        describe();
        addOurs();
        addPeers();
        measure("tight loop", rounds_, Milliseconds(0));
        measure("after 300 ms of idling", std::max(rounds_ / 12, 8), Milliseconds(300));
        measureThroughput();
    }

  private:
    std::unique_ptr<Sandbox> open(NamespacesBackend& backend) {
        return backend.open(workspace_, limits_, Network::kNone, self_);
    }

    static void runIn(Sandbox& sandbox) {
        Command command;
        command.arguments = {kProgram};
        if (sandbox.run(command).verdict != Verdict::kOk) throw Error(ErrorCode::kInfrastructure, "the run failed");
    }

    void describe() {
        struct statfs where {};
        ::statfs(project_.path().c_str(), &where);
        note("sandbox rows: uid, file system of the project, upper",
             fmt::format("{}, {:#x}, tmpfs", self_.uid, static_cast<unsigned long>(where.f_type)));
        note("control groups, favordynmods", cgroupVersion() + ", " + favorDynMods());
        const ProbeResult probe = single_.probe();
        std::string proved;
        for (const Proof& proof : probe.proofs)
            if (proof.holds) proved += (proved.empty() ? "" : " ") + std::string(guaranteeName(proof.guarantee));
        fmt::print("guarantees of the sandbox measured: {}\n", proved);
        const auto sandbox = open(single_);
        Command command;
        command.arguments = {kProgram};
        const Outcome outcome = sandbox->run(command);
        for (const LimitReport& limit : outcome.limits)
            fmt::print("limit of the sandbox measured: {} held by {}\n", limitName(limit.name),
                       enforcerName(limit.enforcedBy));
        fmt::print("own namespaces {}, Landlock version {}, private loopback, pid 1, output pipes\n",
                   outcome.namespaces.size(), outcome.landlock);
    }

    void addOurs() {
        add("posix_spawn", [] { runs({kProgram}); });
        add("pooled: open, run, close", [this] { runIn(*open(pooled_)); });
        // Twice in a row: it will come again.
        for (int i = 0; i < 2; ++i) runIn(*open(ahead_));
        add("pooled, built ahead: open, run, close", [this] { runIn(*open(ahead_)); });
        prepared_ = open(single_);
        add(
            "prepared: run", [this] { runIn(*prepared_); },
            [this] {
                prepared_->prepare();
                std::this_thread::sleep_for(Milliseconds(5));
            });
        warm_ = open(single_);
        add("open sandbox: run", [this] { runIn(*warm_); });
        add("from nothing: open, run, close", [this] { runIn(*open(single_)); });
    }

    void addPeers() {
        for (const Peer& peer : peers_.all()) {
            if (!peer.whyNot.empty()) {
                fmt::print("{} is not measured: {}\n", peer.name, peer.whyNot);
                continue;
            }
            add(peer.name, [words = peer.words] { runs(words); });
            if (peer.goal >= kSlow || peer.goal == 0) contenders_.back().every = kEverySlow;
        }
    }

    void add(std::string name, std::function<void()> work, std::function<void()> before = {}) {
        contenders_.push_back({std::move(name), std::move(work), std::move(before), 1, {}});
    }

    void measure(const std::string& how, int rounds, Milliseconds gap) {
        for (Contender& contender : contenders_) contender.times.clear();
        for (int round = 0; round < rounds; ++round)
            for (Contender& contender : contenders_) {
                if (round % contender.every != 0) continue;
                if (contender.before) contender.before();
                std::this_thread::sleep_for(gap);
                contender.times.push_back(microseconds(contender.work));
            }
        const double base = median(contenders_.front().times);
        note(fmt::format("{}, {} rounds: posix_spawn {}", how, rounds, kProgram),
             fmt::format("{:.2f} ms", base / 1000));
        show("pooled: open, run, close", base, 2.5);
        show("pooled, built ahead: open, run, close", base, 1.5);
        show("prepared: run", base, 1.5);
        show("open sandbox: run", base, std::nullopt);
        show("from nothing: open, run, close", base, std::nullopt);
        const double ours = medianOf("pooled: open, run, close").value_or(base);
        for (const Peer& peer : peers_.all())
            if (peer.whyNot.empty()) compare(peer, ours);
    }

    std::optional<double> medianOf(const std::string& name) const {
        for (const Contender& contender : contenders_)
            if (contender.name == name) return median(contender.times);
        return std::nullopt;
    }

    void show(const std::string& name, double base, std::optional<double> goal) const {
        const double value = *medianOf(name);
        const std::string measured = fmt::format("{:.2f} ms, {:.2f}x", value / 1000, value / base);
        if (goal)
            row("  " + name, measured, fmt::format("<= {}x posix_spawn", *goal), value <= *goal * base);
        else
            note("  " + name, measured);
    }

    void compare(const Peer& peer, double ours) const {
        const double theirs = *medianOf(peer.name);
        const std::string measured = fmt::format("{:.2f} ms, {:.1f}x ours", theirs / 1000, theirs / ours);
        if (peer.goal == 0) return note("  " + peer.name, measured);
        row("  " + peer.name, measured, fmt::format(">= {}x ours", peer.goal), theirs >= peer.goal * ours);
    }

    /// Runs per second of `work` on sixteen threads.
    double perSecond(const std::function<void()>& work) const {
        std::atomic<int> left = 4 * rounds_;
        const double took = microseconds([&] {
            std::vector<std::jthread> workers;
            for (int i = 0; i < kWorkers; ++i)
                workers.emplace_back([&] {
                    while (left.fetch_sub(1) > 0) work();
                });
        });
        return 4 * rounds_ / (took / 1e6);
    }

    void measureThroughput() {
        const std::vector<std::string> bwrap = bwrapCommand();
        if (bwrap[0].empty()) return;
        std::vector<double> ours;
        std::vector<double> theirs;
        for (int round = 0; round < 3; ++round) {
            ours.push_back(perSecond([this] { runIn(*open(pooled_)); }));
            theirs.push_back(perSecond([&] { runs(bwrap); }));
        }
        row(fmt::format("{} workers on {} cores", kWorkers, std::thread::hardware_concurrency()),
            fmt::format("{:.0f}/s against {:.0f}/s", median(ours), median(theirs)), ">= 3x bwrap",
            median(ours) >= 3 * median(theirs));
    }

    const SystemClock clock_;
    const int rounds_;
    const Identity self_{::geteuid(), ::getegid()};
    const test::ScratchDirectory project_;
    const Peers peers_;
    NamespacesBackend single_;
    NamespacesBackend pooled_;
    NamespacesBackend ahead_;
    Workspace workspace_;
    Limits limits_;
    std::unique_ptr<Sandbox> prepared_;
    std::unique_ptr<Sandbox> warm_;
    std::vector<Contender> contenders_;
};

}  // namespace

void benchSandbox(const std::string& jail, int rounds) { SandboxBench(jail, rounds).run(); }

}  // namespace gradus::bench
