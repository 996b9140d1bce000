#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "plugins/host/toolchains.h"
#include "policies/language/glob.h"
#include "stages/sandbox/clone_draft.h"
#include "stages/sandbox/clone_user.h"
#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostMatches = 1000;
constexpr int kDeepest = 128;

void hide(CloneDraft& draft, const fs::path& path) {
    const fs::path& project = draft.request.project;
    if (path == project || !draft.view.hide(path)) return;
    if (isWithin(path, project)) draft.notOurs.push_back(path.lexically_relative(project).native());
}

/// A pattern, and how much of the tree has to be looked at for it.
struct HidePattern {
    Glob glob;
    fs::path start;  ///< parts before the first wildcard
    int depth = 0;   ///< parts below `start` that can match
};

bool isLiteral(std::string_view part) { return part.find_first_of("*?[\\") == std::string_view::npos; }

HidePattern parsePattern(const std::string& text) {
    Parsed<Glob> glob = Glob::parse(text);
    if (!glob.value)
        throw Error(ErrorCode::kUsage, "the pattern '{}' to hide {}", text, glob.problem)
            .hint("patterns are relative to the project: '.env*', 'secrets/', 'config/*.key'");
    HidePattern pattern{std::move(*glob.value), {}, kDeepest};
    if (text.find('/') == std::string::npos) return pattern;
    std::vector<std::string> parts;
    for (const fs::path& part : fs::path(text).relative_path())
        if (!part.empty()) parts.push_back(part.native());
    std::size_t literal = 0;
    while (literal + 1 < parts.size() && isLiteral(parts[literal])) pattern.start /= parts[literal++];
    if (std::find(parts.begin(), parts.end(), "**") == parts.end() && !text.ends_with('/'))
        pattern.depth = static_cast<int>(parts.size() - literal);
    return pattern;
}

/// Looks for what the patterns match below a directory. A directory that matches is hidden as a whole.
class Search {
  public:
    Search(CloneDraft& draft, std::vector<const HidePattern*> patterns, int depth)
        : draft_(draft), patterns_(std::move(patterns)), depth_(depth) {}

    // In the project, and in whatever is shown in its place: what was copied from there may be gone by now.
    void run(const fs::path& start) {
        if (!start.empty() && matchesDirectory(start)) return found(start);
        walk(draft_.request.project / start, start, depth_);
        for (const fs::path& lower : draft_.request.lowers)
            if (lower != draft_.request.project) walk(lower / start, start, depth_);
    }

  private:
    bool matches(const std::string& path) const {
        return std::any_of(patterns_.begin(), patterns_.end(),
                           [&](const HidePattern* pattern) { return pattern->glob.matches(path); });
    }
    // "secrets/" and "secrets/**" mean the directory's content, which is the directory.
    bool matchesDirectory(const fs::path& path) const { return matches(path.native()) || matches(path.native() + "/"); }

    void found(const fs::path& relative) {
        if (!seen_.insert(relative).second) return;
        if (++found_ > kMostMatches)
            throw Error(ErrorCode::kUsage, "the patterns to hide match more than {} places", kMostMatches)
                .hint("hide a directory as a whole: 'secrets/'");
        hide(draft_, draft_.request.project / relative);
    }

    void walk(const fs::path& directory, const fs::path& relative, int depth) {
        if (depth <= 0) return;
        const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(directory.c_str()), &::closedir);
        if (!list) {
            // What cannot be listed here cannot be listed inside: the same user looks.
            return;
        }
        while (const dirent* entry = ::readdir(list.get())) {
            const std::string name = entry->d_name;
            if (name == "." || name == ".." || (relative.empty() && name == ".git")) continue;
            visit(directory / name, relative / name, entry->d_type == DT_DIR, depth);
        }
    }

    void visit(const fs::path& path, const fs::path& relative, bool isDirectory, int depth) {
        if (isDirectory ? matchesDirectory(relative) : matches(relative.native())) return found(relative);
        if (isDirectory) walk(path, relative, depth - 1);
    }

    CloneDraft& draft_;
    std::vector<const HidePattern*> patterns_;
    int depth_;
    std::size_t found_ = 0;
    std::set<fs::path> seen_;
};

// One walk for all patterns that may match anywhere; the others only look where they can match.
void hidePatterns(CloneDraft& draft) {
    std::vector<HidePattern> patterns;
    for (const std::string& text : draft.request.hide) patterns.push_back(parsePattern(text));
    std::vector<const HidePattern*> anywhere;
    for (const HidePattern& pattern : patterns) {
        if (pattern.start.empty() && pattern.depth == kDeepest)
            anywhere.push_back(&pattern);
        else
            Search(draft, {&pattern}, pattern.depth).run(pattern.start);
    }
    if (!anywhere.empty()) Search(draft, anywhere, kDeepest).run({});
}

// Of names that tools read their settings from, at the top of a directory that is shown from a home.
bool isOfSettings(std::string_view name) {
    constexpr std::array<std::string_view, 12> kNames = {
        "config",   "config.toml", "config.local.toml", "config.json", "settings.toml", "settings.json",
        ".condarc", "condarc",     "pip.conf",          "npmrc",       "init.gradle",   "init.gradle.kts"};
    return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool isOfKeys(std::string_view name) {
    constexpr std::array<std::string_view, 5> kEndings = {".pfx", ".p12", ".key", ".ppk", ".kdbx"};
    return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view end) { return name.ends_with(end); });
}

bool holdsSecretText(const fs::path& file) {
    constexpr std::uint64_t kLargest = 64 * 1024;
    try {
        return holdsSecret(readSmallFile(file, kLargest, "settings"));
    } catch (const Error&) {
        return false;  // unreadable here is unreadable inside, and larger is not written by hand
    }
}

// Tools are shown, settings that hold a secret are not.
void hideSettings(CloneDraft& draft, const fs::path& directory, bool all) {
    const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(directory.c_str()), &::closedir);
    int looked = 0;
    while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
        const std::string name = entry->d_name;
        if (entry->d_type == DT_DIR && name == "conf.d" && !all) hideSettings(draft, directory / name, true);
        if (entry->d_type == DT_DIR) continue;
        if (isOfKeys(name)) hide(draft, directory / name);
        if ((!all && !isOfSettings(name)) || ++looked > 100 || !holdsSecretText(directory / name)) continue;
        hide(draft, directory / name);
        draft.notes.push_back(
            fmt::format("{} looks as if it held a secret, so it is empty inside", (directory / name).native()));
    }
}

void hideSecrets(CloneDraft& draft) {
    struct stat info {};
    for (const fs::path& secret : draft.secrets) {
        if (!draft.mayExist(secret) || ::lstat(secret.c_str(), &info) != 0) continue;
        if (draft.view.shows(secret) && !isWithin(draft.request.project, secret)) hide(draft, secret);
        // It may be a link to a place that is in plain view.
        std::error_code error;
        const fs::path real = fs::canonical(secret, error);
        if (!error && real != secret && draft.view.shows(real) && !isWithin(draft.request.project, real))
            hide(draft, real);
    }
    for (const HomeEntry& entry : draft.shown)
        for (const std::string_view name : secretNames())
            if (::lstat((entry.path / name).c_str(), &info) == 0 && !S_ISDIR(info.st_mode))
                hide(draft, entry.path / name);
    for (const HomeEntry& entry : draft.shown) hideSettings(draft, entry.path, false);
}

void hideNamed(CloneDraft& draft) {
    for (const fs::path& path : draft.request.hiddenPaths) {
        std::error_code error;
        const fs::path real = fs::canonical(path, error);
        if (!error && real != "/" && draft.view.shows(real)) hide(draft, real);
    }
}

void hideOtherHomes(CloneDraft& draft) {
    for (const fs::path& home : homesOfPeople()) {
        if (home.parent_path() == "/" || home == "/" || !draft.view.shows(home) || draft.view.names(home)) continue;
        if (!isWithin(draft.home, home) && isDirectory(home)) hide(draft, home);
    }
}

}  // namespace

void hidePlaces(CloneDraft& draft) {
    hideSecrets(draft);
    hideNamed(draft);
    hideOtherHomes(draft);
    for (const fs::path& socket : hostSockets(draft)) hide(draft, socket);
    hidePatterns(draft);
}

}  // namespace gradus
