#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>

namespace gradus::test {

/// What `sh -c` prints with `directory` as the current one and no configuration but the repository's own.
inline std::string shell(const std::filesystem::path& directory, const std::string& command) {
    const std::string whole = "cd '" + directory.string() +
                              "' && export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent "
                              "GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; " +
                              command;
    FILE* const pipe = ::popen(whole.c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
    std::string out;
    char buffer[65536];
    while (const std::size_t got = ::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, got);
    ::pclose(pipe);
    return out;
}

inline bool hasGit() { return shell("/", "git --version 2>/dev/null").starts_with("git version"); }

inline std::set<std::string> splitNul(const std::string& text) {
    std::set<std::string> parts;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\0', begin);
        parts.insert(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

}  // namespace gradus::test
