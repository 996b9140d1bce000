#include "stages/sandbox/clone.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "plugins/host/toolchains.h"
#include "stages/sandbox/clone_draft.h"
#include "stages/sandbox/clone_user.h"
#include "store/model/error.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

fs::path withoutLinks(const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    return error ? path.lexically_normal() : real;
}

struct stat lookAtProject(const fs::path& project) {
    struct stat info {};
    if (!project.is_absolute() || ::stat(project.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        throw Error(ErrorCode::kNotFound, "{} is no directory that could be cloned", project.native())
            .hint("go into the project's directory and call again");
    if (::access(project.c_str(), R_OK | X_OK) != 0)
        throw Error(ErrorCode::kInfrastructure, "{} cannot be read: {}", project.native(), errnoText(errno))
            .hint("call as the user who owns it, or as root");
    return info;
}

fs::path variable(const Environment& environment, const char* name) {
    const fs::path path = environment(name).value_or("");
    if (!path.is_absolute()) return {};
    const fs::path normal = path.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
}

bool belongsTo(const fs::path& path, uid_t uid) {
    struct stat info {};
    return !path.empty() && ::stat(path.c_str(), &info) == 0 && info.st_uid == uid;
}

// A home that is not there, or that is the whole machine, cannot be given a copy of its own at that path.
bool canBeHome(const CloneView& view, const fs::path& home) {
    if (home.empty() || home == "/") return false;
    return isThere(home) || home.parent_path() == "/" || !view.shows(home);
}

void refuseHomes(const CloneDraft& draft) {
    for (const fs::path& home : draft.homes)
        if (isWithin(home, draft.request.project))
            throw Error(ErrorCode::kNotAllowed, "{} is, or holds, the home {}: a clone would show all of it",
                        draft.request.project.native(), home.native())
                .hint("go into the project's own directory and call again");
    if (draft.request.project == "/") throw Error(ErrorCode::kNotAllowed, "the whole machine is no project");
}

void readSecrets(CloneDraft& draft) {
    const auto add = [&](std::string_view pattern) {
        for (const fs::path& home : draft.homes) {
            fs::path place = expandPlace(pattern, draft.request.environment, home);
            if (!place.empty()) draft.secrets.push_back(std::move(place));
        }
    };
    for (const std::string_view pattern : secretPlaces()) add(pattern);
    for (const Toolchain& toolchain : toolchains())
        for (const std::string_view pattern : toolchain.secrets) add(pattern);
    std::sort(draft.secrets.begin(), draft.secrets.end());
    draft.secrets.erase(std::unique(draft.secrets.begin(), draft.secrets.end()), draft.secrets.end());
}

void listHomes(CloneDraft& draft) {
    for (const fs::path& home : draft.homes) {
        const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(home.c_str()), &::closedir);
        if (!list && errno != ENOENT) draft.homesWereListed = false;
        while (const dirent* entry = list ? ::readdir(list.get()) : nullptr)
            draft.homeNames.insert(home.native() + "/" + entry->d_name);
    }
}

// Directories on the way to what is shown of a home are made by root there; the command's user must be able to write
// beside it.
void ownTheWay(CloneDraft& draft) {
    if (!isMachineRoot() || draft.identity.uid == 0 || draft.request.system) return;
    std::vector<fs::path> targets;
    for (const ReadOnlyBind& bind : draft.view.workspace().binds) targets.push_back(bind.target);
    for (const Overlay& overlay : draft.view.workspace().overlays) targets.push_back(overlay.target);
    for (const PrivateFile& file : draft.view.workspace().files) targets.push_back(file.target);
    for (const fs::path& target : targets) {
        if (target == draft.home || !isWithin(target, draft.home)) continue;
        for (fs::path at = target.parent_path(); at != draft.home; at = at.parent_path())
            if (!draft.view.shows(at)) draft.view.privateDirectory(at, 0755);
    }
}

void checkDirectory(const CloneRequest& request) {
    if (!isWithin(request.directory, request.project))
        throw Error(ErrorCode::kUsage, "{} does not lie in the project {}", request.directory.native(),
                    request.project.native());
}

}  // namespace

bool CloneDraft::copyOnWrite(const fs::path& source, const fs::path& target) {
    std::string reason;
    if (const auto nested = mountsBelow(mounts, source); !nested.empty())
        reason = nested.front().path.native() + " is a mount of its own";
    else if (const auto unfit = unfitAsLower(source))
        reason = "it is on " + *unfit;
    if (reason.empty()) return view.overlay({target, {source}, std::nullopt, std::nullopt, true});
    if (!view.bind(source, target)) return false;
    notes.push_back(fmt::format("{} is shown read-only: {}", target.native(), reason));
    return true;
}

bool CloneDraft::mayExist(const fs::path& path) const {
    if (!homesWereListed) return true;
    for (const fs::path& place : homes) {
        if (path == place || !isWithin(path, place)) continue;
        return homeNames.contains(path.native().substr(0, path.native().find('/', place.native().size() + 1)));
    }
    return true;
}

bool CloneDraft::holdsSecrets(const fs::path& path) const {
    const auto within = [&](const fs::path& place) { return isWithin(place, path); };
    return std::any_of(secrets.begin(), secrets.end(), within) || std::any_of(homes.begin(), homes.end(), within);
}

bool CloneDraft::touchesSecrets(const fs::path& path) const {
    return holdsSecrets(path) ||
           std::any_of(secrets.begin(), secrets.end(), [&](const fs::path& secret) { return isWithin(path, secret); });
}

void chooseIdentity(CloneDraft& draft) {
    const struct stat project = lookAtProject(draft.request.project);
    const bool isRoot = isMachineRoot();
    draft.identity = isRoot ? Identity{project.st_uid, project.st_gid} : Identity{::geteuid(), ::getegid()};
    const std::optional<KnownUser> known = findUser(draft.identity.uid);
    const fs::path callersHome = variable(draft.request.environment, "HOME");
    const bool isCaller = draft.identity.uid == ::geteuid();
    const bool hasCallersHome = isCaller || belongsTo(callersHome, draft.identity.uid);
    if (isRoot && !isCaller && known) draft.identity.gid = known->gid;
    fs::path home = hasCallersHome ? callersHome : fs::path();
    if (!canBeHome(draft.view, home)) home = known ? known->home : fs::path();
    if (!canBeHome(draft.view, home)) {
        home = "/home/" + (known ? known->name : std::to_string(draft.identity.uid));
        draft.notes.push_back(
            fmt::format("uid {} has no home here: inside it is {}, empty", draft.identity.uid, home.native()));
    }
    draft.home = withoutLinks(home);
    draft.user.home = home;
    draft.user.name = known ? known->name : isCaller ? draft.request.environment("USER").value_or("") : "";
    draft.user.shell = isCaller ? variable(draft.request.environment, "SHELL") : fs::path();
    if (draft.user.shell.empty() && known) draft.user.shell = known->shell;
    draft.homes = {draft.home};
    if (!hasCallersHome && !callersHome.empty() && withoutLinks(callersHome) != draft.home)
        draft.homes.push_back(withoutLinks(callersHome));
}

void openHome(CloneDraft& draft) {
    // A link to the home is only there inside if nothing covers the place it lies in.
    if (!draft.view.shows(draft.user.home)) draft.user.home = draft.home;
    struct stat info {};
    const bool isThere = ::stat(draft.home.c_str(), &info) == 0;
    draft.view.privateDirectory(draft.home, isThere ? info.st_mode & 0777U : 0700);
    for (const fs::path& home : draft.homes)
        if (home != draft.home && draft.view.shows(home)) draft.view.hide(home);
}

void giveScratchPlaces(CloneDraft& draft) {
    draft.view.privateDirectory("/var/tmp", 01777);
    for (const char* name : {"TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"}) {
        const fs::path place = variable(draft.request.environment, name);
        if (place.empty() || place == "/" || place == "/tmp" || !isDirectory(place)) continue;
        if (draft.holdsSecrets(place) && !isWithin(place, draft.home)) continue;  // it holds the home itself
        if (isWithin(place, draft.request.project) || isWithin(draft.request.project, place)) continue;
        draft.view.privateDirectory(place, 0700);
    }
}

std::optional<std::string> objectionTo(const CloneRequest& request, const fs::path& path) {
    CloneDraft draft{request};
    chooseIdentity(draft);
    readSecrets(draft);
    return objectionTo(draft, path);
}

ClonePlan planClone(const CloneRequest& request) {
    checkDirectory(request);
    CloneDraft draft{request};
    chooseIdentity(draft);
    refuseHomes(draft);
    listHomes(draft);
    readSecrets(draft);
    draft.mounts = hostMounts();
    giveScratchPlaces(draft);
    openHome(draft);
    showProject(draft);
    showGitDirectories(draft);
    showSystem(draft);
    ClonePlan plan;
    std::vector<std::string> variables = draft.variables;
    variables.insert(variables.end(), request.passed.begin(), request.passed.end());
    plan.environment = cloneEnvironment(request.environment, variables, draft.user, request.directory, draft.notes);
    if (!request.bare) {
        showTools(draft);
        showGitConfiguration(draft);
        showToolSettings(draft);
        showNamed(draft);
    }
    hidePlaces(draft);
    hideAliases(draft);
    ownTheWay(draft);
    plan.workspace = draft.view.workspace();
    plan.workspace.system = request.system;
    plan.identity = request.system ? Identity{0, 0} : draft.identity;
    plan.directory = request.directory;
    plan.home = std::move(draft.shown);
    plan.notes = std::move(draft.notes);
    plan.notOurs = std::move(draft.notOurs);
    plan.alsoKept = std::move(draft.alsoKept);
    plan.system = std::move(draft.system);
    plan.workspace.projectPlaces = {request.project};
    for (const std::size_t part : plan.alsoKept)
        plan.workspace.projectPlaces.push_back(plan.workspace.overlays.at(part).target);
    return plan;
}

}  // namespace gradus
