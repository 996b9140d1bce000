#pragma once

#include <filesystem>
#include <optional>

#include "plugins/host/host_command.h"
#include "store/file.h"
#include "store/state_directory.h"

namespace gradus {

/// The mark of the commands that a stage's promotions run on the host, one at a time.
std::filesystem::path commandMark(const StateDirectory& state, const std::filesystem::path& project,
                                  const std::string& stage);

/// Shows that a command runs, also to whoever comes after its driver was killed: a file that says which process it is
/// and that the command holds locked. At most one command per file at a time.
class CommandMark {
  public:
    /// Takes the place of what has ended. Throws Error(kBusy) while a command runs under it. Where no file can be made
    /// the command is not marked: a full disk keeps nobody from going back.
    explicit CommandMark(std::filesystem::path file);
    CommandMark(const CommandMark&) = delete;
    CommandMark& operator=(const CommandMark&) = delete;
    /// The command has ended; what it left in the background is not asked about.
    ~CommandMark();

    /// The same command, marked while it runs. This must outlive it.
    HostCommand marked(HostCommand command) const;

    /// The process of a command that its driver left behind, once `patience` was not enough for its end; 0 where it is
    /// not known which. Nothing: none runs.
    static std::optional<std::int64_t> stillRunning(const std::filesystem::path& file, Milliseconds patience);

  private:
    void note(pid_t command) const;

    std::filesystem::path file_;
    FileDescriptor lock_;
};

}  // namespace gradus
