// sandbox_owner STATE PROJECT MODE: a process that owns sandboxes and is killed by the tests.
//   run N    N transient sandboxes at once, each running until the end; says "ready" when all of them do
//   over N   the same over a change, which has a layer of its own
//   write S  runs a command in the kept sandbox S that writes without end; says "ready" when it does
//   churn S  makes, uses, snapshots, restores, forks and removes kept ones at random, for ever; says each that is done
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "plugins/isolation/namespaces.h"
#include "stages/sandbox/sandboxes.h"

namespace gradus {
namespace {

class Owner {
  public:
    Owner(const char* state, const char* project)
        : state_{state},
          project_(project),
          backend_(NamespacesConfig{GRADUS_JAIL, "/sys/fs/cgroup", Milliseconds(30'000)}, clock_),
          sandboxes_({.store = [this]() -> Store& { return store(); },
                      .state = state_,
                      .backends = {&backend_},
                      .clock = clock_,
                      .environment = [](const std::string&) { return std::nullopt; },
                      .actor = {ActorKind::kAgent, "owner"},
                      .onDisk = std::getenv("GRADUS_TEST_ON_DISK") != nullptr ? std::optional(true) : std::nullopt}) {}

    void run(int count) {
        std::atomic<int> ready = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < count; ++i)
            threads.emplace_back([&] {
                TryRequest request;
                request.project = project_;
                request.command.arguments = {"/bin/sh", "-c", "echo ready; echo x > f; exec sleep 600"};
                request.command.live = [&](Stream, std::string_view) {
                    if (++ready == count) say("ready");
                };
                sandboxes_.attempt(request);
            });
        for (std::thread& thread : threads) thread.join();
    }

    void over(int count) {
        Objects objects(state_.objects(), clock_);
        const ChangeSet changes({{"new", std::nullopt, Entry{EntryType::kFile, 0644, objects.put("new"), 3}}});
        std::atomic<int> ready = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < count; ++i)
            threads.emplace_back([&] {
                CommandRequest command;
                command.arguments = {"/bin/sh", "-c", "cat new; exec sleep 600"};
                command.live = [&](Stream, std::string_view) {
                    if (++ready == count) say("ready");
                };
                sandboxes_.runOver({project_, project_, {}, changes}, command);
            });
        for (std::thread& thread : threads) thread.join();
    }

    void write(std::int64_t sandbox) {
        CommandRequest command;
        command.arguments = {"/bin/sh", "-c", "echo line >> log; echo ready; while true; do echo line; done >> log"};
        command.live = [&](Stream, std::string_view) { say("ready"); };
        sandboxes_.exec(sandbox, command);
    }

    void churn(unsigned seed) {
        std::mt19937 chance(seed);
        while (true) {
            try {
                step(chance);
                say("done");
            } catch (const Error& e) {
                if (e.code() == ErrorCode::kDamaged) {
                    say(std::string("damaged: ") + e.what());
                    return;
                }
            }
        }
    }

  private:
    Store& store() {
        if (!store_) store_.emplace(Store::openForWriting(state_, {.clock = clock_, .random = random_}));
        return *store_;
    }

    static void say(const std::string& text) {
        std::puts(text.c_str());
        std::fflush(stdout);
    }

    void step(std::mt19937& chance) {
        const auto all = sandboxes_.list();
        if (all.size() < 3) {
            CreateRequest request;
            request.project = project_;
            sandboxes_.create(request);
            return;
        }
        const SandboxView& one = all[chance() % all.size()];
        const std::int64_t id = one.record.id;
        const auto name = std::to_string(chance());
        switch (chance() % 8) {
            case 0:
                sandboxes_.snapshot(id, "n" + name);
                break;
            case 1:
                if (!one.snapshots.empty())
                    sandboxes_.restore(id, one.snapshots[chance() % one.snapshots.size()].name.value_or(""));
                break;
            case 2:
                if (all.size() < 8) sandboxes_.fork(id, 1 + chance() % 2);
                break;
            case 3:
                sandboxes_.remove(id);
                break;
            case 4:
                sandboxes_.collect();
                break;
            case 5: {
                TryRequest request;
                request.project = project_;
                request.command.arguments = {"/bin/sh", "-c", "echo x > f; mkdir -p d; rm -f README.md"};
                request.afterwards = chance() % 2 == 0 ? Afterwards::kKeep : Afterwards::kDiscard;
                sandboxes_.attempt(request);
                break;
            }
            default: {
                CommandRequest command;
                // Whole or not at all: what a command that ended has written is there afterwards.
                command.arguments = {"/bin/sh", "-c",
                                     "echo " + name + " >> log; rm -rf d; mkdir d; echo " + name + " > d/f"};
                sandboxes_.exec(id, command);
            }
        }
    }

    SystemClock clock_;
    SystemRandom random_;
    StateDirectory state_;
    std::filesystem::path project_;
    NamespacesBackend backend_;
    std::optional<Store> store_;
    Sandboxes sandboxes_;
};

}  // namespace
}  // namespace gradus

int main(int count, char** words) {
    if (count != 5) return 2;
    gradus::Owner owner(words[1], words[2]);
    const std::string mode = words[3];
    if (mode == "run") owner.run(std::atoi(words[4]));
    if (mode == "over") owner.over(std::atoi(words[4]));
    if (mode == "write") owner.write(std::atoll(words[4]));
    if (mode == "churn") owner.churn(static_cast<unsigned>(std::atoi(words[4])));
    return 0;
}
