#pragma once

#include <iostream>

#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/plugins/host_counts.h"

namespace gradus::test {

/// Races over a function that is wrong.
class Racing : public ClimbingProgram {
  protected:
    // A function that is wrong, and the test that says so.
    void brokenSum() {
        edit("sum.sh", "sum() { echo $(($1 - $2)); }\n");
        edit("test.sh", ". ./sum.sh\ntest \"$(sum 2 3)\" = 5 && test \"$(sum 1 1)\" = 2\n");
        commitAll("broken");
    }
    Json raced(Words candidates, Words options = {"--check", "sh test.sh"}) {
        options.insert(options.begin(), "race");
        options.insert(options.end(), candidates.begin(), candidates.end());
        return gradusJson(options);
    }
    static const Json& entry(const Json& answer, const std::string& name) {
        for (const Json& one : answer["data"]["candidates"])
            if (one["name"] == name) return one;
        static const Json kNone;
        return kNone;
    }

    std::unique_ptr<Running> startRace(Words words) {
        words.insert(words.begin(), {program(), "race"});
        return startCommand(words);
    }
    static void awaitSaid(const Running& running, const std::string& text) {
        for (int i = 0; i < 3000 && !has(running.errSoFar(), text); ++i) ::usleep(20'000);
        ASSERT_TRUE(has(running.errSoFar(), text)) << running.errSoFar();
    }
    /// What some backend's probe says about this machine.
    bool proves(const std::string& guarantee) {
        const Json doctor = gradusJson({"doctor"});
        for (const Json& backend : doctor["data"]["backends"])
            for (const Json& proof : backend["guarantees"])
                if (proof["guarantee"] == guarantee && proof["holds"] == true) return true;
        return false;
    }
    /// Seconds that no other test on this machine sleeps: its processes can be counted while others run beside it.
    static std::string lasting(int seconds) { return fmt::format("{}.{:07}", seconds, ::getpid()); }
    /// Processes of anybody that were called with exactly this word.
    static int processesCalledWith(const std::string& word) {
        int count = 0;
        for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
            try {
                const std::string line = bytesOf(entry.path() / "cmdline");
                if (line.find('\0' + word + '\0') != std::string::npos) ++count;
            } catch (const std::ios_base::failure&) {
                continue;  // it ended while it was looked at
            }
        }
        return count;
    }
    static void expectEnded(const std::string& word) {
        for (int i = 0; i < 300 && processesCalledWith(word) > 0; ++i) ::usleep(20'000);
        EXPECT_EQ(processesCalledWith(word), 0);
    }
    /// Once what was killed has come to its end, which takes the kernel a moment.
    static void expectSameHost(const HostCounts& before) {
        const auto isSame = [&] {
            const HostCounts now = countHost();
            return now.processes == before.processes && now.mounts == before.mounts && now.cgroups == before.cgroups &&
                   now.namespaces == before.namespaces;
        };
        for (int i = 0; i < 150 && !isSame(); ++i) ::usleep(20'000);
        const HostCounts now = countHost();
        EXPECT_EQ(now.processes, before.processes);
        EXPECT_EQ(now.mounts, before.mounts);
        EXPECT_EQ(now.cgroups, before.cgroups);
        EXPECT_EQ(now.namespaces, before.namespaces);
    }
    /// What is left of sandboxes below the state directory.
    std::size_t layersLeft() const {
        std::size_t count = 0;
        for (const char* place : {"sandboxes/layers", "sandboxes/locks", "sandboxes/trash"}) {
            std::error_code none;
            for (const auto& entry : std::filesystem::directory_iterator(state / place, none)) {
                static_cast<void>(entry);
                ++count;
            }
        }
        return count;
    }

    /// How long it took, in times of its slowest candidate.
    static double paceOf(const Json& answer) {
        return answer["data"]["race"]["wall_ms"].get<double>() / answer["data"]["race"]["slowest_ms"].get<double>();
    }

    const std::string fix = "right=sed -i 's/ - / + /' sum.sh";
    const std::string guess = "guess=echo 'sum() { echo 5; }' > sum.sh";
    const std::string verbose = "verbose=printf '# adds\\nsum() {\\n  echo $(($1 + $2))\\n}\\n' > sum.sh";
};

}  // namespace gradus::test
