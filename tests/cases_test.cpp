// The tables of cases in the pages: made from what the tests that ran have left below the build directory.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace gradus {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBegin = "<!-- cases: made by cases_tests from test results; GRADUS_UPDATE=1 writes it anew -->";
/// A remark that stands only as long as no test names the case.
constexpr std::string_view kElse = "else:";
constexpr const char* kEnd = "<!-- end of cases -->";

std::string readAll(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string trimmed(const std::string& text) {
    const std::size_t first = text.find_first_not_of(' ');
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// One line of tests/cases.txt: "id | words" or "id | words | why there is no test, or what it leaves open".
struct Case {
    std::string id;
    std::string words;
    std::string remark;
    std::string page;
};

/// A heading ("# text") is a case without words.
std::vector<Case> knownCases() {
    std::vector<Case> cases;
    std::string page;
    std::istringstream lines(readAll(GRADUS_SOURCE_DIR "/tests/cases.txt"));
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line.starts_with("//")) continue;
        if (line.starts_with("@ ")) {
            page = line.substr(2);
            continue;
        }
        std::vector<std::string> fields;
        std::istringstream parts(line);
        for (std::string field; std::getline(parts, field, '|');) fields.push_back(trimmed(field));
        fields.resize(3);
        cases.push_back({fields[0], fields[1], fields[2], page});
    }
    return cases;
}

struct Record {
    fs::path program;
    std::string test;  ///< with its parameters, as gtest names it
    std::string result;
    std::vector<std::string> cases;
};

std::optional<Record> readRecord(const fs::path& path) {
    std::ifstream file(path);
    Record record;
    std::string program;
    std::string cases;
    if (!std::getline(file, program) || !std::getline(file, record.test) || !std::getline(file, record.result) ||
        !std::getline(file, cases))
        return std::nullopt;
    record.program = program;
    std::istringstream ids(cases);
    record.cases.assign(std::istream_iterator<std::string>(ids), {});
    std::error_code error;
    // A record is about the program that made it; one that was built anew since has not said anything yet.
    if (fs::last_write_time(path, error) < fs::last_write_time(record.program, error) || error) return std::nullopt;
    return record;
}

std::vector<Record> records() {
    std::vector<Record> all;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(GRADUS_BINARY_DIR "/cases", error))
        if (auto record = readRecord(entry.path())) all.push_back(std::move(*record));
    return all;
}

// "Backends/Contract.Works/process" -> "Contract.Works": for which parameters it ran is not the table's business.
std::string plainName(const std::string& test) {
    const std::size_t dot = test.rfind('.');
    const std::size_t prefix = test.substr(0, dot).rfind('/');
    const std::string tail = prefix == std::string::npos ? test : test.substr(prefix + 1);
    return tail.substr(0, tail.find('/'));
}

using TestsByCase = std::map<std::string, std::set<std::string>>;

TestsByCase testsByCase(const std::vector<Record>& all) {
    TestsByCase tests;
    for (const Record& record : all)
        for (const std::string& id : record.cases) tests[id].insert(plainName(record.test));
    return tests;
}

std::string rowOf(const Case& one, const std::set<std::string>& tests) {
    if (one.id.starts_with('#'))
        return "\n**" + trimmed(one.id.substr(1)) + "**\n\n| case | words | tested by, or why not |\n|---|---|---|\n";
    std::string shown;
    for (const std::string& test : tests) shown += (shown.empty() ? "" : ", ") + ("`" + test + "`");
    const bool onlyElse = one.remark.starts_with(kElse);
    if (onlyElse && tests.empty()) shown = trimmed(one.remark.substr(kElse.size()));
    if (!onlyElse && !one.remark.empty()) shown += (shown.empty() ? "" : "; ") + one.remark;
    return "| " + one.id + " | " + one.words + " | " + shown + " |\n";
}

std::string tableOf(const std::string& page, const TestsByCase& tests) {
    std::string table = std::string(kBegin) + "\n";
    for (const Case& one : knownCases()) {
        if (one.page != page) continue;
        const auto found = tests.find(one.id);
        table += rowOf(one, found == tests.end() ? std::set<std::string>() : found->second);
    }
    return table + "\n" + kEnd;
}

std::set<std::string> pages() {
    std::set<std::string> all;
    for (const Case& one : knownCases()) all.insert(one.page);
    return all;
}

fs::path fileOf(const std::string& page) { return fs::path(GRADUS_SOURCE_DIR) / page; }

std::string committedTable(const std::string& page) {
    const std::string text = readAll(fileOf(page));
    const std::size_t begin = text.find(kBegin);
    const std::size_t end = text.find(kEnd);
    return begin == std::string::npos || end == std::string::npos ? "" : text.substr(begin, end - begin);
}

void writeTable(const std::string& page, const std::string& table) {
    std::string text = readAll(fileOf(page));
    const std::size_t begin = text.find(kBegin);
    const std::size_t end = text.find(kEnd);
    ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << page << " has no place for the table";
    text.replace(begin, end - begin + std::string(kEnd).size(), table);
    std::ofstream(fileOf(page), std::ios::binary) << text;
}

/// What a committed table says, read back: `Suite.Name` in the third column.
void readTable(const std::string& table, TestsByCase& tests) {
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("| ")) continue;
        const std::string id = line.substr(2, line.find(' ', 2) - 2);
        std::size_t at = line.find('|', line.find('|', 2) + 1);
        while (at != std::string::npos && (at = line.find('`', at)) != std::string::npos) {
            const std::size_t end = line.find('`', at + 1);
            const std::string name = line.substr(at + 1, end - at - 1);
            if (name.find('.') != std::string::npos && name.find(' ') == std::string::npos) tests[id].insert(name);
            at = end + 1;
        }
    }
}

TestsByCase testsInTables() {
    TestsByCase tests;
    for (const std::string& page : pages()) readTable(committedTable(page), tests);
    return tests;
}

TEST(Cases, EveryRecordNamesAKnownCaseAndDidNotFail) {
    std::set<std::string> known;
    for (const Case& one : knownCases()) EXPECT_TRUE(known.insert(one.id).second) << one.id << " stands there twice";
    for (const Record& record : records()) {
        EXPECT_NE(record.result, "failed") << record.test;
        for (const std::string& id : record.cases)
            EXPECT_TRUE(known.contains(id))
                << record.test << " names " << id << ", which tests/cases.txt does not have";
    }
}

// With only some tests run since they were built, what is missing cannot be judged; what is there can.
TEST(Cases, TheTablesAreWhatTheTestsSay) {
    const TestsByCase ran = testsByCase(records());
    if (std::getenv("GRADUS_UPDATE") != nullptr) {
        TestsByCase tests = std::getenv("GRADUS_UPDATE") == std::string("more") ? testsInTables() : TestsByCase();
        for (const auto& [id, names] : ran) tests[id].insert(names.begin(), names.end());
        for (const std::string& page : pages()) writeTable(page, tableOf(page, tests));
    }
    const TestsByCase listed = testsInTables();
    for (const std::string& page : pages())
        EXPECT_EQ(committedTable(page) + kEnd, tableOf(page, listed))
            << "words or remarks differ in " << page << "; run with GRADUS_UPDATE=1";
    for (const auto& [id, names] : ran)
        for (const std::string& name : names)
            EXPECT_TRUE(listed.contains(id) && listed.at(id).contains(name))
                << name << " shows " << id << ", and the table does not say so; run with GRADUS_UPDATE=1";
    std::set<std::string> silent;
    for (const auto& [id, names] : listed)
        for (const std::string& name : names)
            if (!ran.contains(id) || !ran.at(id).contains(name)) silent.insert(name + " for " + id);
    if (silent.empty()) return;
    if (std::getenv("GRADUS_CASES_COMPLETE") != nullptr)
        FAIL() << *silent.begin() << " and " << silent.size() - 1 << " more did not run";
    GTEST_SKIP() << silent.size() << " tests of the table have not run since they were built, such as "
                 << *silent.begin();
}

TEST(Cases, EveryCaseHasATestOrAReason) {
    const TestsByCase tests = testsInTables();
    for (const Case& one : knownCases())
        EXPECT_TRUE(one.id.starts_with('#') || tests.contains(one.id) || !one.remark.empty())
            << one.id << " has neither a test nor a reason why not";
}

}  // namespace
}  // namespace gradus
