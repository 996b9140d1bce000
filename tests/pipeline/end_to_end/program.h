#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "store/sql.h"
#include "store/state_directory.h"
#include "tests/support/scratch.h"

namespace gradus::test {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

struct Ended {
    int exit = -1;
    std::string out;
    std::string err;

    /// Standard output as the one envelope it must be.
    Json json() const {
        Json parsed = Json::parse(out, nullptr, false);
        EXPECT_TRUE(parsed.is_object()) << out << err;
        EXPECT_EQ(out.find('\n'), out.size() - 1) << out;
        return parsed.is_object() ? parsed : Json::object();
    }
};

inline std::string bytesOf(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

inline void writeBytes(const std::filesystem::path& path, std::string_view bytes) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

constexpr std::string_view kGoodRules = R"([pipeline]
name = "shop"
stages = ["sandbox", "local"]

[check.unit]
run = "make test"
)";

/// The program under test: this build's own, or the mutant of it that the tests are to notice.
inline std::string program() {
    const char* const mutant = std::getenv("GRADUS_TEST_PROGRAM");
    return mutant != nullptr ? mutant : GRADUS_PROGRAM;
}

/// The program itself, run in a project of its own, with a state directory and a home of its own.
class ProgramTest : public testing::Test {
  protected:
    ProgramTest() {
        for (const auto& directory : {home, project}) std::filesystem::create_directories(directory);
    }

    /// One started run; ended and reaped with this at the latest.
    class Running {
      public:
        Running(pid_t pid, std::filesystem::path out, std::filesystem::path err)
            : pid_(pid), out_(std::move(out)), err_(std::move(err)) {}
        Running(const Running&) = delete;
        Running& operator=(const Running&) = delete;
        ~Running() { stop(SIGKILL); }

        std::string outSoFar() const { return bytesOf(out_); }
        std::string errSoFar() const { return bytesOf(err_); }
        Ended wait() {
            int status = 0;
            ::waitpid(std::exchange(pid_, 0), &status, 0);
            return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), bytesOf(out_), bytesOf(err_)};
        }
        void send(int signal) const { ::kill(pid_, signal); }
        void stop(int signal) {
            if (pid_ == 0) return;
            send(signal);
            wait();
        }

      private:
        pid_t pid_;
        std::filesystem::path out_;
        std::filesystem::path err_;
    };

    std::unique_ptr<Running> start(const Words& command) {
        const std::string number = std::to_string(++runs_);
        const auto out = scratch / ("out" + number);
        const auto err = scratch / ("err" + number);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        const int flags = O_WRONLY | O_CREAT | O_TRUNC;
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (givenOut ? *givenOut : out).c_str(), flags, 0600);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), flags, 0600);
        posix_spawn_file_actions_addchdir_np(&actions, project.c_str());
        Words environment;
        for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
        pid_t pid = 0;
        const int error = posix_spawnp(&pid, command.front().c_str(), &actions, nullptr, pointers(command).data(),
                                       pointers(environment).data());
        posix_spawn_file_actions_destroy(&actions);
        EXPECT_EQ(error, 0) << command.front();
        return std::make_unique<Running>(error == 0 ? pid : 0, out, err);
    }

    std::unique_ptr<Running> startGradus(Words words) {
        words.insert(words.begin(), program());
        return start(words);
    }
    Ended run(const Words& words) { return startGradus(words)->wait(); }
    Json runJson(Words words) {
        words.emplace_back("--json");
        return run(words).json();
    }

    void rules(std::string_view text = kGoodRules) { writeBytes(project / "gradus.toml", text); }
    void trusted() {
        rules();
        const Ended ended = run({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.err;
    }
    /// 0 where there is no log at all.
    std::int64_t events() {
        if (!std::filesystem::exists(stateDirectory().database())) return 0;
        return runJson({"audit", "verify"})["data"].value("events", std::int64_t{-1});
    }
    StateDirectory stateDirectory() const { return {state}; }

    /// Edits the database behind the program's back, with the schema's own guards taken away.
    void edit(const std::string& script) {
        Sql sql(stateDirectory().database(), Sql::Mode::kReadWrite);
        std::vector<std::pair<std::string, std::string>> triggers;
        {
            auto rows = sql("select name, sql from sqlite_schema where type = 'trigger'");
            while (rows.step()) triggers.emplace_back(rows.text(0), rows.text(1));
        }
        sql.script("pragma foreign_keys = off; pragma ignore_check_constraints = on");
        for (const auto& [name, text] : triggers) sql.script("drop trigger " + name);
        sql.script(script);
        for (const auto& [name, text] : triggers) sql.script(text);
    }

    ScratchDirectory scratch;
    std::filesystem::path state = scratch / "state";
    std::filesystem::path home = scratch / "home";
    std::filesystem::path project = scratch / "shop";
    std::map<std::string, std::string> variables{
        {"GRADUS_HOME", state}, {"HOME", home}, {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}, {"LC_ALL", "C.UTF-8"}};
    std::optional<std::filesystem::path> givenOut;  ///< where standard output goes instead

  private:
    static std::vector<char*> pointers(const Words& words) {
        std::vector<char*> out;
        out.reserve(words.size() + 1);
        for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
        out.push_back(nullptr);
        return out;
    }
    int runs_ = 0;
};

inline testing::AssertionResult has(const std::string& text, std::string_view piece) {
    if (text.find(piece) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "no '" << piece << "' in: " << text;
}

}  // namespace gradus::test
