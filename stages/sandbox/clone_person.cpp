// A person's git configuration as a sandbox sees it: a copy of what may be shown.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "stages/sandbox/clone_draft.h"
#include "stages/sandbox/clone_gitconfig.h"
#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLargest = 1U << 20;
constexpr std::size_t kMostFiles = 16;

class Configuration {
  public:
    explicit Configuration(CloneDraft& draft) : draft_(draft) {}

    /// Reads `file` and places what may be shown of it at `target`; then what it includes.
    void show(const fs::path& file, const fs::path& target) {
        if (seen_.size() >= kMostFiles || !seen_.insert(file.native()).second || draft_.view.shows(target)) return;
        std::optional<std::vector<GitSetting>> settings = read(file);
        if (!settings) return;
        for (GitSetting& setting : *settings) resolve(setting, file.parent_path());
        std::vector<GitSetting> shown;
        std::copy_if(settings->begin(), settings->end(), std::back_inserter(shown), mayBeShown);
        draft_.view.file({target, formatGitConfig(shown), 0644});
        for (const GitSetting& setting : shown) follow(setting);
    }

    /// A file that git reads besides its configuration.
    void showBeside(const fs::path& path) {
        if (draft_.view.shows(path) || draft_.touchesSecrets(path) || !mayRead(path)) return;
        std::error_code error;
        const fs::path real = fs::canonical(path, error);
        if (!error) draft_.view.bind(real, path);
    }

  private:
    std::optional<std::vector<GitSetting>> read(const fs::path& file) {
        if (!mayRead(file)) return std::nullopt;
        std::optional<std::vector<GitSetting>> settings;
        try {
            settings = parseGitConfig(readSmallFile(file, kLargest, "git's configuration"));
        } catch (const Error&) {
        }
        if (!settings)
            draft_.notes.push_back(
                fmt::format("{} cannot be read and is not shown: 'git config --list' says why", file.native()));
        return settings;
    }

    // As root for somebody else: only what that person could read.
    bool mayRead(const fs::path& file) const {
        struct stat info {};
        if (::stat(file.c_str(), &info) != 0) return false;
        if (::geteuid() != 0 || draft_.identity.uid == 0) return true;
        return info.st_uid == draft_.identity.uid || (info.st_mode & 0004) != 0;
    }

    // The copy may lie elsewhere than the original, so a path in it must not be relative.
    void resolve(GitSetting& setting, const fs::path& directory) const {
        if (!isInclude(setting) || !setting.value || setting.value->empty()) return;
        if (setting.value->front() != '/' && setting.value->front() != '~')
            setting.value = (directory / *setting.value).lexically_normal().native();
    }

    static bool isInclude(const GitSetting& setting) {
        return (setting.section == "include" || setting.section == "includeif") && setting.key == "path";
    }

    static bool namesFile(const GitSetting& setting) {
        for (const char* name : {"core.excludesfile", "core.attributesfile", "core.hookspath", "commit.template",
                                 "blame.ignorerevsfile", "init.templatedir"})
            if (setting.name() == name) return true;
        return false;
    }

    void follow(const GitSetting& setting) {
        if (!setting.value || setting.value->empty()) return;
        fs::path path = *setting.value;
        if (setting.value->starts_with("~/")) path = draft_.home / setting.value->substr(2);
        path = path.lexically_normal();
        if (!path.is_absolute()) return;
        if (isInclude(setting)) show(path, path);
        if (namesFile(setting)) showBeside(path);
    }

    CloneDraft& draft_;
    std::set<std::string> seen_;
};

}  // namespace

void showGitConfiguration(CloneDraft& draft) {
    Configuration configuration(draft);
    const auto given = [&](const char* name) { return fs::path(draft.request.environment(name).value_or("")); };
    const fs::path xdg = given("XDG_CONFIG_HOME");
    const fs::path directory = (xdg.is_absolute() ? xdg : draft.home / ".config") / "git";
    if (const fs::path chosen = given("GIT_CONFIG_GLOBAL"); chosen.is_absolute()) {
        configuration.show(chosen, draft.home / ".gitconfig");
    } else {
        configuration.show(directory / "config", directory / "config");
        configuration.show(draft.home / ".gitconfig", draft.home / ".gitconfig");
    }
    configuration.showBeside(directory / "ignore");
    configuration.showBeside(directory / "attributes");
}

}  // namespace gradus
