// What a sandbox costs beside a bare posix_spawn of the same program, as ratios of medians of interleaved rounds: in a
// tight loop, and with an idle gap, in which a tight loop's warm caches and wake-ups are gone.

#include <fmt/format.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "plugins/host/child_process.h"
#include "plugins/isolation/namespaces.h"

namespace gradus {
namespace {

using Steady = std::chrono::steady_clock;

double microsecondsOf(const std::function<void()>& work) {
    const auto begin = Steady::now();
    work();
    return std::chrono::duration<double, std::micro>(Steady::now() - begin).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct Row {
    std::string name;
    std::function<void()> work;
    std::vector<double> times;
};

void measure(std::vector<Row>& rows, int rounds, Milliseconds gap) {
    for (Row& row : rows) row.times.clear();
    for (int round = 0; round < rounds; ++round)
        for (Row& row : rows) {
            std::this_thread::sleep_for(gap);
            row.times.push_back(microsecondsOf(row.work));
        }
    fmt::print("idle gap {} ms, {} rounds\n", gap.count(), rounds);
    const double base = median(rows.front().times);
    for (const Row& row : rows)
        fmt::print("  {:<58} {:>8.0f} us  {:>5.2f}x\n", row.name, median(row.times), median(row.times) / base);
}

void spawnTrue() {
    ChildProcess child(ChildPlan{"/bin/true", {"true"}, {}, {}});
    child.wait(Milliseconds(10'000));
}

void runTrue(Sandbox& sandbox) {
    Command command;
    command.arguments = {"/bin/true"};
    if (sandbox.run(command).verdict != Verdict::kOk) std::abort();
}

int bench(int rounds) {
    const SystemClock clock;
    NamespacesBackend backend(NamespacesConfig{findJail(), "/sys/fs/cgroup", Milliseconds(30'000)}, clock);
    std::string name = "/var/tmp/gradus-bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return 1;
    const std::filesystem::path project = name;
    Workspace workspace;
    workspace.overlays.push_back({project, {project}, std::nullopt, std::nullopt, true});
    const Identity self{::geteuid(), ::getegid()};
    Limits limits;
    limits[LimitName::kMemory] = Limit{1U << 30, false};
    limits[LimitName::kTasks] = Limit{2048, false};
    const auto open = [&](const Limits& with, Network network) { return backend.open(workspace, with, network, self); };
    const auto limited = open(limits, Network::kNone);
    const auto unlimited = open({}, Network::kNone);
    const auto shared = open({}, Network::kHost);
    fmt::print("{} cores, uid {}, upper on tmpfs\n", std::thread::hardware_concurrency(), self.uid);
    std::vector<Row> rows = {
        {"posix_spawn /bin/true", spawnTrue, {}},
        {"open sandbox, memory and task limits", [&] { runTrue(*limited); }, {}},
        {"open sandbox, no limits", [&] { runTrue(*unlimited); }, {}},
        {"open sandbox, no limits, host network", [&] { runTrue(*shared); }, {}},
        {"from nothing: open, run, close, with limits", [&] { runTrue(*open(limits, Network::kNone)); }, {}}};
    measure(rows, rounds, Milliseconds(0));
    measure(rows, std::max(rounds / 10, 5), Milliseconds(300));
    std::filesystem::remove_all(project);
    return 0;
}

}  // namespace
}  // namespace gradus

int main(int count, char** words) { return gradus::bench(count > 1 ? std::max(std::atoi(words[1]), 5) : 100); }
