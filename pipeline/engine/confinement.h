#pragma once

#include <filesystem>
#include <vector>

#include "policies/language/pipeline.h"
#include "stages/sandbox/sandboxes.h"

namespace gradus {

/// What settings of [sandbox] say about a command: limits, network, guarantees, environment, hidden files. Its words
/// and where it starts are the caller's to add. Throws Error(kNotAllowed) for what no sandbox gives yet.
CommandRequest confinedBy(const Settings& settings);

/// The same for a check that runs in a sandbox: its own settings under everything that its stage and policy demand.
CommandRequest confinedCheck(const Pipeline& pipeline, const Stage& stage, const Check& check,
                             const std::filesystem::path& project);

/// The services of the rules that are called so. Throws Error for one that there is not.
std::vector<ServiceRequest> servicesOf(const Pipeline& pipeline, const std::vector<std::string>& names);

/// What [sandbox] wants shown besides the project; relative paths are relative to it.
std::vector<std::filesystem::path> shownBy(const Settings& sandbox, const std::filesystem::path& project);

/// Where later stages put things: a sandbox of the project must not see them.
std::vector<std::filesystem::path> targetsOf(const Pipeline& pipeline, const std::filesystem::path& project);

}  // namespace gradus
