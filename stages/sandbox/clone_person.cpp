// A person's configuration of git and of package managers as a sandbox sees it: copies of what may be shown.

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
        std::copy_if(settings->begin(), settings->end(), std::back_inserter(shown),
                     [](const GitSetting& setting) { return gradus::mayBeShown(setting); });
        draft_.view.file({target, formatGitConfig(shown), 0644});
        draft_.shown.push_back({target, HomeEntry::How::kReadOnly, "git's settings, without secrets"});
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

// A line of an ini file that may be shown. The names are npm's and pip's.
bool mayBeShown(const std::string& line) {
    const std::size_t split = line.find('=');
    const bool continues = line.starts_with(' ') || line.starts_with('\t');
    if (split == std::string::npos) return line.starts_with('[') || (continues && !looksSecret("", line));
    std::string key = line.substr(0, split);
    for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const char* word : {"auth", "user", "email", "cert", "key", "otp", "pass", "//"})
        if (key.find(word) != std::string::npos) return false;
    const std::string value = line.substr(split + 1);
    // "name:password@host", without the scheme that an address has elsewhere.
    if (key.find("proxy") != std::string::npos && value.find('@') != std::string::npos) return false;
    return !looksSecret(key, value);
}

// Settings that change what a tool does, from a file that may hold a token beside them.
void showSettings(CloneDraft& draft, const fs::path& file) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0 || draft.view.shows(file)) return;
    if (::geteuid() == 0 && info.st_uid != draft.identity.uid) return;
    try {
        const std::string text = readSmallFile(file, kLargest, "a tool's settings");
        std::string shown;
        for (std::size_t start = 0; start < text.size();) {
            const std::size_t end = std::min(text.find('\n', start), text.size());
            const std::string line = text.substr(start, end - start);
            if (mayBeShown(line)) shown += line + "\n";
            start = end + 1;
        }
        if (shown.empty()) return;
        draft.view.file({file, shown, 0644});
        draft.shown.push_back({file, HomeEntry::How::kReadOnly, "a tool's settings, without secrets"});
    } catch (const Error&) {
        return;  // unreadable, too large or no file: the tool has its defaults inside
    }
}

}  // namespace

void showToolSettings(CloneDraft& draft) {
    const fs::path xdg = draft.request.environment("XDG_CONFIG_HOME").value_or("");
    showSettings(draft, draft.home / ".npmrc");
    showSettings(draft, draft.home / ".pip/pip.conf");
    showSettings(draft, (xdg.is_absolute() ? xdg : draft.home / ".config") / "pip/pip.conf");
}

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
