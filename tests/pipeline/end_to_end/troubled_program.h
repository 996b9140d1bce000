#pragma once

#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus::test {

/// The program in a git repository with few stages, of which production is as the test says.
class TroubledProgram : public ClimbingProgram {
  protected:
    void rules(const std::string& stages, const std::string& rest) {
        repository();
        otherRules(stages, rest);
    }
    void otherRules(const std::string& stages, const std::string& rest) {
        edit("gradus.toml", fmt::format("[pipeline]\nname = \"shop\"\nstages = [{}]\n[check.unit]\nrun = \"true\"\n{}"
                                        "[policy.local]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n"
                                        "freshness = \"allow\"\n"
                                        "[policy.production]\nextends = \"none\"\nalone = [\"person\"]\n",
                                        stages, rest));
        commitAll("rules");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    std::string release(const std::string& more = {}) {
        return fmt::format("[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\n{}", production.native(),
                           more);
    }
    std::string afterCheck(const std::string& script) {
        writeBytes(scratch / "after", script + "\n");
        return fmt::format("[check.after]\nrun = [\"sh\", \"{}\"]\non = \"host\"\nwhen = \"after\"\nretries = 0\n",
                           (scratch / "after").native());
    }
};

}  // namespace gradus::test
