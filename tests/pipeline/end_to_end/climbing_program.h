#pragma once

#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "tests/pipeline/end_to_end/sandbox_program.h"

namespace gradus::test {

/// The program in a git repository with a pipeline of four stages; production's health is asked of a file beside it.
class ClimbingProgram : public SandboxProgramTest {
  protected:
    std::filesystem::path staging = scratch / "staging";
    std::filesystem::path production = scratch / "production";

    /// As this test's user would, with an editor.
    void edit(const std::string& path, const std::string& text) {
        writeBytes(scratch / "text", text);
        shell(fmt::format("mkdir -p \"$(dirname '{0}')\" && cat '{1}' > '{0}'", path, (scratch / "text").native()));
    }
    void commitAll(const std::string& message) { shell("git add -A && git commit -q -m '" + message + "'"); }
    using SandboxProgramTest::fingerprint;
    std::string fingerprint(const std::filesystem::path& directory) {
        return shell("cd '" + directory.native() +
                     "' && find . -printf '%P %y %m %s %T@ %l\\n' | sort; find . -type f | sort | xargs -d '\\n' "
                     "sha256sum")
            .out;
    }
    /// Without what git keeps for itself, and without the times of directories, in which names came and went.
    std::string workTree() {
        return shell(
                   "find . -path ./.git -prune -o \\( -type d -printf '%P %y %m\\n' -o -printf '%P %y %m %s %T@ %l\\n' "
                   "\\) "
                   "| sort; find . -path ./.git -prune -o -type f -print | sort | xargs -d '\\n' sha256sum")
            .out;
    }

    void repository() {
        edit("app.txt", "v1\n");
        edit("lib/util.txt", "u1\n");
        // Says no to a tree that names the stage it is asked for.
        edit("check", "#!/bin/sh\nif grep -q \"^no-$1\" app.txt; then echo the answer is no; exit 1; fi\n");
        shell("chmod 755 check");
        commitAll("the shop");
    }

    std::string pipeline(std::string_view checks = {}, std::string_view health = {}) {
        std::string text =
            "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\", \"staging\", \"production\"]\n";
        if (checks.empty()) {
            for (const char* stage : {"sandbox", "local", "staging", "production"})
                text += fmt::format("[check.unit-{0}]\nrun = \"./check {0}\"\n", stage);
        } else {
            text += checks;
        }
        writeBytes(scratch / "health", health.empty() ? "! grep -q unhealthy app.txt\n" : std::string(health) + "\n");
        text += fmt::format("[check.health]\nrun = [\"sh\", \"{}\"]\non = \"host\"\nwhen = \"after\"\nretries = 0\n",
                            (scratch / "health").native());
        const auto names = [&](const std::string& own) {
            return checks.empty()
                       ? fmt::format("checks = [\"{}\"{}]\n", own, own == "unit-production" ? ", \"health\"" : "")
                       : fmt::format("checks = [\"unit\"{}]\n", own == "unit-production" ? ", \"health\"" : "");
        };
        text += "[stage.sandbox]\n" + names("unit-sandbox") + "[stage.local]\n" + names("unit-local");
        text += fmt::format("[stage.staging]\ndriver = \"release-directory\"\npath = \"{}\"\n", staging.native()) +
                names("unit-staging");
        text +=
            fmt::format("[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\n", production.native()) +
            names("unit-production");
        for (const char* policy : {"local", "staging", "production"})
            text += fmt::format("[policy.{}]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n", policy);
        return text;
    }

    void given(std::string_view checks = {}, std::string_view health = {}) {
        repository();
        edit("gradus.toml", pipeline(checks, health));
        commitAll("pipeline");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.err;
    }

    std::string sandboxWith(const std::string& script) {
        const Json json = gradusJson({"try", "--keep", "--", "sh", "-c", script});
        EXPECT_TRUE(json["data"].contains("sandbox")) << json.dump(2);
        return json["data"]["sandbox"].value("id", "s0");
    }
    /// A submitted change that did this in a sandbox.
    std::string changed(const std::string& script) {
        const Json json = gradusJson({"submit", "--from-sandbox", sandboxWith(script), "--title", script});
        EXPECT_TRUE(json["ok"] == true) << json.dump(2);
        return json["data"]["change"].value("id", "c0");
    }

    static std::string target(const std::filesystem::path& stage) {
        return std::filesystem::read_symlink(stage / "current").native();
    }
    /// Everything that a change must not have touched when it was stopped at that stage.
    std::vector<std::string> fingerprints(const std::string& stage) {
        std::vector<std::string> all;
        if (stage == "sandbox" || stage == "local") all.push_back(workTree());
        for (const auto& path : {staging, production})
            if (path != staging || stage != "production")
                all.push_back(std::filesystem::exists(path / "current") ? fingerprint(path) : "none");
        return all;
    }

    /// The program, called by somebody else.
    Ended as(const std::string& actor, const Words& words) {
        const std::string before = variables["GRADUS_ACTOR"];
        variables["GRADUS_ACTOR"] = actor;
        Ended ended = gradus(words);
        variables["GRADUS_ACTOR"] = before;
        if (before.empty()) variables.erase("GRADUS_ACTOR");
        return ended;
    }

    /// From now on the program sees a clock that somebody set this far off ("+6h", "-1d"). Something: why that cannot
    /// be had here.
    std::string clockOff(const std::string& by) {
#ifdef __SANITIZE_ADDRESS__
        return "the sanitizer wants to be loaded first";
#endif
        const std::filesystem::path library = "/usr/lib/" GRADUS_ARCHITECTURE "/faketime/libfaketime.so.1";
        if (!std::filesystem::exists(library)) return "there is no " + library.native();
        startedBy = {"env", "LD_PRELOAD=" + library.native(), "FAKETIME=" + by, "NO_FAKE_STAT=1",
                     "FAKETIME_DONT_FAKE_MONOTONIC=1"};
        return "";
    }

    std::string stateOf(const std::string& promotion) {
        const Json json = gradusJson({"why", promotion});
        return json["ok"] == true ? json["data"]["promotion"]["state"].get<std::string>() : "";
    }
    void awaitState(const std::string& promotion, const std::string& wanted) {
        for (int i = 0; i < 600 && stateOf(promotion) != wanted; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ASSERT_EQ(stateOf(promotion), wanted);
    }

    /// The log verifies, and the state follows from it.
    void expectWhole() {
        const Ended ended = gradus({"audit", "verify"});
        EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
        const Ended check = gradus({"store", "check"});
        EXPECT_EQ(check.exit, 0) << check.out << check.err;
    }
};

}  // namespace gradus::test
