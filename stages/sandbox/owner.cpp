#include "stages/sandbox/owner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>

#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

struct ProcessStat {
    char state = '?';
    std::int64_t startTime = 0;
};

// readSmallFile does not fit: a process may end between open and read, which is an answer here.
std::optional<std::string> readProcess(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char text[4096];
    const ssize_t size = file ? ::read(file.get(), text, sizeof text) : -1;
    if (size <= 0) return std::nullopt;
    return std::string(text, static_cast<std::size_t>(size));
}

// "PID (name) S ppid …": the name may hold anything, so fields are counted from the last bracket.
std::optional<ProcessStat> readStat(std::int64_t pid) {
    const auto text = readProcess("/proc/" + std::to_string(pid) + "/stat");
    const std::size_t bracket = text ? text->rfind(')') : std::string::npos;
    if (bracket == std::string::npos || bracket + 2 >= text->size()) return std::nullopt;
    ProcessStat stat;
    stat.state = (*text)[bracket + 2];
    std::size_t at = bracket + 2;
    for (int field = 3; field < 22; ++field) {
        at = text->find(' ', at);
        if (at == std::string::npos) return std::nullopt;
        ++at;
    }
    const char* const end = text->data() + text->size();
    if (std::from_chars(text->data() + at, end, stat.startTime).ec != std::errc()) return std::nullopt;
    return stat;
}

std::string bootId() {
    std::string id = readSmallFile("/proc/sys/kernel/random/boot_id", 128, "the boot id");
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
}

std::int64_t pidNamespace() {
    struct stat info {};
    if (::stat("/proc/self/ns/pid", &info) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot look at /proc/self/ns/pid: {}", errnoText(errno))
            .hint("is /proc mounted?");
    return static_cast<std::int64_t>(info.st_ino);
}

// A first thread that ended shows as a zombie while others of its process go on.
bool hasOtherThreads(std::int64_t pid) {
    std::error_code error;
    const fs::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", error);
    return error || std::distance(begin(tasks), end(tasks)) > 1;
}

}  // namespace

std::optional<ProcessIdentity> processOf(std::int64_t pid) {
    const auto stat = readStat(pid);
    if (!stat) return std::nullopt;
    return ProcessIdentity{bootId(), pidNamespace(), pid, stat->startTime};
}

ProcessIdentity thisProcess() {
    if (auto process = processOf(::getpid())) return *process;
    throw Error(ErrorCode::kInfrastructure, "cannot read /proc/{}/stat", ::getpid()).hint("is /proc mounted?");
}

bool isProvenDead(const ProcessIdentity& process) {
    if (process.bootId != bootId()) return true;
    if (process.pidNamespace != pidNamespace()) return false;
    if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return true;
    const auto stat = readStat(process.pid);
    if (!stat) return false;
    if (stat->startTime != process.startTime) return true;
    return (stat->state == 'Z' || stat->state == 'X') && !hasOtherThreads(process.pid);
}

}  // namespace gradus
