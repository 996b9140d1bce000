// gradus_bench [--events N] [--gradus PATH]: prints every figure beside its goal.
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

}  // namespace

int main(int argc, char** argv) {
    std::int64_t events = 10'000'000;
    std::string gradus = GRADUS_PROGRAM;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::string(argv[i]) == "--events") events = std::stoll(argv[i + 1]);
        if (std::string(argv[i]) == "--gradus") gradus = argv[i + 1];
    }
    describeMachine();
    gradus::bench::benchCommand(gradus);
    gradus::bench::benchWriter();
    gradus::bench::benchAudit(events);
}
