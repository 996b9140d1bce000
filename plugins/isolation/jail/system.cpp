#include "plugins/isolation/jail/system.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace gradus {

void Descriptor::reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Descriptor openPath(int directory, const std::string& path, int flags) {
    while (true) {
        const int fd = ::openat(directory, path.c_str(), flags | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EINTR) return Descriptor(fd);
    }
}

std::optional<std::string> readTextAt(int directory, const std::string& path) {
    const Descriptor file = openPath(directory, path, O_RDONLY);
    if (!file) return std::nullopt;
    std::string text;
    char buffer[8192];
    while (true) {
        const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) return text;
        text.append(buffer, static_cast<std::size_t>(got));
    }
}

std::optional<std::string> readText(const std::string& path) { return readTextAt(AT_FDCWD, path); }

int writeText(const std::string& path, std::string_view text) {
    const Descriptor file = openPath(AT_FDCWD, path, O_WRONLY);
    if (!file) return errno;
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0) return errno;
    return static_cast<std::size_t>(put) == text.size() ? 0 : EIO;
}

std::string descriptorPath(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

std::optional<std::uint64_t> parseNumber(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<std::uint64_t> keyedNumber(std::string_view text, std::string_view key) {
    for (const std::string& line : splitWords(text, "\n")) {
        const std::string_view view = line;
        if (!view.starts_with(key) || view.size() <= key.size()) continue;
        const std::size_t value = view.find_first_not_of(" \t:", key.size());
        if (value == key.size() || value == std::string_view::npos) continue;
        return parseNumber(view.substr(value, view.find(' ', value) - value));
    }
    return std::nullopt;
}

std::vector<std::string> splitWords(std::string_view text, std::string_view separators) {
    std::vector<std::string> words;
    while (true) {
        const std::size_t start = text.find_first_not_of(separators);
        if (start == std::string_view::npos) return words;
        const std::size_t end = text.find_first_of(separators, start);
        words.emplace_back(text.substr(start, end - start));
        if (end == std::string_view::npos) return words;
        text.remove_prefix(end);
    }
}

std::uint64_t bootNanos() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

std::optional<std::uint64_t> startTime(pid_t pid) {
    const std::optional<std::string> stat = readText("/proc/" + std::to_string(pid) + "/stat");
    // The name in brackets may hold anything, so fields are counted from its end: the state is field 3.
    const std::size_t bracket = stat ? stat->rfind(')') : std::string::npos;
    if (bracket == std::string::npos) return std::nullopt;
    const std::vector<std::string> fields = splitWords(std::string_view(*stat).substr(bracket + 1), " ");
    if (fields.size() < 20) return std::nullopt;
    return parseNumber(fields[19]);
}

}  // namespace gradus
