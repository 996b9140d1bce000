// What kept sandboxes cost: snapshot and restore by depth, and a clone by the size of its project.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "plugins/host/child_process.h"
#include "plugins/isolation/namespaces.h"
#include "stages/sandbox/sandboxes.h"
#include "store/file.h"
#include "tests/bench/report.h"
#include "tests/bench/scratch.h"

namespace gradus::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 15;

/// A state directory with the real backend, as the program has it.
class Rig {
  public:
    explicit Rig(const std::string& jail)
        : backend_(NamespacesConfig{jail, "/sys/fs/cgroup", Milliseconds(30'000)}, clock_),
          pooled_(NamespacesConfig{jail, "/sys/fs/cgroup", Milliseconds(30'000), 4}, clock_),
          sandboxes_(around(backend_)),
          pooledSandboxes_(around(pooled_)) {}

    const fs::path& path() const { return scratch_.path(); }
    Sandboxes& sandboxes() { return sandboxes_; }
    /// As a process that lives long has them.
    Sandboxes& pooledSandboxes() { return pooledSandboxes_; }

    /// Milliseconds until a copy of the project is there to be written to, by an engine that opens many.
    double clone(const fs::path& project) {
        Workspace workspace;
        workspace.overlays.push_back({project, {project}, std::nullopt, std::nullopt, true});
        std::unique_ptr<Sandbox> sandbox;
        const double took = microseconds([&] {
            sandbox = pooled_.open(workspace, {}, Network::kNone, {::geteuid(), ::getegid()});
        });
        sandbox->close();
        std::this_thread::sleep_for(Milliseconds(2));  // it forgets its sandbox meanwhile
        return took / 1000;
    }

    /// What every step below contains: one durable commit of one event.
    void commit() {
        store().write([](Writer& writer) {
            EventDraft draft;
            draft.kind = EventKind::kClockWentBack;
            draft.fields.set("by-ms", 1);
            writer.record(std::move(draft));
        });
    }

    /// So many files in directories of a hundred.
    fs::path project(const std::string& name, int files) const {
        fs::path project = scratch_ / name;
        for (int i = 0; i < files; ++i) {
            const fs::path directory = project / ("d" + std::to_string(i / 100));
            if (i % 100 == 0) fs::create_directories(directory);
            const FileDescriptor file = openFile(directory / ("f" + std::to_string(i)), O_WRONLY | O_CREAT, 0644);
            writeAll(file.get(), "x\n", directory);
        }
        return project;
    }

  private:
    Sandboxes::Surroundings around(IsolationBackend& backend) {
        return {.store = [this]() -> Store& { return store(); },
                .state = state_,
                .backends = {&backend},
                .clock = clock_,
                .environment = [](const std::string& name) -> std::optional<std::string> {
                    return name == "PATH" ? std::optional<std::string>("/usr/bin:/bin") : std::nullopt;
                },
                .actor = {ActorKind::kPerson, "bench"}};
    }
    Store& store() {
        if (!store_) store_.emplace(Store::openForWriting(state_, {.clock = clock_, .random = random_}));
        return *store_;
    }

    Scratch scratch_;
    SystemClock clock_;
    SystemRandom random_;
    StateDirectory state_{scratch_ / "state"};
    NamespacesBackend backend_;
    NamespacesBackend pooled_;
    std::optional<Store> store_;
    Sandboxes sandboxes_;
    Sandboxes pooledSandboxes_;
};

void benchDepths(Rig& rig) {
    Sandboxes& sandboxes = rig.sandboxes();
    CreateRequest request;
    request.project = rig.project("small", 100);
    const std::int64_t id = sandboxes.create(request).id;
    CommandRequest command;
    command.arguments = {"/bin/sh", "-c", "echo x >> f"};
    std::size_t depth = 0;
    for (const std::size_t wanted : {std::size_t{1}, std::size_t{8}, Sandboxes::kMostLayers - 1}) {
        for (; depth < wanted; ++depth) {
            sandboxes.exec(id, command);
            sandboxes.snapshot(id, "at" + std::to_string(depth + 1));
        }
        const std::string here = "at" + std::to_string(wanted);
        std::vector<double> commits;
        std::vector<double> snapshots;
        std::vector<double> restores;
        for (int round = 0; round < kRounds; ++round) {
            const std::string name = "n" + std::to_string(wanted) + "." + std::to_string(round);
            commits.push_back(microseconds([&] { rig.commit(); }) / 1000);
            snapshots.push_back(microseconds([&] { sandboxes.snapshot(id, name); }) / 1000);
            restores.push_back(microseconds([&] { sandboxes.restore(id, here); }) / 1000);
        }
        const auto show = [&](const char* what, const std::vector<double>& times) {
            row(fmt::format("{} at depth {}", what, wanted),
                fmt::format("{:.2f} ms, {:.1f}x a commit", median(times), median(times) / median(commits)), "<= 2 ms",
                median(times) <= 2);
        };
        show("snapshot", snapshots);
        show("restore", restores);
    }
}

void benchClones(Rig& rig) {
    const fs::path small = rig.project("thousand", 1'000);
    const fs::path large = rig.project("hundred-thousand", 100'000);
    const auto clone = [&](const fs::path& project) {
        TryRequest request;
        request.project = project;
        request.command.arguments = {"/bin/true"};
        return microseconds([&] { rig.sandboxes().attempt(request); }) / 1000;
    };
    std::vector<double> few;
    std::vector<double> many;
    std::vector<double> fewAlone;
    std::vector<double> manyAlone;
    for (int round = 0; round < kRounds; ++round) {
        few.push_back(clone(small));
        many.push_back(clone(large));
        fewAlone.push_back(rig.clone(small));
        manyAlone.push_back(rig.clone(large));
    }
    const double alone = median(manyAlone);
    row("clone of 100k files alone, by an engine that keeps jails", fmt::format("{:.2f} ms", alone), "<= 1 ms",
        alone <= 1);
    row("  against 1k files", fmt::format("{:.2f}x", alone / median(fewAlone)), "<= 1.3x",
        alone <= 1.3 * median(fewAlone));
    const double ratio = median(many) / median(few);
    note("clone of 1k files: clone, run, look, record, discard", fmt::format("{:.2f} ms", median(few)));
    row("the same of 100k files", fmt::format("{:.2f} ms, {:.2f}x", median(many), ratio), "<= 1.3x of 1k files",
        ratio <= 1.3);
    const auto git = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {"git", "-C", large.native(), "-c", "user.name=b", "-c", "user.email=b@b"});
        ChildProcess child(ChildPlan{"/usr/bin/git", words, {"HOME=/nonexistent"}, {}});
        child.wait(Milliseconds(600'000));
    };
    if (::access("/usr/bin/git", X_OK) != 0) return note("git worktree add", "git is not installed");
    git({"init", "-q"});
    git({"add", "-A"});
    git({"commit", "-qm", "all"});
    const double worktree = microseconds([&] {
                                git({"worktree", "add", "-q", (rig.path() / "tree").native()});
                            }) /
                            1000;
    row(fmt::format("  against git worktree add of 100k files ({:.0f} ms)", worktree),
        fmt::format("{:.0f}x faster", worktree / alone), ">= 10000x", worktree >= 10'000 * alone);
}

/// Goal 8: clone, run, look, record, discard.
void benchStage(Rig& rig) {
    TryRequest request;
    request.project = rig.project("stage", 100);
    request.command.arguments = {"/bin/true"};
    std::vector<double> stages;
    std::vector<double> bare;
    for (int round = 0; round < 3 * kRounds; ++round) {
        stages.push_back(microseconds([&] { rig.pooledSandboxes().attempt(request); }));
        bare.push_back(microseconds([&] {
            spawnTrue();
            rig.commit();
            rig.commit();
        }));
    }
    const double ratio = median(stages) / median(bare);
    row("a stage that does nothing, by an engine that keeps jails",
        fmt::format("{:.2f} ms, {:.2f}x", median(stages) / 1000, ratio), "<= 3x spawn + 2 commits", ratio <= 3);
}

}  // namespace

void benchKept(const std::string& jail) {
    Rig rig(jail);
    benchStage(rig);
    benchDepths(rig);
    benchClones(rig);
}

}  // namespace gradus::bench
