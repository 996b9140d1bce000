#pragma once

#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus::test {

/// The program in a git repository with few stages, of which production is as the test says.
class TroubledProgram : public ClimbingProgram {
  protected:
    void rules(const std::string& stages, const std::string& rest, const std::string& policy = {}) {
        repository();
        otherRules(stages, rest, policy);
    }
    void otherRules(const std::string& stages, const std::string& rest, const std::string& policy = {}) {
        edit("gradus.toml", fmt::format("[pipeline]\nname = \"shop\"\nstages = [{}]\n[check.unit]\nrun = \"true\"\n{}"
                                        "[policy.local]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n"
                                        "freshness = \"allow\"\n"
                                        "[policy.production]\nextends = \"none\"\nalone = [\"person\"]\n{}",
                                        stages, rest, policy));
        commitAll("rules");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    std::string release(const std::string& more = {}) {
        return fmt::format("[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\n{}", production.native(),
                           more);
    }
    /// Production by commands, which cannot go back while the file `shut` is there, and print what `digest` holds.
    void commandStage(bool withStatus) {
        outside("deploy",
                "#!/bin/sh\ncd \"$(dirname \"$0\")\"\ncase $GRADUS_ACTION in\nstatus) cat digest ;;\n"
                "apply) printf %s \"$GRADUS_TREE_DIGEST\" > digest; test ! -e shut ;;\n"
                "rollback) test ! -e shut && printf %s \"$GRADUS_TREE_DIGEST\" > digest ;;\nesac\n");
        const std::string words = fmt::format("[\"sh\", \"{}\"]\n", (scratch / "outside/deploy").native());
        rules("\"local\", \"production\"", "[stage.production]\ndriver = \"command\"\napply = " + words +
                                               "rollback = " + words + (withStatus ? "status = " + words : ""));
    }
    /// p2 (c1) is in production, p4 (c2) got stuck there, p6 (c3) waits.
    void stuck(bool withStatus) {
        commandStage(withStatus);
        ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
        outside("shut", "");
        ASSERT_EQ(gradus({"promote", changed("echo v3 > app.txt")}).exit, 6);
        ASSERT_EQ(gradus({"promote", changed("echo u2 > lib/util.txt")}).exit, 8) << "it is closed";
        shell("rm '" + (scratch / "outside/shut").native() + "'");
    }
    std::string afterCheck(const std::string& script) {
        writeBytes(scratch / "after", script + "\n");
        return fmt::format("[check.after]\nrun = [\"sh\", \"{}\"]\non = \"host\"\nwhen = \"after\"\nretries = 0\n",
                           (scratch / "after").native());
    }
};

}  // namespace gradus::test
