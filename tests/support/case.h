#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

/// GRADUS_CASES("NS1", "OV34"); as the first statement of a test: it shows these cases of tests/cases.txt. What came of
/// it is written below the build directory, and from there into the tables of the pages (tests/cases_test.cpp).
#define GRADUS_CASES(...) ::gradus::test::recordCases({__VA_ARGS__})

namespace gradus::test {

inline constexpr const char* kCasesProperty = "cases";

inline void recordCases(std::initializer_list<std::string_view> ids) {
    std::string joined;
    for (const std::string_view id : ids) joined.append(joined.empty() ? "" : " ").append(id);
    ::testing::Test::RecordProperty(kCasesProperty, joined);
}

/// Writes one file per test that names a case: program, test, result, cases; one line each.
class CaseListener final : public ::testing::EmptyTestEventListener {
    void OnTestEnd(const ::testing::TestInfo& test) override {
        // A broken program under test says nothing about the real one.
        if (std::getenv("GRADUS_TEST_MUTANT") != nullptr) return;
        const ::testing::TestResult& result = *test.result();
        for (int i = 0; i < result.test_property_count(); ++i)
            if (std::string_view(result.GetTestProperty(i).key()) == kCasesProperty)
                write(test, result, result.GetTestProperty(i).value());
    }

    static void write(const ::testing::TestInfo& test, const ::testing::TestResult& result, const char* cases) {
        const std::string name = std::string(test.test_suite_name()) + "." + test.name();
        std::string file = std::string(GRADUS_BINARY_DIR "/cases/") + program_invocation_short_name + "." +
                           (::geteuid() == 0 ? "root." : "user.") + name;
        for (std::size_t at = sizeof(GRADUS_BINARY_DIR "/cases"); at < file.size(); ++at)
            if (file[at] == '/') file[at] = '~';
        ::unlink(file.c_str());
        const char* word = result.Skipped() ? "skipped" : result.Failed() ? "failed" : "passed";
        std::ofstream(file) << program_invocation_name << '\n' << name << '\n' << word << '\n' << cases << '\n';
    }
};

// Every program that includes this listens; gtest owns the listener.
inline const bool kCasesAreRecorded = [] {
    ::testing::UnitTest::GetInstance()->listeners().Append(new CaseListener);
    return true;
}();

}  // namespace gradus::test
