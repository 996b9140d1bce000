#pragma once

#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <ostream>
#include <string>

namespace gradus::test {

/// A program of cases over code that breaks one promise, and the case that must notice.
struct Mutant {
    std::string name;
    std::string caughtBy;
};

inline std::ostream& operator<<(std::ostream& out, const Mutant& mutant) { return out << mutant.name; }
inline std::string nameOfMutant(const testing::TestParamInfo<Mutant>& info) { return info.param.name; }

/// `programs` is how the names of the programs begin, with their directory.
inline void expectCaught(const Mutant& mutant, const std::string& programs) {
    const std::string command =
        "GRADUS_TEST_MUTANT=1 '" + programs + mutant.name + "' --gtest_filter='" + mutant.caughtBy + "' 2>&1";
    FILE* output = ::popen(command.c_str(), "r");
    ASSERT_NE(output, nullptr);
    std::string said;
    for (int c = 0; (c = ::fgetc(output)) != EOF;) said += static_cast<char>(c);
    const int status = ::pclose(output);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status << said;
    EXPECT_NE(said.find("[  FAILED  ] " + mutant.caughtBy), std::string::npos) << said;
}

}  // namespace gradus::test
