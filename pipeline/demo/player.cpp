#include "pipeline/demo/player.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace {

struct Ended {
    int exit = 0;
    std::string output;
};

std::string readAll(int fd) {
    std::string out;
    std::array<char, 4096> buffer{};
    while (true) {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return out;
        out.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> out;
    out.reserve(words.size() + 1);
    for (std::string& word : words) out.push_back(word.data());
    out.push_back(nullptr);
    return out;
}

/// Standard output and error together, as a person at a terminal sees them.
Ended runProgram(std::vector<std::string> words, std::vector<std::string> environment) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw Error(ErrorCode::kInfrastructure, "pipe: {}", errnoText(errno));
    const FileDescriptor reading(pipe[0]);
    FileDescriptor writing(pipe[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
    pid_t pid = 0;
    const int error =
        posix_spawn(&pid, words[0].c_str(), &actions, nullptr, pointers(words).data(), pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw Error(ErrorCode::kInfrastructure, "cannot start {}: {}", words[0], errnoText(error));
    writing = FileDescriptor();
    Ended ended;
    ended.output = readAll(reading.get());
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    ended.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ended;
}

std::string indented(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        out += "    " + std::string(text.substr(0, end)) + "\n";
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

}  // namespace

Player::Player(std::filesystem::path program, std::filesystem::path directory, Say say)
    : program_(std::move(program)), directory_(std::move(directory)), say_(std::move(say)) {
    makeDirectories(project());
}

void Player::scene(std::string_view title, std::string_view words) {
    say_(fmt::format("\n{}. {}\n{}", ++scene_, title, indented(words)));
}

void Player::write(std::string_view name, std::string_view text) {
    say_(fmt::format("  $ cat {}\n{}", name, indented(text)));
    writeFileDurably(project() / name, text, 0644);
}

void Player::run(const std::vector<std::string>& words, const Expect& expect) {
    say_(fmt::format("  $ gradus {}", fmt::join(words, " ")));
    std::vector<std::string> all{program_, "-C", project()};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = runProgram(
        all, {"PATH=/usr/bin:/bin", "HOME=" + directory_.native(), "GRADUS_HOME=" + state().native(), "COLUMNS=100"});
    say_(indented(ended.output));
    if (ended.exit != expect.exit)
        throw Error(ErrorCode::kDamaged, "the demo expected exit {} from `gradus {}`, and got {}", expect.exit,
                    fmt::join(words, " "), ended.exit);
    for (const std::string& text : expect.text)
        if (ended.output.find(text) == std::string::npos)
            throw Error(ErrorCode::kDamaged, "the demo expected `gradus {}` to say '{}'", fmt::join(words, " "), text);
}

void Player::behind(std::string_view words, const std::function<void()>& deed) {
    say_(fmt::format("  # {}", words));
    deed();
}

}  // namespace gradus
