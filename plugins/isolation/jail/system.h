#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Thin owners and wrappers over system calls, for a program that throws nothing: failures are -1 with errno, or an
/// empty optional.
namespace gradus {

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor() { reset(); }

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    void reset();

  private:
    int fd_ = -1;
};

Descriptor openPath(int directory, const std::string& path, int flags);
/// The whole of a small kernel file; nothing (with errno) if it cannot be read.
std::optional<std::string> readText(const std::string& path);
std::optional<std::string> readTextAt(int directory, const std::string& path);
/// 0, or the errno. One write call: the kernel's control files take a value whole or not at all.
int writeText(const std::string& path, std::string_view text);

/// "/proc/self/fd/N": names what a descriptor is open on, whatever path leads there.
std::string descriptorPath(int fd);

std::optional<std::uint64_t> parseNumber(std::string_view text);
/// The number after `key` in "key value" lines.
std::optional<std::uint64_t> keyedNumber(std::string_view text, std::string_view key);
std::vector<std::string> splitWords(std::string_view text, std::string_view separators);

/// Nanoseconds that go on counting while the machine is suspended.
std::uint64_t bootNanos();

/// Field 22 of /proc/PID/stat: with the pid it names a process for the life of this boot.
std::optional<std::uint64_t> startTime(pid_t pid);

}  // namespace gradus
