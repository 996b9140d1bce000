#include "stages/sandbox/service_room.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "policies/language/duration.h"
#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr const char* kKeeper = "/run/gradus/services";
constexpr const char* kPlace = "/run/gradus/log";
constexpr std::size_t kLogHead = std::size_t{64} * 1024;
constexpr std::size_t kLogTail = std::size_t{192} * 1024;
constexpr std::size_t kStatusCap = std::size_t{64} * 1024;
constexpr std::size_t kTailShown = 600;

fs::path findKeeper() {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    for (const fs::path& candidate : {here / "gradus-services", here / "../libexec/gradus/gradus-services"})
        if (::access(candidate.c_str(), X_OK) == 0) return fs::canonical(candidate);
    throw Error(ErrorCode::kInfrastructure, "gradus-services is neither beside {} nor in ../libexec/gradus",
                here.native())
        .hint("install it with the program: cmake --install");
}

void addList(std::vector<std::string>& words, const std::vector<std::string>& list) {
    words.push_back(std::to_string(list.size()));
    words.insert(words.end(), list.begin(), list.end());
}

std::vector<std::string> resolved(const std::vector<std::string>& passed, const Environment& caller) {
    std::vector<std::string> all;
    for (const std::string& word : passed) {
        if (word.find('=') != std::string::npos) {
            all.push_back(word);
        } else if (const auto value = caller(word)) {
            all.push_back(word + "=" + *value);
        }
    }
    return all;
}

// Whatever lies there: only a regular file is read, and only so much of it.
FileDescriptor openLog(int directory, const std::string& name, std::uint64_t& size) {
    FileDescriptor file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
    size = static_cast<std::uint64_t>(info.st_size);
    return file;
}

std::string readAt(int file, std::uint64_t at, std::size_t most) {
    std::string text(most, '\0');
    const ssize_t got = ::pread(file, text.data(), text.size(), static_cast<off_t>(at));
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
}

void readLog(int directory, ServiceReport& report) {
    const FileDescriptor file = openLog(directory, report.name + ".log", report.logBytes);
    if (!file) return;
    if (report.logBytes <= kLogHead + kLogTail) {
        report.log = readAt(file.get(), 0, kLogHead + kLogTail);
        return;
    }
    report.log = readAt(file.get(), 0, kLogHead);
    report.log += fmt::format("\n[{} bytes left out]\n", report.logBytes - kLogHead - kLogTail);
    report.log += readAt(file.get(), report.logBytes - kLogTail, kLogTail);
}

std::string tailOf(const std::string& log) {
    std::string tail = log.size() > kTailShown ? log.substr(log.size() - kTailShown) : log;
    while (!tail.empty() && (tail.back() == '\n' || tail.back() == ' ')) tail.pop_back();
    return tail.empty() ? "it printed nothing" : "its log ends:\n" + tail;
}

struct StatusLine {
    std::string name;
    std::string word;
    long number = 0;
};

std::vector<StatusLine> statusIn(int directory) {
    std::uint64_t size = 0;
    const FileDescriptor file = openLog(directory, "status", size);
    std::vector<StatusLine> lines;
    if (!file) return lines;
    const std::string text = readAt(file.get(), 0, kStatusCap);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        const std::size_t first = line.find('\t');
        const std::size_t second = line.find('\t', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        StatusLine one{line.substr(0, first), line.substr(first + 1, second - first - 1), 0};
        std::from_chars(line.data() + second + 1, line.data() + line.size(), one.number);
        lines.push_back(std::move(one));
    }
    return lines;
}

void take(const StatusLine& line, const ServiceRequest& service, ServiceReport& report) {
    const auto status = static_cast<int>(line.number);
    if (line.word == "ready") {
        report.ready = true;
        report.readyMillis = static_cast<std::uint64_t>(std::max(line.number, 0L));
    } else if (line.word == "ended") {
        report.endedEarly = true;
        report.status = status;
    } else if (line.word == "stopped") {
        report.status = status;
    } else if (line.word == "forced") {
        report.forced = true;
    } else if (line.word == "died") {
        report.status = status;
        report.problem = status == 127 ? "it could not be started" : fmt::format("it ended with {}", status);
    } else if (line.word == "late") {
        report.problem = "it was not ready within " + formatDuration(service.startTimeout);
    } else if (line.word == "not-started") {
        report.problem = "it could not be started: " + errnoText(status);
    }
}

}  // namespace

ServiceRoom::ServiceRoom(ClonePlan& plan, const fs::path& nothing) {
    plan.workspace.binds.push_back({findKeeper(), kKeeper, false});
    overlay_ = plan.workspace.overlays.size();
    plan.workspace.overlays.push_back({kPlace, {nothing}, std::nullopt, std::nullopt, true});
    // Its logs are ours: no side effect of the command.
    plan.workspace.projectPlaces.emplace_back(kPlace);
}

Command ServiceRoom::around(Command command, const std::vector<ServiceRequest>& services,
                            const Environment& caller) const {
    std::vector<std::string> words{kKeeper, kPlace};
    for (const ServiceRequest& service : services) {
        words.push_back(service.name);
        words.push_back(std::to_string(service.startTimeout.count()));
        words.push_back(std::to_string(service.stopTimeout.count()));
        words.push_back(std::to_string(service.port.value_or(0)));
        words.push_back(service.readyLog);
        addList(words, resolved(service.passed, caller));
        addList(words, service.ready);
        addList(words, service.run);
    }
    words.emplace_back("--");
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    command.arguments = std::move(words);
    command.program.reset();
    return command;
}

std::vector<ServiceReport> ServiceRoom::read(const Sandbox& sandbox,
                                             const std::vector<ServiceRequest>& services) const {
    const int directory = sandbox.upper(overlay_);
    std::vector<ServiceReport> reports;
    const std::vector<StatusLine> lines = statusIn(directory);
    for (const ServiceRequest& service : services) {
        ServiceReport& report = reports.emplace_back();
        report.name = service.name;
        readLog(directory, report);
        for (const StatusLine& line : lines)
            if (line.name == service.name) take(line, service, report);
    }
    return reports;
}

std::optional<SetupFailure> ServiceRoom::failure(const std::vector<ServiceReport>& reports) {
    for (const ServiceReport& report : reports)
        if (!report.problem.empty())
            return SetupFailure{"service " + report.name, 0, report.problem + "; " + tailOf(report.log)};
    return std::nullopt;
}

std::optional<int> ServiceRoom::notExecuted(const Sandbox& sandbox) const {
    for (const StatusLine& line : statusIn(sandbox.upper(overlay_)))
        if (line.name == "-" && line.word == "not-executed") return static_cast<int>(line.number);
    return std::nullopt;
}

std::string formatServices(const std::vector<ServiceReport>& reports) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const ServiceReport& report : reports) {
        nlohmann::ordered_json one{{"name", report.name},
                                   {"ready", report.ready},
                                   {"ready_ms", report.readyMillis},
                                   {"ended_early", report.endedEarly},
                                   {"status", report.status ? nlohmann::ordered_json(*report.status) : nullptr},
                                   {"forced", report.forced},
                                   {"problem", report.problem},
                                   {"log_bytes", report.logBytes},
                                   {"log", report.log}};
        all.push_back(std::move(one));
    }
    return all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace gradus
