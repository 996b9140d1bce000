#include "stages/sandbox/clone_gitconfig.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "stages/sandbox/clone_environment.h"

namespace gradus {

namespace {

// By section: what is not known here is left out.
constexpr std::array<std::string_view, 45> kShown = {
    "user",      "author", "committer", "core",   "init",  "alias",       "color",    "column",    "diff",
    "merge",     "commit", "push",      "pull",   "fetch", "branch",      "rebase",   "log",       "format",
    "status",    "tag",    "submodule", "gc",     "pack",  "index",       "feature",  "safe",      "include",
    "includeif", "filter", "rerere",    "advice", "pager", "interactive", "difftool", "mergetool", "blame",
    "grep",      "i18n",   "help",      "url",    "lfs",   "worktree",    "apply",    "stash",     "transfer"};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool isNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-'; }

/// Reads the grammar of git-config(1).
class ConfigReader {
  public:
    explicit ConfigReader(std::string_view text) : text_(text) {
        if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    }

    std::optional<std::vector<GitSetting>> read() {
        while (skipBlank())
            if (!(peek() == '[' ? readSection() : readSetting())) return std::nullopt;
        return std::move(settings_);
    }

  private:
    char peek() const { return at_ < text_.size() ? text_[at_] : '\n'; }
    bool atEnd() const { return at_ >= text_.size(); }
    void skipLine() {
        while (!atEnd() && text_[at_] != '\n') ++at_;
    }

    // To the next thing that means something; false at the end of the text.
    bool skipBlank() {
        while (!atEnd()) {
            if (peek() == '#' || peek() == ';') skipLine();
            if (atEnd()) return false;
            if (std::isspace(static_cast<unsigned char>(text_[at_])) == 0) return true;
            ++at_;
        }
        return false;
    }

    bool readSection() {
        ++at_;
        section_.clear();
        subsection_.clear();
        while (isNameByte(peek()) || peek() == '.') section_ += lower(text_[at_++]);
        while (peek() == ' ' || peek() == '\t') ++at_;
        if (peek() == '"' && !readSubsection()) return false;
        // The old form [section.sub].
        if (const std::size_t dot = section_.find('.'); dot != std::string::npos) {
            subsection_ = section_.substr(dot + 1);
            section_.resize(dot);
        }
        return !section_.empty() && !atEnd() && text_[at_++] == ']';
    }

    bool readSubsection() {
        for (++at_; !atEnd() && peek() != '"' && peek() != '\n'; ++at_) {
            if (peek() == '\\') ++at_;
            subsection_ += peek();
        }
        return !atEnd() && text_[at_++] == '"';
    }

    bool readSetting() {
        GitSetting setting{section_, subsection_, {}, std::nullopt};
        if (section_.empty() || std::isalpha(static_cast<unsigned char>(peek())) == 0) return false;
        while (!atEnd() && isNameByte(peek())) setting.key += lower(text_[at_++]);
        while (!atEnd() && (peek() == ' ' || peek() == '\t' || peek() == '\r')) ++at_;
        if (!atEnd() && peek() == '=') {
            ++at_;
            setting.value = readValue();
            if (!setting.value) return false;
        } else if (peek() != '\n' && peek() != '#' && peek() != ';') {
            return false;
        }
        settings_.push_back(std::move(setting));
        return true;
    }

    std::optional<std::string> readValue() {
        std::string value;
        std::size_t kept = 0;  // blanks at the end do not count, unless they were quoted
        bool quoted = false;
        while (!atEnd() && peek() != '\n') {
            const char c = text_[at_++];
            if (c == '"') {
                quoted = !quoted;
            } else if (c == '\\') {
                if (!readEscape(value)) return std::nullopt;
            } else if (!quoted && (c == '#' || c == ';')) {
                skipLine();
                break;
            } else if (!quoted && value.empty() && (c == ' ' || c == '\t')) {
                continue;
            } else {
                value += c;
            }
            if (quoted || (c != ' ' && c != '\t' && c != '\r')) kept = value.size();
        }
        if (quoted) return std::nullopt;
        value.resize(kept);
        return value;
    }

    bool readEscape(std::string& value) {
        const char c = peek();
        if (!atEnd()) ++at_;
        if (c == '\r' && peek() == '\n') ++at_;
        if (c == '\n' || c == '\r') return true;  // the value goes on in the next line
        const std::size_t known = std::string_view("ntb\"\\").find(c);
        if (known == std::string_view::npos) return false;
        value += "\n\t\b\"\\"[known];
        return true;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::string section_;
    std::string subsection_;
    std::vector<GitSetting> settings_;
};

std::string quoted(std::string_view text, bool isValue) {
    std::string result = "\"";
    for (const char c : text) {
        if (isValue && c == '\n') {
            result += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + '"';
}

bool isSigning(const GitSetting& setting) {
    return setting.key == "gpgsign" || setting.key == "forcesignannotated" ||
           (setting.section == "push" && setting.key == "gpgsign");
}

}  // namespace

std::string GitSetting::name() const { return section + (subsection.empty() ? "" : "." + subsection) + "." + key; }

std::optional<std::vector<GitSetting>> parseGitConfig(std::string_view text) {
    if (text.find('\0') != std::string_view::npos) return std::nullopt;
    return ConfigReader(text).read();
}

std::string formatGitConfig(const std::vector<GitSetting>& settings) {
    std::string text;
    for (const GitSetting& setting : settings) {
        text +=
            "[" + setting.section + (setting.subsection.empty() ? "" : " " + quoted(setting.subsection, false)) + "]\n";
        text += "\t" + setting.key + (setting.value ? " = " + quoted(*setting.value, true) : "") + "\n";
    }
    return text;
}

std::optional<std::string> gitSetting(const std::vector<GitSetting>& settings, std::string_view section,
                                      std::string_view key) {
    std::optional<std::string> value;
    for (const GitSetting& setting : settings)
        if (setting.section == section && setting.subsection.empty() && setting.key == key) value = setting.value;
    return value;
}

bool holdsCredential(const GitSetting& setting) {
    return looksSecret(setting.key, setting.value.value_or("")) || looksSecret("", setting.subsection);
}

bool mayBeShown(const GitSetting& setting) {
    if (std::find(kShown.begin(), kShown.end(), setting.section) == kShown.end()) return false;
    if (setting.key == "askpass" || setting.key == "sshcommand" || isSigning(setting)) return false;
    return !holdsCredential(setting);
}

}  // namespace gradus
