#include <algorithm>

#include "plugins/isolation/namespaces.h"
#include "plugins/isolation/system_copy.h"
#include "stages/sandbox/clone_draft.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

// A package's scripts call what lies there, and an ordinary user's PATH often lacks it.
constexpr std::array kRootsPlaces{"/usr/local/sbin", "/usr/sbin", "/sbin"};

bool isNamedIn(const std::string& path, std::string_view directory) {
    return (":" + path + ":").find(":" + std::string(directory) + ":") != std::string::npos;
}

}  // namespace

void showSystem(CloneDraft& draft) {
    if (!draft.request.system) return;
    const SystemCopy copy = planSystemCopy(draft.request.project);
    for (const Overlay& overlay : copy.overlays)
        if (draft.view.overlay(overlay)) {
            draft.system.push_back(draft.view.workspace().overlays.size() - 1);
            draft.alsoKept.push_back(draft.system.back());
        }
    for (const ReadOnlyBind& bind : copy.binds) draft.view.bind(bind.source, bind.target);
    for (const fs::path& path : copy.hidden) draft.view.hide(path);
    for (const PrivateFile& seed : copy.seeds) draft.view.seed(seed);
    // The homes out here stay hidden, but whoever adds a user inside needs a place for one.
    std::error_code error;
    if (fs::is_directory(fs::symlink_status("/home", error))) draft.view.privateDirectory("/home", 0755);
    std::string path = draft.request.environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
    for (const char* place : kRootsPlaces)
        if (!isNamedIn(path, place)) path += std::string(":") + place;
    draft.variables.push_back("PATH=" + path);
}

// Root of a copy reads whatever it can see, so what is hidden must be hidden wherever a mount shows it.
void hideAliases(CloneDraft& draft) {
    if (!draft.request.system) return;
    std::vector<fs::path> hidden = draft.view.workspace().hidden;
    hidden.insert(hidden.end(), alwaysHidden().begin(), alwaysHidden().end());
    for (const fs::path& home : draft.homes) hidden.push_back(home);
    for (const fs::path& path : hidden)
        for (const fs::path& alias : aliasesOf(path, draft.mounts))
            if (!isWithin(draft.request.project, alias) && draft.view.shows(alias)) draft.view.hide(alias);
}

}  // namespace gradus
