#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "plugins/host/toolchains.h"
#include "stages/sandbox/clone_draft.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostLinkedPrograms = 64;

std::optional<struct stat> look(const fs::path& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
}

/// Shows what is found, where it is found, never more than once and never with a secret around it.
class Tools {
  public:
    explicit Tools(CloneDraft& draft) : draft_(draft) {}

    void toolchain(const Toolchain& toolchain, const fs::path& home) {
        for (const std::string_view pattern : toolchain.readOnly)
            show(pattern, home, HomeEntry::How::kReadOnly, toolchain);
        for (const std::string_view pattern : toolchain.caches)
            show(pattern, home, HomeEntry::How::kCopyOnWrite, toolchain);
    }

    void searchPath(const std::string& path) {
        std::vector<fs::path> directories;
        for (std::size_t start = 0; start <= path.size();) {
            const std::size_t end = std::min(path.find(':', start), path.size());
            const fs::path directory = fs::path(path.substr(start, end - start)).lexically_normal();
            if (directory.is_absolute() &&
                std::find(directories.begin(), directories.end(), directory) == directories.end())
                directories.push_back(directory.has_filename() ? directory : directory.parent_path());
            start = end + 1;
        }
        for (const fs::path& directory : directories) searchDirectory(directory);
        for (const fs::path& directory : directories)
            if (liesInHome(directory) || directory == "/usr/local/bin") followLinks(directory);
    }

  private:
    bool liesInHome(const fs::path& path) const {
        return std::any_of(draft_.homes.begin(), draft_.homes.end(),
                           [&](const fs::path& home) { return isWithin(path, home); });
    }

    // The places where all programs keep something: showing one of them would show the home.
    bool isShared(const fs::path& path) const {
        for (const fs::path& home : draft_.homes) {
            if (isWithin(home, path)) return true;
            for (const char* name : {".config", ".cache", ".local", ".local/share", ".local/state", ".var", "snap"})
                if (path == home / name) return true;
        }
        return isWithin(draft_.request.project, path) && path == draft_.request.project;
    }

    // As root for somebody else: a link in that person's home must not open what the person cannot open.
    bool mayBeReached(const fs::path& source, const struct stat& info) const {
        if (::geteuid() != 0 || draft_.identity.uid == 0) return true;
        return info.st_uid == draft_.identity.uid || draft_.view.shows(source) ||
               (draft_.homes.size() > 1 && isWithin(source, draft_.homes.back()));
    }

    void show(std::string_view pattern, const fs::path& home, HomeEntry::How how, const Toolchain& toolchain) {
        const fs::path place = expandPlace(pattern, draft_.request.environment, home);
        if (place.empty() || !draft_.mayExist(place) || draft_.view.names(place)) return;
        const std::optional<struct stat> info = look(place);
        if (!info) return;
        if (isShared(place)) {
            draft_.notes.push_back(
                fmt::format("{} ({}) holds more than tools and is not shown", place.native(), toolchain.name));
            return;
        }
        const bool isCache = how == HomeEntry::How::kCopyOnWrite && S_ISDIR(info->st_mode);
        if (draft_.view.shows(place) && !(isCache && info->st_uid == draft_.identity.uid)) return;
        if (isWithin(place, draft_.request.project)) return;
        placeAt(place, *info, isCache, std::string(toolchain.name));
    }

    void placeAt(const fs::path& place, const struct stat& info, bool isCache, std::string why) {
        std::error_code error;
        const fs::path source = fs::canonical(place, error);
        if (error || !mayBeReached(source, info)) return;
        const std::size_t overlays = draft_.view.workspace().overlays.size();
        if (!(isCache ? draft_.copyOnWrite(source, place) : draft_.view.bind(source, place))) return;
        const bool copied = draft_.view.workspace().overlays.size() > overlays;
        draft_.shown.push_back(
            {place, copied ? HomeEntry::How::kCopyOnWrite : HomeEntry::How::kReadOnly, std::move(why)});
    }

    void showReadOnly(const fs::path& place, const std::string& why) {
        const std::optional<struct stat> info = look(place);
        if (info && !draft_.view.shows(place)) placeAt(place, *info, false, why);
    }

    // A program found in X/bin usually needs what lies beside it: X/lib, X/pyvenv.cfg. Only if X looks like a place
    // that programs were installed to, and like nothing else.
    std::optional<fs::path> prefixOf(const fs::path& directory) const {
        const std::string name = directory.filename();
        if (name != "bin" && name != "sbin" && name != "shims") return std::nullopt;
        const fs::path prefix = directory.parent_path();
        if (!liesInHome(prefix) || isShared(prefix) || draft_.touchesSecrets(prefix)) return std::nullopt;
        if (isWithin(draft_.request.project, prefix)) return std::nullopt;
        for (const char* mark : {"pyvenv.cfg", "conda-meta", "lib/node_modules", "libexec"})
            if (isThere(prefix / mark)) return prefix;
        const bool installed = isThere(prefix / "lib") && (isThere(prefix / "share") || isThere(prefix / "include"));
        return installed ? std::optional(prefix) : std::nullopt;
    }

    void searchDirectory(const fs::path& directory) {
        std::error_code error;
        const fs::path real = fs::canonical(directory, error);
        if (error) return;
        for (const fs::path& place : {directory, real}) {
            if (draft_.view.shows(place)) continue;
            if (isShared(place) || draft_.touchesSecrets(place)) {
                draft_.notes.push_back(
                    fmt::format("{} is on PATH but not shown: it holds more than programs; move the programs to "
                                "a directory of their own, such as ~/.local/bin",
                                place.native()));
                continue;
            }
            showReadOnly(prefixOf(place).value_or(place), "on PATH");
            showReadOnly(place, "on PATH");  // where the prefix was refused
        }
    }

    // ~/.local/bin/tool -> ~/.local/share/tool/versions/3/bin/tool
    void followLinks(const fs::path& directory) {
        const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(directory.c_str()), &::closedir);
        while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
            if (entry->d_type != DT_LNK || linked_ >= kMostLinkedPrograms) continue;
            std::error_code error;
            const fs::path text = fs::read_symlink(directory / entry->d_name, error);
            if (!error && !draft_.view.shows((directory / text).lexically_normal()))
                showProgram(directory / entry->d_name, text);
        }
    }

    void showProgram(const fs::path& link, const fs::path& text) {
        std::error_code error;
        const fs::path program = fs::canonical(link, error);
        if (error || draft_.touchesSecrets(program) || isShared(program)) return;
        ++linked_;
        const std::string why = link.filename().native() + " on PATH";
        showReadOnly(prefixOf(program.parent_path()).value_or(program), why);
        showReadOnly((link.parent_path() / text).lexically_normal(), why);
    }

    CloneDraft& draft_;
    std::size_t linked_ = 0;
};

std::string searchPathOf(const CloneRequest& request) {
    std::string path = request.environment("PATH").value_or("");
    for (const std::string& word : request.passed)
        if (word.starts_with("PATH=")) path = word.substr(5);
    return path;
}

}  // namespace

void showTools(CloneDraft& draft) {
    Tools tools(draft);
    for (const fs::path& home : draft.homes)
        for (const Toolchain& toolchain : toolchains()) tools.toolchain(toolchain, home);
    tools.searchPath(searchPathOf(draft.request));
}

}  // namespace gradus
