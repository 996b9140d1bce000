// What the program costs at the prompt, beside `sh -c true` and bwrap in the same rounds, in a tight loop and after an
// idle gap.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "store/file.h"
#include "tests/bench/report.h"
#include "tests/support/scratch.h"

namespace gradus::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 60;
constexpr int kRoundsWithGaps = 12;
constexpr std::chrono::milliseconds kGap{300};

/// Runs to the end; the processor time of it and of all it waited for, in microseconds.
double runQuietly(std::vector<std::string> words, std::vector<std::string> environment, const fs::path& output) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<char*> envp;
    for (std::string& entry : environment) envp.push_back(entry.data());
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    rusage used{};
    if (error != 0 || wait4(pid, &status, 0, &used) != pid) throw std::runtime_error("cannot run " + words[0]);
    if (status != 0) throw std::runtime_error(words[0] + " failed");
    const auto micros = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
    };
    return micros(used.ru_utime) + micros(used.ru_stime);
}

/// One of those that are started in turn.
struct Started {
    std::vector<std::string> words;
    std::vector<std::string> environment;
    std::vector<double> wall;
    std::vector<double> processor;

    void measure() {
        wall.push_back(microseconds([&] { processor.push_back(runQuietly(words, environment, "/dev/null")); }));
    }
    std::string told(double base) const {
        return fmt::format("{:.2f} ms ({:.2f} cpu), {:.1f}x", median(wall) / 1000, median(processor) / 1000,
                           median(wall) / base);
    }
};

std::string ownVariable(const char* name, const std::string& fallback) {
    const char* value = std::getenv(name);
    return fmt::format("{}={}", name, value != nullptr ? value : fallback);
}

class CommandBench {
  public:
    explicit CommandBench(const std::string& gradus) : gradus_(gradus) {
        fs::create_directory(project_);
        shell_.words = {"/bin/sh", "-c", "true"};
        help_.words = {gradus, "--help"};
        status_.words = {gradus, "-C", project_, "status"};
        for (Started* one : {&try_, &bare_}) one->words = {gradus, "-C", project_, "try", "--discard", "--", "true"};
        bwrap_.words = {"/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/",       "/",    "--dev",
                        "/dev",           "--proc",        "/proc",     "--tmpfs", "/tmp", "/bin/true"};
        for (Started* one : {&shell_, &help_, &status_, &bare_, &bwrap_}) one->environment = plain_;
        try_.environment = own_;
    }

    void run() {
        describe();
        measure("tight loop", kRounds, {});
        measure("after 300 ms of idling", kRoundsWithGaps, kGap);
    }

  private:
    // What the sandbox of `try` holds, from its own record.
    void describe() {
        const fs::path output = scratch_ / "record.json";
        std::vector<std::string> words = try_.words;
        words.insert(words.begin() + 3, "--json");
        runQuietly(words, own_, output);
        const auto record =
            nlohmann::json::parse(readSmallFile(output, 1 << 20, "the record")).at("data").at("execution");
        std::string held;
        for (const auto& guarantee : record.at("guarantees")) held += " " + guarantee.get<std::string>();
        fmt::print("`try`, from its record: backend {}, guarantees{}\n", record.at("backend").get<std::string>(), held);
        for (const auto& limit : record.at("limits"))
            fmt::print("`try`, from its record: limit {} held by {}\n", limit.at("name").get<std::string>(),
                       limit.at("enforced_by").get<std::string>());
    }

    void measure(const std::string& how, int rounds, std::chrono::milliseconds gap) {
        const bool hasBwrap = ::access(bwrap_.words[0].c_str(), X_OK) == 0;
        std::vector<Started*> all = {&shell_, &help_, &status_, &try_, &bare_};
        if (hasBwrap) all.push_back(&bwrap_);
        for (Started* one : all) *one = {one->words, one->environment, {}, {}};
        for (int i = 0; i < rounds; ++i)
            for (Started* one : all) {
                std::this_thread::sleep_for(gap);
                one->measure();
            }
        show(how, rounds, hasBwrap);
    }

    void show(const std::string& how, int rounds, bool hasBwrap) const {
        const double base = median(shell_.wall);
        note(fmt::format("{}, {} rounds: sh -c true", how, rounds), shell_.told(base));
        const double help = median(help_.wall) / 1000;
        const double status = median(status_.wall) / 1000;
        const double tried = median(try_.wall);
        row("  gradus --help", help_.told(base), "<= 10 ms", help <= 10);
        row("  gradus status", status_.told(base), "<= 30 ms", status <= 30);
        row("  gradus try --discard -- true, with this home", try_.told(base), "<= 8x sh -c true", tried <= 8 * base);
        note("  the same with an empty home", bare_.told(base));
        if (!hasBwrap) return note("  bwrap", "not installed");
        const double theirs = median(bwrap_.wall);
        row("  bwrap with the same namespaces", bwrap_.told(base), "no faster than try", tried <= theirs);
    }

    const test::ScratchDirectory scratch_;
    const std::string gradus_;
    const fs::path project_ = scratch_ / "project";
    const std::string state_ = "GRADUS_HOME=" + (scratch_ / "state").string();
    const std::vector<std::string> plain_{"PATH=/usr/bin:/bin", "HOME=" + scratch_.path().string(), state_};
    const std::vector<std::string> own_{ownVariable("PATH", "/usr/bin:/bin"), ownVariable("HOME", "/"), state_};
    Started shell_;
    Started help_;
    Started status_;
    Started try_;
    Started bare_;
    Started bwrap_;
};

}  // namespace

void benchCommand(const std::string& gradus) { CommandBench(gradus).run(); }

}  // namespace gradus::bench
