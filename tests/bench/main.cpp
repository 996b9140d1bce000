// gradus_bench [--only SECTION] [--events N] [--rounds N] [--gradus PATH]: prints every figure beside its goal.
#include <sys/statfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "tests/bench/report.h"

namespace {

void describeMachine() {
    utsname system{};
    uname(&system);
    struct statfs where {};
    statfs(std::filesystem::temp_directory_path().c_str(), &where);
    fmt::print("{} cores, Linux {}, scratch file system {:#x}\n\n", std::thread::hardware_concurrency(), system.release,
               static_cast<unsigned long>(where.f_type));
}

struct Settings {
    std::string only;
    std::int64_t events = 10'000'000;
    int rounds = 100;
    std::string gradus = GRADUS_PROGRAM;
};

/// What is measured, in this order. A section is one function that prints its rows (report.h) and one line here.
struct Section {
    const char* name;
    void (*run)(const Settings& settings);
};
constexpr Section kSections[] = {
    {"sandbox", [](const Settings& settings) { gradus::bench::benchSandbox(GRADUS_JAIL, settings.rounds); }},
    {"command", [](const Settings& settings) { gradus::bench::benchCommand(settings.gradus); }},
    {"harvest", [](const Settings&) { gradus::bench::benchHarvest(); }},
    {"network", [](const Settings&) { gradus::bench::benchNetwork(GRADUS_JAIL); }},
    {"kept", [](const Settings&) { gradus::bench::benchKept(GRADUS_JAIL); }},
    {"promotion", [](const Settings&) { gradus::bench::benchPromotion(GRADUS_JAIL); }},
    {"queue", [](const Settings&) { gradus::bench::benchQueue(GRADUS_JAIL); }},
    {"writer", [](const Settings&) { gradus::bench::benchWriter(); }},
    {"release", [](const Settings&) { gradus::bench::benchRelease(); }},
    {"audit", [](const Settings& settings) { gradus::bench::benchAudit(settings.events); }},
};

std::string sections() {
    std::string names;
    for (const Section& section : kSections) names += fmt::format("{}{}", names.empty() ? "" : ", ", section.name);
    return names;
}

/// Asked for help, or not understood.
[[noreturn]] void explainAndEnd(const std::string& word) {
    const bool isAsked = word == "--help";
    if (!isAsked) fmt::print(stderr, "gradus_bench: '{}' is not known, or lacks its value\n", word);
    fmt::print(stderr, "usage: gradus_bench [--only SECTION] [--events N] [--rounds N] [--gradus PATH]\nsections: {}\n",
               sections());
    std::exit(isAsked ? 0 : 2);
}

Settings settingsFrom(int argc, char** argv) {
    Settings settings;
    for (int i = 1; i < argc; i += 2) {
        const std::string option = argv[i];
        if (i + 1 == argc) explainAndEnd(option);
        const std::string value = argv[i + 1];
        if (option == "--only") {
            settings.only = value;
            if (std::ranges::find(kSections, value, &Section::name) == std::end(kSections)) explainAndEnd(value);
        } else if (option == "--events") {
            settings.events = std::stoll(value);
        } else if (option == "--rounds") {
            settings.rounds = std::stoi(value);
        } else if (option == "--gradus") {
            settings.gradus = value;
        } else {
            explainAndEnd(option);
        }
    }
    return settings;
}

}  // namespace

int main(int argc, char** argv) {
    const Settings settings = settingsFrom(argc, argv);
    describeMachine();
    for (const Section& section : kSections)
        if (settings.only.empty() || settings.only == section.name) section.run(settings);
}
