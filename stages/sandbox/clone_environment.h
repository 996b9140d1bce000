#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "store/state_directory.h"

namespace gradus {

/// A name or a value that looks like a password, a key or a token. Errs on the side of yes.
bool looksSecret(std::string_view name, std::string_view value);

/// Whether a line of settings (ini, TOML, YAML, a script) has the form of a secret: a token, a password in an address,
/// or a value of a name that says so. A value that is looked up elsewhere, such as "${TOKEN}", is none.
bool holdsSecret(std::string_view text);

/// Who the command is, in words; from the user database.
struct CloneUser {
    std::string name;
    std::filesystem::path home;
    std::filesystem::path shell;
};

/// The command's environment, whole: a few common names, the toolchains' own, and `passed`. Throws Error for a name in
/// `passed` that no variable can have. `dropped` gets a sentence for each variable that one might expect and that is
/// not among them.
std::vector<std::string> cloneEnvironment(const Environment& caller, const std::vector<std::string>& passed,
                                          const CloneUser& user, const std::filesystem::path& directory,
                                          std::vector<std::string>& dropped);

/// "${CARGO_HOME:-~/.cargo}/bin" with the caller's variables and that home. Empty if it is not absolute then.
std::filesystem::path expandPlace(std::string_view pattern, const Environment& caller,
                                  const std::filesystem::path& home);

}  // namespace gradus
