#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/model/digest.h"

namespace gradus {

/// A file that takes part in the rules: its path relative to the project, with '/' between parts, and its bytes.
struct RuleFile {
    std::string path;
    std::string bytes;
    bool operator==(const RuleFile&) const = default;
};

/// Everything a project says about its rules: gradus.toml and .gradus/policies/*.toml, nothing else. Loading works on
/// this, never on the disk, so that what was pinned can be loaded as it was.
struct RuleFiles {
    std::vector<RuleFile> files;  ///< sorted by path

    const RuleFile* find(const std::string& path) const;
    /// Over paths and bytes: what a person trusts. Any edit changes it, a comment too.
    Digest digest() const;
    bool operator==(const RuleFiles&) const = default;
};

constexpr const char* kPipelineFile = "gradus.toml";
constexpr const char* kPolicyDirectory = ".gradus/policies";

/// Whether a change to this path (relative to the project) is a change to the rules.
bool isRulePath(std::string_view path);

/// Reads them from disk. Throws Error naming the file, the reason and the next step: no gradus.toml, too large, too
/// many, not a regular file, not readable. Symlinks are followed only where they end in a regular file
/// of the project.
RuleFiles readRuleFiles(const std::filesystem::path& project);

/// What an administrator allows on this machine, whatever a project says. Absent file: no ceiling.
struct Ceiling {
    std::string file;  ///< as messages name it; empty: there is none
    std::string bytes;
};

constexpr const char* kCeilingFile = "/etc/gradus/ceiling.toml";

/// Throws Error where the file is there but cannot be read, or where a parent is no directory: a ceiling is never
/// skipped.
Ceiling readCeiling(const std::filesystem::path& file = kCeilingFile);

}  // namespace gradus
