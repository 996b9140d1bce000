#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gradus {

/// A way to test a project, told from its files.
struct FoundCheck {
    std::string name;   ///< of the check, where there are several
    std::string found;  ///< "Makefile, with a target 'test'"
    std::string run;    ///< a TOML value
};

/// What a project can be tested with: make, CMake, npm, pytest, cargo, go. Reads a few small files, runs nothing.
std::vector<FoundCheck> findChecks(const std::filesystem::path& project);

/// A small pipeline file with comments: stages sandbox and local, and these checks.
std::string firstPipelineFile(const std::filesystem::path& project, const std::vector<FoundCheck>& checks);

}  // namespace gradus
