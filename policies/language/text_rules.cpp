#include "policies/language/text_rules.h"

#include <algorithm>
#include <filesystem>

#include "policies/language/cron.h"
#include "policies/language/glob.h"
#include "policies/language/quantity.h"

namespace gradus {

namespace {

constexpr std::size_t kLongestText = 4096;

bool isAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool isZoneForm(std::string_view text) {
    if (text.empty() || text.size() > 64 || text.front() < 'A' || text.front() > 'Z') return false;
    if (text.ends_with('/') || text.find("//") != std::string_view::npos) return false;
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return isAlnum(c) || c == '/' || c == '_' || c == '-' || c == '+'; });
}

}  // namespace

std::string plainProblem(std::string_view text) {
    if (text.empty()) return "is empty";
    if (text.size() > kLongestText) return "is longer than 4096 bytes";
    if (text.find('\0') != std::string_view::npos) return "has a zero byte";
    return {};
}

std::string nameProblem(std::string_view text) {
    if (isName(text)) return {};
    return text.empty() ? "is empty"
                        : "is not a name: letters, digits, '-' and '_', at most 64, none of them first but "
                          "letters and digits";
}

std::string globProblem(std::string_view text) { return Glob::parse(text).problem; }

std::string innerPathProblem(std::string_view text) {
    if (std::string problem = plainProblem(text); !problem.empty()) return problem;
    if (text.starts_with('/')) return "is absolute, and must be relative to the project";
    for (const auto& part : std::filesystem::path(text))
        if (part == "..") return "leaves the project through '..'";
    return {};
}

std::string environmentProblem(std::string_view text) {
    const std::string_view name = text.substr(0, text.find('='));
    const bool formed = !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
                        std::all_of(name.begin(), name.end(), [](char c) { return isAlnum(c) || c == '_'; });
    if (!formed) return "does not start with the name of a variable";
    if (text.size() > 131'072 || text.find('\0') != std::string_view::npos) return "cannot be passed to a program";
    return {};
}

std::string urlProblem(std::string_view text) {
    const std::size_t scheme = text.starts_with("http://") ? 7 : text.starts_with("https://") ? 8 : 0;
    if (scheme == 0) return "does not start with http:// or https://";
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    if (!plain || text.size() > 2048) return "has characters that no address has";
    const std::string_view host = text.substr(scheme, text.find_first_of("/?#", scheme) - scheme);
    if (host.empty()) return "names no host";
    if (host.find('@') != std::string_view::npos) return "holds a user or password, which would be logged";
    return {};
}

std::string cronProblem(std::string_view text) { return parseCron(text).problem; }

std::string timeZoneProblem(std::string_view text) { return isZoneForm(text) ? "" : "is not the name of a time zone"; }

bool isName(std::string_view text) {
    if (text.empty() || text.size() > 64 || !isAlnum(text.front())) return false;
    return std::all_of(text.begin(), text.end(), [](char c) { return isAlnum(c) || c == '-' || c == '_'; });
}

}  // namespace gradus
