#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plugins/api/isolation.h"
#include "store/state_directory.h"

namespace gradus {

/// A directory that a sandbox is a clone of, and what belongs to it elsewhere.
struct CloneRequest {
    std::filesystem::path project;    ///< real path
    std::filesystem::path directory;  ///< where the command starts: the project or below it
    /// The project's bytes, if they are not the directory itself: layers of earlier snapshots and a materialised
    /// commit (clone_commit.h), topmost first. Empty: the directory as it is.
    std::vector<std::filesystem::path> lowers;
    bool lowersHaveGit = false;  ///< the project's own `.git` is in them
    /// Layers on disk for the project's changes; absent: in memory, gone with the sandbox.
    std::optional<std::filesystem::path> upper;
    std::optional<std::filesystem::path> work;
    bool onDisk = false;              ///< the caller gives the plan's overlays layers on disk itself
    Environment environment;          ///< the caller's
    std::vector<std::string> passed;  ///< NAME or NAME=value that the command gets besides the usual ones
    std::vector<std::string> hide;    ///< patterns below the project that are shown empty (policies/language/glob.h)
    std::vector<std::filesystem::path> hiddenPaths;  ///< the state directory, stage targets
    std::vector<std::filesystem::path> show;         ///< outside of the project; read-only, although hidden otherwise
    bool system = false;                             ///< copy the rest of the system too; the command is root inside
    bool bare = false;                               ///< nothing of the home: no tools, no settings, no caches
};

/// What of the caller's home is seen inside.
struct HomeEntry {
    enum class How { kReadOnly, kCopyOnWrite };
    std::filesystem::path path;
    How how = How::kReadOnly;
    std::string why;  ///< "on PATH", the toolchain's name, or "named by `show`"
};

struct ClonePlan {
    Workspace workspace;
    std::size_t projectOverlay = 0;        ///< index in workspace.overlays
    Identity identity;                     ///< the project's owner for root, else the caller
    std::vector<std::string> environment;  ///< of the command, whole
    std::filesystem::path directory;
    std::vector<HomeEntry> home;
    std::vector<std::string> notes;    ///< what a person should know: a nested mount that is shown read-only, …
    std::vector<std::string> notOurs;  ///< for the harvest: relative places below the project that the plan covers
    /// Indices of overlays besides the project's that hold its state: a git directory elsewhere, mounts below the
    /// project. They are in memory; a sandbox that is kept gives them layers on disk as well.
    std::vector<std::size_t> alsoKept;
    /// Those of them that are the copy of the system.
    std::vector<std::size_t> system;
};

/// Reads the file system, changes nothing. Throws Error for a project that cannot be cloned, with the reason and cure.
/// The project's overlay is made to survive a power cut (disposable = false) if `upper` is given.
ClonePlan planClone(const CloneRequest& request);

/// Why a place of the host may not be shown to the commands of that clone, whatever asks for it. Nothing if it may.
std::optional<std::string> objectionTo(const CloneRequest& request, const std::filesystem::path& path);

/// A command that means another program inside than outside, or none: the line to tell a person.
std::optional<std::string> resolvesDifferently(const ClonePlan& plan, const CloneRequest& request,
                                               const std::string& program);

}  // namespace gradus
