#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// One line of a git configuration file that says something.
struct GitSetting {
    std::string section;     ///< lower case
    std::string subsection;  ///< as written
    std::string key;         ///< lower case
    std::optional<std::string> value;

    /// "url.https://host/.insteadof"
    std::string name() const;
};

/// Nothing if git itself would refuse the text.
std::optional<std::vector<GitSetting>> parseGitConfig(std::string_view text);
std::string formatGitConfig(const std::vector<GitSetting>& settings);

/// The last value of section.key without a subsection.
std::optional<std::string> gitSetting(const std::vector<GitSetting>& settings, std::string_view section,
                                      std::string_view key);

/// What of a person's configuration a sandbox may see: the name and the habits; no credentials, no helper that gives
/// them, nothing that looks like a secret, and no signing, for which there is no key inside.
bool mayBeShown(const GitSetting& setting);

/// A value that holds a password or a token, such as the URL of a remote.
bool holdsCredential(const GitSetting& setting);

}  // namespace gradus
