#include "stages/sandbox/clone_view.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <deque>

#include "plugins/isolation/namespaces.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr int kMostLinks = 40;

// A deletion is a device 0:0 in a layer: nothing below it counts.
bool isDeletion(const struct stat& info) { return S_ISCHR(info.st_mode) && info.st_rdev == makedev(0, 0); }

void push(std::deque<std::string>& parts, const fs::path& path) {
    std::deque<std::string> more;
    for (const fs::path& part : path.relative_path())
        if (!part.empty() && part != ".") more.push_back(part.native());
    parts.insert(parts.begin(), more.begin(), more.end());
}

}  // namespace

bool isThere(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

bool isDirectory(const fs::path& path) {
    std::error_code error;
    return fs::is_directory(path, error);
}

CloneView::CloneView() {
    for (const char* path : {"/tmp", "/run", "/proc", "/sys", "/dev"}) defaults_[path] = {Kind::kPrivate, {}};
    for (const fs::path& path : alwaysHidden()) defaults_[path.native()] = {Kind::kHidden, {}};
    // Some machines have /home as a link; the jail hides what it leads to.
    std::error_code error;
    if (fs::is_symlink("/home", error)) {
        const fs::path homes = fs::canonical("/home", error);
        defaults_.erase("/home");
        if (!error) defaults_[homes.native()] = {Kind::kHidden, {}};
    }
}

CloneView::CloneView(const Workspace& workspace) : CloneView() {
    for (const Overlay& entry : workspace.overlays) overlay(entry);
    for (const ReadOnlyBind& entry : workspace.binds) bind(entry.source, entry.target);
    for (const PrivateDirectory& entry : workspace.directories) privateDirectory(entry.target, entry.mode);
    for (const PrivateFile& entry : workspace.files) file(entry);
    for (const fs::path& entry : workspace.hidden) hide(entry);
}

bool CloneView::add(const fs::path& target, Rule rule) {
    return rules_.emplace(target.native(), std::move(rule)).second;
}

bool CloneView::overlay(const Overlay& overlay) {
    Rule rule{Kind::kOverlay, {}};
    if (overlay.upper) rule.sources.push_back(*overlay.upper);
    rule.sources.insert(rule.sources.end(), overlay.lowers.begin(), overlay.lowers.end());
    if (!add(overlay.target, std::move(rule))) return false;
    workspace_.overlays.push_back(overlay);
    return true;
}

bool CloneView::bind(const fs::path& source, const fs::path& target) {
    if (!add(target, {Kind::kBind, {source}})) return false;
    // What is there now may be gone when the sandbox is made: a tool that was removed meanwhile is no fault.
    workspace_.binds.push_back({source, target, true});
    return true;
}

bool CloneView::privateDirectory(const fs::path& target, mode_t mode) {
    if (!add(target, {Kind::kPrivate, {}})) return false;
    workspace_.directories.push_back({target, mode});
    return true;
}

bool CloneView::file(PrivateFile file) {
    if (!add(file.target, {Kind::kPrivate, {}})) return false;
    workspace_.files.push_back(std::move(file));
    return true;
}

bool CloneView::hide(const fs::path& target) {
    if (!add(target, {Kind::kHidden, {}})) return false;
    workspace_.hidden.push_back(target);
    return true;
}

std::pair<std::string, const CloneView::Rule*> CloneView::ruleFor(const fs::path& path) const {
    for (std::string at = path.native();; at.resize(at.rfind('/'))) {
        if (at.empty()) break;
        if (const auto found = rules_.find(at); found != rules_.end()) return {at, &found->second};
        if (const auto found = defaults_.find(at); found != defaults_.end()) return {at, &found->second};
    }
    static const Rule kHost{Kind::kHost, {"/"}};
    return {"", &kHost};
}

bool CloneView::shows(const fs::path& path) const {
    const Kind kind = ruleFor(path).second->kind;
    return kind != Kind::kHidden && kind != Kind::kPrivate;
}

bool CloneView::isCopied(const fs::path& path) const { return ruleFor(path).second->kind == Kind::kOverlay; }

bool CloneView::names(const fs::path& target) const { return rules_.contains(target.native()); }

CloneView::Place CloneView::lookAt(const fs::path& path) const {
    const auto [target, rule] = ruleFor(path);
    const std::string rest = path.native().substr(target.size());
    for (const fs::path& source : rule->sources) {
        const fs::path host = rest.empty() ? source : fs::path(source == "/" ? rest : source.native() + rest);
        struct stat info {};
        if (::lstat(host.c_str(), &info) != 0) continue;
        if (rule->kind == Kind::kOverlay && isDeletion(info)) break;
        return {true, host};
    }
    // A directory on the way to something that is shown, or one of the sandbox's own.
    const auto below = rules_.lower_bound(path.native() + "/");
    const bool leads = below != rules_.end() && isWithin(below->first, path);
    return {leads || (rest.empty() && rule->kind == Kind::kPrivate), {}};
}

std::optional<fs::path> CloneView::find(const fs::path& path) const {
    std::deque<std::string> parts;
    push(parts, path);
    fs::path at = "/";
    fs::path host = "/";
    int links = 0;
    while (!parts.empty()) {
        const std::string part = parts.front();
        parts.pop_front();
        if (part == "..") {
            at = at.parent_path();
            continue;
        }
        const Place place = lookAt(at / part);
        if (!place.isThere) return std::nullopt;
        host = place.host;
        std::error_code error;
        if (!host.empty() && fs::is_symlink(host, error)) {
            const fs::path text = fs::read_symlink(host, error);
            if (error || ++links > kMostLinks) return std::nullopt;
            if (text.is_absolute()) at = "/";
            push(parts, text);
            continue;
        }
        at /= part;
    }
    if (host.empty()) return std::nullopt;
    return host;
}

}  // namespace gradus
