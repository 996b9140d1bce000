#include "stages/sandbox/clone_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "plugins/host/toolchains.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 27> kCommon = {"PATH",
                                                      "LANG",
                                                      "LANGUAGE",
                                                      "LC_ALL",
                                                      "LC_CTYPE",
                                                      "LC_COLLATE",
                                                      "LC_MESSAGES",
                                                      "LC_NUMERIC",
                                                      "LC_TIME",
                                                      "LC_MONETARY",
                                                      "LC_PAPER",
                                                      "LC_NAME",
                                                      "LC_ADDRESS",
                                                      "LC_TELEPHONE",
                                                      "TERM",
                                                      "COLORTERM",
                                                      "NO_COLOR",
                                                      "FORCE_COLOR",
                                                      "CLICOLOR",
                                                      "TMPDIR",
                                                      "TZ",
                                                      "TZDIR",
                                                      "LC_MEASUREMENT",
                                                      "XDG_CACHE_HOME",
                                                      "XDG_CONFIG_HOME",
                                                      "XDG_DATA_HOME",
                                                      "XDG_STATE_HOME"};

constexpr std::array<std::string_view, 14> kSecretWords = {
    "TOKEN",   "SECRET",      "PASSWORD",   "PASSWD",        "PASSPHRASE",  "CREDENTIAL", "APIKEY",
    "API_KEY", "PRIVATE_KEY", "ACCESS_KEY", "AUTHORIZATION", "EXTRAHEADER", "SMTPPASS",   "COOKIE"};

constexpr std::array<std::string_view, 12> kSecretBeginnings = {"ghp_",   "gho_",  "ghs_",        "github_pat_",
                                                                "glpat-", "xoxb-", "xoxp-",       "sk-",
                                                                "AKIA",   "npm_",  "-----BEGIN ", "eyJhbGci"};

std::string upper(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return result;
}

bool isWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

// Only at the start of a word: "disk-usage" holds no key.
bool holdsToken(std::string_view value) {
    for (const std::string_view beginning : kSecretBeginnings)
        for (std::size_t at = value.find(beginning); at != std::string_view::npos; at = value.find(beginning, at + 1))
            if (at == 0 || !isWordByte(value[at - 1])) return true;
    return false;
}

// "https://name:password@host"
bool holdsPassword(std::string_view value) {
    for (std::size_t at = value.find("://"); at != std::string_view::npos; at = value.find("://", at + 3)) {
        const std::string_view rest = value.substr(at + 3);
        const std::string_view authority = rest.substr(0, rest.find_first_of("/?# \"'"));
        const std::size_t sign = authority.rfind('@');
        if (sign != std::string_view::npos && authority.substr(0, sign) != "git") return true;
    }
    return false;
}

bool isName(std::string_view name) {
    return !name.empty() && name.find('\0') == std::string_view::npos && name.find('=') == std::string_view::npos;
}

/// The variables by name; the last one given wins.
class Variables {
  public:
    Variables(const Environment& caller, std::vector<std::string>& dropped) : caller_(caller), dropped_(dropped) {}

    void set(const std::string& name, std::string value) { values_[name] = std::move(value); }

    void take(std::string_view name, bool evenIfOdd) {
        const auto value = caller_(std::string(name));
        if (!value) return;
        if (evenIfOdd || !looksSecret(name, *value)) return set(std::string(name), *value);
        secret_.emplace_back(name);
    }

    void pass(const std::string& word) {
        const std::string name = word.substr(0, word.find('='));
        if (!isName(name) || word.find('\0') != std::string::npos)
            throw Error(ErrorCode::kUsage, "'{}' is no variable to pass on", word)
                .hint("give NAME for the caller's value, or NAME=value");
        if (name.size() < word.size()) return set(name, word.substr(name.size() + 1));
        if (const auto value = caller_(name)) return set(name, *value);
        if (!values_.contains(name))
            dropped_.push_back(fmt::format("variable {} is not set here, so it is not set inside", name));
    }

    /// Once all that is passed by name is.
    void sayWhatIsMissing() {
        for (const std::string& name : secret_)
            if (!values_.contains(name))
                dropped_.push_back(fmt::format(
                    "variable {} looks like a secret and is not passed on; --env {} passes it", name, name));
    }

    std::vector<std::string> list() const {
        std::vector<std::string> lines;
        for (const auto& [name, value] : values_) lines.push_back(name + "=" + value);
        return lines;
    }

  private:
    const Environment& caller_;
    std::vector<std::string>& dropped_;
    std::vector<std::string> secret_;
    std::map<std::string, std::string> values_;
};

// The end of the "${" that starts at `open`, with those inside it.
std::size_t closingBrace(std::string_view text, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
        if (text[i] == '{') ++depth;
        if (text[i] == '}' && --depth == 0) return i;
    }
    return std::string_view::npos;
}

std::string expandText(std::string_view pattern, const Environment& caller, const fs::path& home) {
    if (pattern.starts_with("~")) return home.native() + std::string(pattern.substr(1));
    if (!pattern.starts_with("${")) return std::string(pattern);
    const std::size_t end = closingBrace(pattern, 1);
    const std::string_view inner = pattern.substr(2, end - 2);
    const std::size_t split = inner.find(":-");
    auto value = caller(std::string(inner.substr(0, split)));
    if (!value || value->empty()) value = expandText(inner.substr(split + 2), caller, home);
    return *value + std::string(pattern.substr(end + 1));
}

}  // namespace

bool looksSecret(std::string_view name, std::string_view value) {
    const std::string loud = upper(name);
    const bool named = std::any_of(kSecretWords.begin(), kSecretWords.end(),
                                   [&](std::string_view word) { return loud.find(word) != std::string::npos; });
    if (named || holdsToken(value) || holdsPassword(value)) return true;
    const std::string text = upper(value);
    constexpr std::array<std::string_view, 7> kForms = {
        "AUTHORIZATION:", "PASSWORD=", "BEARER ", "?TOKEN=", "&TOKEN=", "_TOKEN=", "_SECRET="};
    return std::any_of(kForms.begin(), kForms.end(),
                       [&](std::string_view form) { return text.find(form) != std::string::npos; });
}

namespace {

std::string_view trimmed(std::string_view text, std::string_view what) {
    const std::size_t begin = text.find_first_not_of(what);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(what) + 1 - begin);
}

bool isSecretLine(std::string_view line) {
    constexpr std::size_t kShortest = 8;
    if (line.empty() || line.front() == '#' || line.front() == ';' || line.starts_with("//")) return false;
    if (looksSecret("", line)) return true;
    const std::size_t split = line.find_first_of("=:");
    if (split == std::string_view::npos) return false;
    const std::string key = upper(trimmed(line.substr(0, split), " \t\"'"));
    // How a secret is found, not the secret: cargo's credential-provider, git's credential.helper.
    for (const std::string_view word : {"PROVIDER", "HELPER", "FILE", "PATH", "COMMAND"})
        if (key.find(word) != std::string::npos) return false;
    const std::string_view value = trimmed(line.substr(split + 1), " \t\"',;");
    const bool elsewhere = value.find_first_of("${[(%") != std::string_view::npos;
    return value.size() >= kShortest && !elsewhere && looksSecret(key, "");
}

}  // namespace

bool holdsSecret(std::string_view text) {
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        if (isSecretLine(trimmed(text.substr(start, end - start), " \t\r"))) return true;
        start = end + 1;
    }
    return false;
}

std::vector<std::string> cloneEnvironment(const Environment& caller, const std::vector<std::string>& passed,
                                          const CloneUser& user, const fs::path& directory,
                                          std::vector<std::string>& dropped) {
    Variables variables(caller, dropped);
    for (const std::string_view name : kCommon) variables.take(name, true);
    for (const Toolchain& toolchain : toolchains())
        for (const std::string_view name : toolchain.variables) variables.take(name, false);
    variables.set("HOME", user.home);
    if (!user.name.empty()) variables.set("USER", user.name);
    if (!user.name.empty()) variables.set("LOGNAME", user.name);
    if (!user.shell.empty()) variables.set("SHELL", user.shell);
    variables.set("PWD", directory);
    for (const std::string& word : passed) variables.pass(word);
    variables.sayWhatIsMissing();
    return variables.list();
}

fs::path expandPlace(std::string_view pattern, const Environment& caller, const fs::path& home) {
    std::string text = expandText(pattern, caller, home);
    if (!text.starts_with('/')) return {};
    // Hundreds of places are asked for; nearly all of them are in normal form already.
    const auto holds = [&](const char* part) { return text.find(part) != std::string::npos; };
    if (!holds("//") && !holds("/./") && !holds("/..") && !text.ends_with("/") && !text.ends_with("/.")) return text;
    const fs::path path = fs::path(std::move(text)).lexically_normal();
    if (path == "/") return {};
    return path.has_filename() ? path : path.parent_path();
}

}  // namespace gradus
