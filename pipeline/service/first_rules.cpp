#include "pipeline/service/first_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLargestRead = std::uint64_t{1} << 20;

/// Nothing for a file that is not there, not a plain one, or too large to be meant.
std::optional<std::string> contentOf(const fs::path& file) {
    try {
        return readSmallFile(file, kLargestRead, "a file of the project");
    } catch (const Error&) {
        return std::nullopt;
    }
}

bool isFile(const fs::path& file) {
    std::error_code error;
    return fs::is_regular_file(file, error);
}

bool hasLineStarting(const std::string& text, std::string_view start) {
    return text.starts_with(start) || text.find("\n" + std::string(start)) != std::string::npos;
}

std::string findMake(const fs::path& project) {
    for (const char* name : {"GNUmakefile", "makefile", "Makefile"})
        if (const auto text = contentOf(project / name))
            return hasLineStarting(*text, "test:") ? fmt::format("{}, with a target 'test'", name) : "";
    return {};
}

std::string findNpm(const fs::path& project) {
    const auto text = contentOf(project / "package.json");
    if (!text) return {};
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    const auto test = nlohmann::json::json_pointer("/scripts/test");
    if (json.is_discarded() || !json.is_object() || !json.contains(test) || !json[test].is_string()) return {};
    // What `npm init` writes says no to everything.
    if (json[test].get<std::string>().find("no test specified") != std::string::npos) return {};
    return "package.json, with a script 'test'";
}

bool holdsPythonTests(const fs::path& directory) {
    std::error_code error;
    for (fs::directory_iterator it(directory, error); !error && it != fs::directory_iterator(); it.increment(error)) {
        const std::string name = it->path().filename();
        if ((name.starts_with("test_") && name.ends_with(".py")) || name.ends_with("_test.py")) return true;
    }
    return false;
}

std::string findPytest(const fs::path& project) {
    if (isFile(project / "pytest.ini")) return "pytest.ini";
    for (const char* name : {"pyproject.toml", "setup.cfg", "tox.ini"})
        if (contentOf(project / name).value_or("").find("pytest") != std::string::npos)
            return fmt::format("{}, which mentions pytest", name);
    for (const char* name : {"tests", "test", "."})
        if (holdsPythonTests(project / name)) return fmt::format("Python tests in {}", name);
    return {};
}

std::string findCMake(const fs::path& project) {
    const auto text = contentOf(project / "CMakeLists.txt");
    if (!text) return {};
    const bool tests = text->find("enable_testing") != std::string::npos || text->find("CTest") != std::string::npos;
    return tests ? "CMakeLists.txt, with tests" : "";
}

std::string findCargo(const fs::path& project) { return isFile(project / "Cargo.toml") ? "Cargo.toml" : ""; }
std::string findGo(const fs::path& project) { return isFile(project / "go.mod") ? "go.mod" : ""; }

std::string findAutotools(const fs::path& project) {
    if (isFile(project / "Makefile") || isFile(project / "CMakeLists.txt")) return {};
    for (const char* name : {"configure.ac", "configure.in", "configure"})
        if (isFile(project / name)) return name;
    return {};
}

/// What is installed for the project alone is not where the system's Python looks.
void useEnvironment(const fs::path& project, FoundCheck& check) {
    for (const char* name : {".venv", "venv"}) {
        std::error_code error;
        if (!fs::exists(project / name / "bin/python", error)) continue;
        check.run = fmt::format("\"{}/bin/python -m pytest -q\"", name);
        check.found +=
            fmt::format(" and {0}, which git usually ignores: a release has it only as outputs of a check", name);
        return;
    }
}

std::optional<FoundCheck> findScript(const fs::path& project) {
    for (const char* name : {"test.sh", "tests.sh", "run-tests.sh", "run_tests.sh", "runtests.sh", "tests/run.sh",
                             "test/run.sh", "tests/test.sh", "test/test.sh", "scripts/test.sh", "script/test"})
        if (isFile(project / name)) {
            std::error_code error;
            const bool runs =
                (fs::status(project / name, error).permissions() & fs::perms::owner_exec) != fs::perms::none;
            return FoundCheck{"script", name, fmt::format("\"{}{}\"", runs ? "./" : "sh ", name)};
        }
    return std::nullopt;
}

/// One row per way to test. `find` says what was found, or nothing.
struct Way {
    const char* name;
    std::string (*find)(const fs::path& project);
    const char* run;
};
constexpr std::array kWays{
    Way{"make", &findMake, "\"make test\""},
    Way{"cmake", &findCMake,
        "[\"sh\", \"-c\", \"cmake -S . -B build-gradus && cmake --build build-gradus && ctest --test-dir build-gradus "
        "--output-on-failure\"]"},
    Way{"autotools", &findAutotools,
        "[\"sh\", \"-c\", \"test -x configure || autoreconf -fi; ./configure && make check\"]"},
    Way{"npm", &findNpm, "\"npm test\""},
    Way{"pytest", &findPytest, "\"python3 -m pytest -q\""},
    // Without a network there is nothing to fetch; what is cached is there.
    Way{"cargo", &findCargo, "\"cargo test --offline\""},
    Way{"go", &findGo, "\"go test ./...\""},
};

std::string pipelineName(const fs::path& project) {
    std::string name = project.filename();
    const auto isPlain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    };
    std::replace_if(
        name.begin(), name.end(), [&](char c) { return !isPlain(c); }, '-');
    name.erase(0, std::min(name.find_first_not_of("-_"), name.size()));
    return name.empty() ? "project" : name.substr(0, 64);
}

}  // namespace

std::vector<FoundCheck> findChecks(const fs::path& project) {
    std::vector<FoundCheck> all;
    for (const Way& way : kWays)
        if (std::string found = way.find(project); !found.empty()) all.push_back({way.name, std::move(found), way.run});
    for (FoundCheck& check : all)
        if (check.name == "pytest") useEnvironment(project, check);
    // A script is what is left to go by where nothing else is.
    if (auto script = findScript(project); script && all.empty()) all.push_back(std::move(*script));
    return all;
}

std::string firstPipelineFile(const fs::path& project, const std::vector<FoundCheck>& checks) {
    std::string text = fmt::format(
        "# What a change to this project must pass, and where it goes. `gradus policy show` lists every rule in "
        "force,\n"
        "# `gradus trust` puts an edited file in force.\n"
        "\n"
        "[pipeline]\n"
        "name = \"{}\"\n"
        "stages = [\"sandbox\", \"local\"]  # a change climbs these in order; local is this work tree\n",
        pipelineName(project));
    if (checks.empty())
        text +=
            "\n"
            "# Nothing was found that tests this project. A check is a command; exit code 0 is a yes. It runs in a\n"
            "# sandbox, over the files as they would be, without a network.\n"
            "#\n"
            "# [check.tests]\n"
            "# run = \"make test\"\n";
    for (const FoundCheck& check : checks)
        text += fmt::format(
            "\n"
            "# Found: {}. Runs in a sandbox over the files as they would be, without a network; exit code 0 is a yes.\n"
            "[check.{}]\n"
            "run = {}\n"
            "timeout = \"10m\"\n",
            check.found, checks.size() == 1 ? "tests" : check.name, check.run);
    return text;
}

}  // namespace gradus
