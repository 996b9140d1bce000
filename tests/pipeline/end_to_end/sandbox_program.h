#pragma once

#include "tests/pipeline/end_to_end/program.h"
#include "tests/support/known_proofs.h"

namespace gradus::test {

/// Who runs the program: the tests' own user, or, where root runs them, an ordinary one.
enum class As { kSelf, kOrdinaryUser };

inline constexpr uid_t kOrdinaryUid = 41235;

/// The program with a git repository as its project, as one of two users.
class SandboxProgramTest : public ProgramTest, public testing::WithParamInterface<As> {
  protected:
    void SetUp() override {
        writeBytes(project / "README.md", "# Shop\n");
        writeBytes(project / "src/main.c", "int main(void) { return 0; }\n");
        writeBytes(project / "run.sh", "#!/bin/sh\necho ran\n");
        std::filesystem::permissions(project / "run.sh", std::filesystem::perms(0755));
        std::filesystem::create_symlink("README.md", project / "link");
        writeBytes(project / ".gitignore", "ignored/\n");
        if (GetParam() == As::kOrdinaryUser) becomeOrdinary();
        if (IsSkipped()) return;
        proofs_.emplace(state, GetParam() == As::kOrdinaryUser ? kOrdinaryUid : ::geteuid());
        // As few processes as will do: there are a thousand such tests.
        shell(
            "git init -q --template= && printf '[user]\\n\\tname = Ada\\n\\temail = ada@example.org\\n' >> "
            ".git/config && git add -A && git -c maintenance.auto=false commit -qm first");
    }

    Words startedBy;  ///< what starts every command of this test's user: env and its words, or nothing

    /// A program as this test's user, in the project.
    std::unique_ptr<Running> startCommand(Words words) {
        words.insert(words.begin(), startedBy.begin(), startedBy.end());
        if (GetParam() == As::kOrdinaryUser) {
            const Words prefix{"setpriv", "--reuid=41235", "--regid=41235", "--clear-groups"};
            words.insert(words.begin(), prefix.begin(), prefix.end());
        }
        return start(words);
    }
    Ended command(const Words& words) { return startCommand(words)->wait(); }
    std::unique_ptr<Running> startTry(const std::string& script) {
        return startCommand({program(), "try", "--", "sh", "-c", script});
    }
    /// Until the command inside says so.
    static void waitForUp(const Running& running) {
        for (int i = 0; i < 2000 && !has(running.outSoFar(), "up"); ++i) ::usleep(10'000);
        ASSERT_TRUE(has(running.outSoFar(), "up"));
    }
    Ended shell(const std::string& script) {
        Ended ended = command({"sh", "-c", script});
        EXPECT_EQ(ended.exit, 0) << script << ": " << ended.err;
        return ended;
    }
    Ended gradus(Words words) {
        words.insert(words.begin(), program());
        return command(words);
    }
    Json gradusJson(Words words) {
        words.insert(words.begin() + 1, "--json");
        return gradus(words).json();
    }
    Ended tried(const std::string& script, Words options = {}) {
        Words words{"try"};
        words.insert(words.end(), options.begin(), options.end());
        for (const char* word : {"--", "sh", "-c"}) words.emplace_back(word);
        words.push_back(script);
        return gradus(words);
    }
    Json triedJson(const std::string& script, Words options = {}) {
        options.emplace_back("--json");
        return tried(script, std::move(options)).json()["data"];
    }

    /// A file out here that this test's user owns.
    std::filesystem::path outside(const std::string& name, std::string_view bytes) {
        std::filesystem::path path = scratch / "outside" / name;
        writeBytes(path, bytes);
        if (GetParam() == As::kOrdinaryUser)
            start({"chown", "-R", "41235:41235", (scratch / "outside").native()})->wait();
        return path;
    }
    /// Every path of the project with type, mode, content and times, and the repository's own files too.
    std::string fingerprint() {
        return shell("find . -printf '%P %y %m %s %T@ %l\\n' | sort; find . -type f | sort | xargs -d '\\n' sha256sum")
            .out;
    }

  private:
    void becomeOrdinary() {
        if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
        if (command({"test", "-x", program()}).exit != 0) GTEST_SKIP() << "only root can reach the program";
        std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));
        for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch.path()))
            EXPECT_EQ(::lchown(entry.path().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
        EXPECT_EQ(::chown(scratch.path().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
    }

    std::optional<KnownProofs> proofs_;
};

inline std::string nameOfUser(const testing::TestParamInfo<As>& info) {
    return info.param == As::kSelf ? "AsSelf" : "AsOrdinaryUser";
}

inline std::map<std::string, std::string> kindsOf(const Json& data) {
    std::map<std::string, std::string> kinds;
    for (const Json& change : data.at("changes")) kinds[change.at("path")] = change.at("kind");
    return kinds;
}

}  // namespace gradus::test
