// gradus_bench [--only SECTION] [--events N] [--rounds N] [--gradus PATH]: prints every figure beside its goal.
#include <sys/statfs.h>
#include <sys/utsname.h>

#include <filesystem>
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

Settings settingsFrom(int argc, char** argv) {
    Settings settings;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string option = argv[i];
        if (option == "--only") settings.only = argv[i + 1];
        if (option == "--events") settings.events = std::stoll(argv[i + 1]);
        if (option == "--rounds") settings.rounds = std::stoi(argv[i + 1]);
        if (option == "--gradus") settings.gradus = argv[i + 1];
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
