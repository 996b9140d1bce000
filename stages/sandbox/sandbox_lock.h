#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string_view>

#include "store/file.h"
#include "store/model/clock.h"

namespace gradus {

/// Who may use one kept sandbox: an flock, which the kernel drops with its last holder. One at a time, also among the
/// threads of one process.
class SandboxLock {
  public:
    /// Throws Error(kBusy) naming the process that holds it, at once or after `most`; the same when cancelled. `option`
    /// is how the caller could have asked to wait; empty: there is no way.
    SandboxLock(const std::filesystem::path& file, const std::string& sandbox, Milliseconds most,
                const std::stop_token& cancel, std::string_view option);
    SandboxLock(SandboxLock&&) noexcept = default;
    SandboxLock& operator=(SandboxLock&&) = delete;
    ~SandboxLock();

    /// Nothing if somebody holds it.
    static std::optional<SandboxLock> attempt(const std::filesystem::path& file);
    /// The process that holds it right now, as far as can be told without taking it.
    static std::optional<pid_t> holder(const std::filesystem::path& file);

    /// Pid 1 of the command that runs under the lock, for whoever wants to watch it.
    void note(pid_t command) const;
    /// That one, while the lock is held; nothing if no command runs under it.
    static std::optional<pid_t> command(const std::filesystem::path& file);

    int descriptor() const { return file_.get(); }
    /// For a sandbox that is no more: whoever waits for the lock finds out that the file is another, or none.
    void removeFile() const;

  private:
    SandboxLock(std::filesystem::path path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}

    std::filesystem::path path_;
    FileDescriptor file_;
};

}  // namespace gradus
