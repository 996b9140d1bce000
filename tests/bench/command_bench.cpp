// What the program costs at the prompt, beside `sh -c true` in the same rounds.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "tests/bench/report.h"
#include "tests/support/scratch.h"

namespace gradus::bench {

namespace {

void runQuietly(std::vector<std::string> words, const std::vector<std::string>& environment) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> owned = environment;
    std::vector<char*> envp;
    for (std::string& entry : owned) envp.push_back(entry.data());
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    if (error != 0 || waitpid(pid, &status, 0) != pid) throw std::runtime_error("cannot run " + words[0]);
}

}  // namespace

void benchCommand(const std::string& gradus) {
    const test::ScratchDirectory scratch;
    const std::vector<std::string> environment{"PATH=/usr/bin:/bin", "HOME=" + scratch.path().string(),
                                               "GRADUS_HOME=" + (scratch / "state").string()};
    std::vector<double> shell;
    std::vector<double> help;
    std::vector<double> status;
    for (int i = 0; i < 60; ++i) {
        shell.push_back(microseconds([&] { runQuietly({"/bin/sh", "-c", "true"}, environment); }));
        help.push_back(microseconds([&] { runQuietly({gradus, "--help"}, environment); }));
        status.push_back(microseconds([&] { runQuietly({gradus, "-C", scratch.path(), "status"}, environment); }));
    }
    const double base = median(shell);
    note("sh -c true", fmt::format("{:.2f} ms", base / 1000));
    const auto show = [&](const std::string& name, const std::vector<double>& times, double goalMs) {
        const double value = median(times) / 1000;
        row(name, fmt::format("{:.2f} ms, {:.1f}x sh", value, value * 1000 / base), fmt::format("<= {:.0f} ms", goalMs),
            value <= goalMs);
    };
    show("gradus --help", help, 10);
    show("gradus status", status, 30);
}

}  // namespace gradus::bench
