// What only the program itself can show: descriptors, pipes, directories and the shell's view of the exit code.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "store/file.h"

namespace gradus {

namespace {

struct Ended {
    int exit;
    std::string out;
    std::string err;
};

/// A scratch directory that goes away.
class Scratch {
  public:
    Scratch() {
        std::string name = (std::filesystem::temp_directory_path() / "gradus-cli-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~Scratch() { std::filesystem::remove_all(path_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    std::string file(const std::string& name) const { return path_ / name; }
    std::string read(const std::string& name) const {
        std::ifstream in(path_ / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

  private:
    std::filesystem::path path_;
};

int waitFor(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Runs a shell script in which $gradus is the program.
Ended shell(const std::string& script, const char* interpreter = "/bin/sh") {
    const Scratch scratch;
    const std::string whole = "gradus='" GRADUS_PROGRAM "'\n" + script;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, scratch.file("out").c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, scratch.file("err").c_str(), flags, 0600);
    std::array<const char*, 4> argv = {interpreter, "-c", whole.c_str(), nullptr};
    pid_t pid = 0;
    const int error = posix_spawn(&pid, interpreter, &actions, nullptr, const_cast<char**>(argv.data()), environ);
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(error, 0);
    const int exit = waitFor(pid);
    return {exit, scratch.read("out"), scratch.read("err")};
}

/// Runs the program with a standard output whose reader has already gone.
int runWithoutReader(const char* word) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    FileDescriptor writing(ends[1]);
    { const FileDescriptor reading(ends[0]); }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    std::array<const char*, 3> argv = {GRADUS_PROGRAM, word, nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, GRADUS_PROGRAM, &actions, nullptr, const_cast<char**>(argv.data()), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return waitFor(pid);
}

TEST(Program, SaysThatAFullOutputLostTheAnswer) {
    const Ended ended = shell("\"$gradus\" version > /dev/full");
    EXPECT_EQ(ended.exit, 6);
    EXPECT_NE(ended.err.find("error: writing to standard output: No space left on device"), std::string::npos);
}

TEST(Program, SaysThatAClosedOutputLostTheAnswer) {
    for (const std::string words : {"version", "--help", "version --json", "nonsense --json"}) {
        const Ended ended = shell("\"$gradus\" " + words + " >&-");
        EXPECT_EQ(ended.exit, 6) << words;
        EXPECT_NE(ended.err.find("error: writing to standard output"), std::string::npos) << words;
    }
}

TEST(Program, DoesNotMindAClosedInputOrError) {
    EXPECT_EQ(shell("\"$gradus\" version <&- 2>&-").exit, 0);
    EXPECT_EQ(shell("\"$gradus\" nonsense 2>&-").exit, 2);
    EXPECT_EQ(shell("\"$gradus\" nonsense 2>/dev/full").exit, 2);
    EXPECT_EQ(shell("\"$gradus\" version <&- >&- 2>&-").exit, 6);
}

TEST(Program, EndsQuietlyWhenItsReaderLeaves) {
    EXPECT_EQ(runWithoutReader("help"), 0);
    const Ended ended = shell("set -o pipefail; \"$gradus\" help | head -1", "/bin/bash");
    EXPECT_EQ(ended.exit, 0);
    EXPECT_EQ(ended.err, "");
}

TEST(Program, WorksInADirectoryThatIsGone) {
    EXPECT_EQ(shell("d=$(mktemp -d) && cd \"$d\" && rmdir \"$d\" && \"$gradus\" version").exit, 0);
}

TEST(Program, RefusesADirectoryThatCannotBeEntered) {
    const Ended missing = shell("\"$gradus\" -C /no/such/place version");
    EXPECT_EQ(missing.exit, 2);
    EXPECT_NE(missing.err.find("-C '/no/such/place': No such file or directory"), std::string::npos);
    EXPECT_EQ(shell("\"$gradus\" -C /etc/passwd version").exit, 2);
    EXPECT_EQ(shell("\"$gradus\" -C / version").exit, 0);
}

TEST(Program, NeedsNothingOfItsEnvironment) { EXPECT_EQ(shell("env -i \"$gradus\" help").exit, 0); }

TEST(Program, WritesAScriptThatBashAccepts) {
    const Ended ended = shell("\"$gradus\" completion bash | bash -n", "/bin/bash");
    EXPECT_EQ(ended.exit, 0);
    EXPECT_EQ(ended.err, "");
}

TEST(Program, WritesAScriptThatCompletesInBash) {
    const auto complete = [](const std::string& words, int at) {
        return shell("source <(\"$gradus\" completion bash); COMP_WORDS=(" + words +
                         "); COMP_CWORD=" + std::to_string(at) + "; _gradus; echo \"${COMPREPLY[*]}\"",
                     "/bin/bash")
            .out;
    };
    EXPECT_EQ(complete("gradus ver", 1), "version\n");
    EXPECT_EQ(complete("gradus completion ''", 2).find("bash zsh fish"), 0U);
    EXPECT_EQ(complete("gradus version --js", 2), "--json\n");
    EXPECT_EQ(complete("gradus version --color al", 3), "always\n");
    EXPECT_EQ(complete("gradus -C help comp", 3), "completion\n");
    EXPECT_EQ(complete("gradus version -- --js", 3), "\n");
}

TEST(Program, FollowsEveryEventHoweverFewWereAskedForAtFirst) {
    // The second trust is one commit of two events: somebody new, and what they trust.
    const Ended ended = shell(R"sh(
        scratch=$(mktemp -d) && cd "$scratch" && export GRADUS_HOME="$scratch/state"
        printf '[pipeline]\nname = "shop"\nstages = ["sandbox"]\n' > gradus.toml
        GRADUS_ACTOR=person:alice "$gradus" trust --yes > /dev/null 2>&1
        timeout 60 "$gradus" audit query --follow --limit 1 > shown &
        follower=$!
        await() { for i in $(seq 600); do [ "$(grep -c rules.trusted shown)" = "$1" ] && return; sleep 0.05; done; }
        await 1
        echo '# more' >> gradus.toml
        GRADUS_ACTOR=person:bob "$gradus" trust --yes > /dev/null 2>&1
        await 2
        kill "$follower"
        awk '{print $1}' shown | tr '\n' ' '
        rm -r "$scratch")sh");
    EXPECT_EQ(ended.out, "4 5 6 ");
}

}  // namespace

}  // namespace gradus
