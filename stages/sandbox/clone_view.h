#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugins/api/isolation.h"
#include "store/paths.h"

namespace gradus {

/// What stat says, links followed. A place that cannot be looked at is not there.
bool isThere(const std::filesystem::path& path);
bool isDirectory(const std::filesystem::path& path);

/// A workspace while it is being planned, and what a command would find in it. Every place is named once: a second
/// entry for the same target is not taken.
class CloneView {
  public:
    /// What every sandbox has.
    CloneView();
    explicit CloneView(const Workspace& workspace);

    bool overlay(const Overlay& overlay);
    bool bind(const std::filesystem::path& source, const std::filesystem::path& target);
    bool privateDirectory(const std::filesystem::path& target, mode_t mode);
    bool file(PrivateFile file);
    bool hide(const std::filesystem::path& target);
    /// Of a copy of the system.
    void seed(const PrivateFile& file) { workspace_.seeds.push_back(file); }

    /// Whether the host's own bytes are seen at this very path, links not followed.
    bool shows(const std::filesystem::path& path) const;
    /// Whether that is in an overlay: the same bytes, in other files.
    bool isCopied(const std::filesystem::path& path) const;
    /// Whether an entry was made for exactly this place.
    bool names(const std::filesystem::path& target) const;
    /// Follows links as a command inside would. The host's path of what it finds, nothing if it finds nothing.
    std::optional<std::filesystem::path> find(const std::filesystem::path& path) const;

    const Workspace& workspace() const { return workspace_; }

  private:
    enum class Kind { kHost, kHidden, kPrivate, kBind, kOverlay };
    struct Rule {
        Kind kind = Kind::kHost;
        std::vector<std::filesystem::path> sources;  ///< topmost first
    };
    struct Place {
        bool isThere = false;
        std::filesystem::path host;  ///< empty for a directory that only exists inside
    };

    bool add(const std::filesystem::path& target, Rule rule);
    std::pair<std::string, const Rule*> ruleFor(const std::filesystem::path& path) const;
    Place lookAt(const std::filesystem::path& path) const;

    Workspace workspace_;
    std::map<std::string, Rule> rules_;     ///< by target
    std::map<std::string, Rule> defaults_;  ///< by target; an entry of rules_ takes its place
};

}  // namespace gradus
