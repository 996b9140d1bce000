#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gradus {

/// Where a user's state lives: one database for all projects, the objects, the anchor, the key.
struct StateDirectory {
    std::filesystem::path root;

    std::filesystem::path database() const { return root / "state.db"; }
    std::filesystem::path lock() const { return root / "state.lock"; }
    std::filesystem::path ballast() const { return root / "ballast"; }
    std::filesystem::path anchor() const { return root / "anchor"; }
    std::filesystem::path key() const { return root / "audit.key"; }
    std::filesystem::path objects() const { return root / "objects"; }
    /// Digests of a project's files, remembered between runs; only speed depends on it.
    std::filesystem::path treeCache(const std::filesystem::path& project) const;
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// GRADUS_HOME, else $XDG_STATE_HOME/gradus, else $HOME/.local/state/gradus. Throws Error when none of them is set or
/// the one that is is not an absolute path. Touches nothing.
StateDirectory locateState(const Environment& environment);

/// Creates the directory where missing. Throws Error on a file system whose locks or syncs cannot be trusted (NFS,
/// SMB, FAT), on a read-only one, for root where it belongs to another user, or when something else is in the way.
void prepareState(const StateDirectory& state);

/// By its number in statfs: the name of a file system whose locks or syncs cannot be trusted.
std::optional<std::string_view> untrustedFileSystem(std::uint64_t magic);

}  // namespace gradus
