#include "pipeline/demo/player.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "pipeline/cli/shell_word.h"
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

/// A program whose standard output and error come together, as a person at a terminal sees them.
class Started {
  public:
    Started(std::vector<std::string> words, std::vector<std::string> environment,
            const std::filesystem::path& directory) {
        std::array<int, 2> pipe{};
        if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw Error(ErrorCode::kInfrastructure, "pipe: {}", errnoText(errno));
        reading_ = FileDescriptor(pipe[0]);
        const FileDescriptor writing(pipe[1]);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
        const int error = posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                                      pointers(environment).data());
        posix_spawn_file_actions_destroy(&actions);
        if (error != 0) throw Error(ErrorCode::kInfrastructure, "cannot start {}: {}", words[0], errnoText(error));
    }
    Started(const Started&) = delete;
    Started& operator=(const Started&) = delete;
    ~Started() {
        if (pid_ == 0) return;
        ::kill(pid_, SIGKILL);
        reap();
    }

    Ended end() {
        Ended ended;
        ended.output = readAll(reading_.get());
        ended.exit = reap();
        return ended;
    }
    void kill() const { ::kill(pid_, SIGKILL); }
    bool hasEnded() const {
        siginfo_t info{};
        return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
    }

  private:
    int reap() {
        int status = 0;
        while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

    FileDescriptor reading_;
    pid_t pid_ = 0;
};

// As a person would quote it.
std::string readable(const std::string& word) {
    const bool hasQuote = word.find('\'') != std::string::npos;
    return hasQuote && word.find_first_of("\"$`\\!") == std::string::npos ? "\"" + word + "\"" : shellWord(word);
}

std::string lineOf(std::string_view program, const std::vector<std::string>& words) {
    std::string line(program);
    for (const std::string& word : words) line += " " + readable(word);
    return line;
}

/// What comes next is the next scene, not what the program suggests.
std::string withoutSuggestions(const std::string& output) {
    std::string kept;
    for (std::size_t at = 0; at < output.size();) {
        const std::size_t end = std::min(output.find('\n', at), output.size() - 1) + 1;
        const std::string line = output.substr(at, end - at);
        if (!line.starts_with("  next: ")) kept += line;
        at = end;
    }
    return kept;
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

Player::Player(std::filesystem::path program, std::filesystem::path directory, Say say, Paint paint)
    : program_(std::move(program)), directory_(std::move(directory)), say_(std::move(say)), paint_(paint) {
    makeDirectories(project());
}

void Player::scene(std::string_view title, std::string_view words) {
    say_(fmt::format("\n{}\n{}", paint_(Style::kBold, fmt::format("{}. {}", ++scene_, title)), indented(words)));
}

void Player::write(std::string_view name, std::string_view text) {
    prompt(fmt::format("cat {}", name));
    show(std::string(text));
    writeFileDurably(project() / name, text, 0644);
}

std::vector<std::string> Player::environment() const {
    return {"PATH=/usr/bin:/bin", "HOME=" + directory_.native(), "GRADUS_HOME=" + state().native(), "COLUMNS=100",
            "LC_ALL=C.UTF-8",     "GRADUS_PROGRESS=none"};
}

void Player::run(const std::vector<std::string>& words, const Expect& expect) {
    runIn(environment(), lineOf("gradus", words), words, expect);
}

void Player::runShown(std::string_view shown, const std::vector<std::string>& words, const Expect& expect) {
    runIn(environment(), shown, words, expect);
}

void Player::runAs(const std::string& actor, const std::vector<std::string>& words, const Expect& expect) {
    auto all = environment();
    all.push_back("GRADUS_ACTOR=" + actor);
    runIn(std::move(all), lineOf(fmt::format("GRADUS_ACTOR={} gradus", actor), words), words, expect);
}

void Player::runIn(std::vector<std::string> environment, std::string_view line, const std::vector<std::string>& words,
                   const Expect& expect) {
    prompt(line);
    std::vector<std::string> all{program_};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = Started(all, std::move(environment), project()).end();
    show(withoutSuggestions(ended.output));
    if (ended.exit != expect.exit)
        throw Error(ErrorCode::kDamaged, "the demo expected exit {} from `{}`, and got {}", expect.exit, line,
                    ended.exit);
    if (ended.exit != 0) say_(fmt::format("    (exit {})", ended.exit));
    for (const std::string& text : expect.text)
        if (ended.output.find(text) == std::string::npos)
            throw Error(ErrorCode::kDamaged, "the demo expected `{}` to say '{}'", line, text);
}

void Player::runAndKill(const std::vector<std::string>& words, const std::function<bool()>& when) {
    constexpr auto kPatience = std::chrono::seconds(60);
    prompt(fmt::format("gradus {} &", fmt::join(words, " ")));
    std::vector<std::string> all{program_};
    all.insert(all.end(), words.begin(), words.end());
    Started started(all, environment(), project());
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!when()) {
        if (started.hasEnded() || std::chrono::steady_clock::now() > deadline) {
            started.kill();
            say_(indented(started.end().output));
            throw Error(ErrorCode::kDamaged, "the demo waited in vain for `gradus {}`", fmt::join(words, " "));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    started.kill();
    prompt("kill -9 $!");
    show(started.end().output);
}

void Player::shell(const std::string& line) {
    prompt(line);
    const Ended ended = Started({"/bin/sh", "-c", line}, environment(), project()).end();
    show(ended.output);
    if (ended.exit != 0) throw Error(ErrorCode::kInfrastructure, "`{}` ended with exit code {}", line, ended.exit);
}

void Player::show(const std::string& output) {
    if (!output.empty()) say_(indented(output));
}

void Player::prompt(std::string_view line) {
    std::string text;
    for (std::size_t at = 0; at <= line.size();) {
        const std::size_t end = std::min(line.find('\n', at), line.size());
        text += fmt::format("{}{}{}", text.empty() ? "  " : "\n", at == 0 ? "$ " : "",
                            paint_(Style::kCyan, line.substr(at, end - at)));
        at = end + 1;
    }
    say_(text);
}

void Player::remark(std::string_view words) { say_(paint_(Style::kDim, fmt::format("  # {}", words))); }

void Player::behind(std::string_view words, const std::function<void()>& deed) {
    remark(words);
    deed();
}

}  // namespace gradus
