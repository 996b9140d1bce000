#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "plugins/host/mounts.h"
#include "stages/sandbox/clone.h"
#include "stages/sandbox/clone_environment.h"
#include "stages/sandbox/clone_mounts.h"
#include "stages/sandbox/clone_view.h"

namespace gradus {

/// A plan while it is being made: one step after another adds what it knows.
struct CloneDraft {
    const CloneRequest& request;
    CloneView view{};
    Identity identity{};
    CloneUser user{};                            ///< of the command
    std::filesystem::path home{};                ///< the command's, without links
    std::vector<std::filesystem::path> homes{};  ///< whose tools are shown: the command's, then the caller's
    std::vector<HostMount> mounts{};             ///< of the host, as made
    std::vector<HomeEntry> shown{};
    std::vector<std::string> notes{};
    std::vector<std::string> notOurs{};
    std::vector<std::size_t> alsoKept{};
    std::vector<std::size_t> system{};
    std::vector<std::string> variables{};  ///< NAME=value that the plan itself needs

    /// Copy-on-write where that is possible, else read-only with a note. Returns false if the place was taken.
    bool copyOnWrite(const std::filesystem::path& source, const std::filesystem::path& target);
    /// Whether `path` is, holds, or lies in a place that is never shown.
    bool touchesSecrets(const std::filesystem::path& path) const;
    /// Whether a directory holds one of those places, or one of the homes.
    bool holdsSecrets(const std::filesystem::path& path) const;
    /// False for a place in a home of which not even the first part is there: most of the places that are asked for.
    bool mayExist(const std::filesystem::path& path) const;
    std::vector<std::filesystem::path> secrets{};
    std::unordered_set<std::string> homeNames{};  ///< full paths of what lies directly in the homes
    bool homesWereListed = true;
};

/// Who the command is, and whose home it has.
void chooseIdentity(CloneDraft& draft);
/// A home of the command's own, empty; the caller's, if that is another, hidden.
void openHome(CloneDraft& draft);
/// The project itself, with the mounts below it. Throws Error where that cannot be.
void showProject(CloneDraft& draft);
/// Git directories that lie outside of the project.
void showGitDirectories(CloneDraft& draft);
/// The tools of the homes, and what is on PATH.
void showTools(CloneDraft& draft);
/// The person's git configuration, without secrets.
void showGitConfiguration(CloneDraft& draft);
/// Settings of npm and pip, without secrets.
void showToolSettings(CloneDraft& draft);
/// Places to write that a command expects: /var/tmp, TMPDIR, the XDG directories.
void giveScratchPlaces(CloneDraft& draft);
/// What the request names although it would be hidden. Throws Error for what is never shown.
void showNamed(CloneDraft& draft);
/// Why a place of the host may not be shown: it is, holds or lies in one that no sandbox shows. Nothing if it may.
std::optional<std::string> objectionTo(const CloneDraft& draft, const std::filesystem::path& path);
/// The rest of the system, copy-on-write, if it is asked for.
void showSystem(CloneDraft& draft);
/// What is hidden, where another mount shows it as well.
void hideAliases(CloneDraft& draft);
/// Sockets of the host that could be spoken to inside.
std::set<std::filesystem::path> hostSockets(const CloneDraft& draft);
/// Secrets inside of what is shown, sockets, other homes, what the request names.
void hidePlaces(CloneDraft& draft);

}  // namespace gradus
