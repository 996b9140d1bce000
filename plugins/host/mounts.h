#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// One mount of this process's namespace, with what of its file system it shows.
struct HostMount {
    std::string device;         ///< major:minor
    std::filesystem::path top;  ///< the directory of that file system that is mounted
    std::filesystem::path path;
    std::string type;
    bool readOnly = false;
};

/// The lines of a mountinfo file (proc(5)) in the order in which they were made; later ones cover earlier ones of the
/// same place. What is no such line is left out.
std::vector<HostMount> parseMounts(std::string_view mountInfo);
/// Those of this process now.
std::vector<HostMount> hostMounts();

/// What can be seen of them: each path once, the last that was made there, in the order of their paths.
std::vector<HostMount> topmost(const std::vector<HostMount>& mounts);
/// The mounts strictly below `directory`, in their order.
std::vector<HostMount> mountsBelow(const std::vector<HostMount>& mounts, const std::filesystem::path& directory);

/// Other ways to the same bytes: where else a mount shows what lies at `path`, or a part of it.
std::vector<std::filesystem::path> aliasesOf(const std::filesystem::path& path, const std::vector<HostMount>& mounts);

/// Whether nothing in such a file system is a person's: what it shows is the machine.
bool isOfTheKernel(std::string_view type);

}  // namespace gradus
