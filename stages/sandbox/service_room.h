#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stages/sandbox/clone.h"
#include "stages/sandbox/services.h"

namespace gradus {

/// The part of a sandbox that services run in: the program that keeps them, and a place for their logs. Both are added
/// to a plan before it is opened; the command is then run through that program.
class ServiceRoom {
  public:
    /// `nothing` is an empty directory of ours. Throws Error where the program is not installed.
    ServiceRoom(ClonePlan& plan, const std::filesystem::path& nothing);

    /// The command, with its services around it.
    Command around(Command command, const std::vector<ServiceRequest>& services, const Environment& caller) const;

    /// What became of them, from what the keeper wrote. `sandbox` is not closed yet. What is inside is not trusted to
    /// be well-formed.
    std::vector<ServiceReport> read(const Sandbox& sandbox, const std::vector<ServiceRequest>& services) const;
    /// Why the command was not run, if it was not: a service's problem, or its own.
    static std::optional<SetupFailure> failure(const std::vector<ServiceReport>& reports);
    /// The command could not be executed: errno.
    std::optional<int> notExecuted(const Sandbox& sandbox) const;

  private:
    std::size_t overlay_ = 0;
};

/// For an object: name, outcome and log of each.
std::string formatServices(const std::vector<ServiceReport>& reports);

}  // namespace gradus
