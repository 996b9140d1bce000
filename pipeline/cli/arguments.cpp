#include "pipeline/cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "policies/language/suggest.h"

namespace gradus {

namespace {

using Values = std::map<std::string, std::vector<std::string>>;

const Option& knownOption(const Verb& verb, std::string_view name) {
    for (const auto* options : {&verb.options, &globalOptions()}) {
        const auto found = std::ranges::find(*options, name, &Option::name);
        if (found != options->end()) return *found;
    }
    throw std::logic_error(fmt::format("verb '{}' has no option '{}' in its row", verb.words, name));
}

const Positional& knownPositional(const Verb& verb, std::string_view name) {
    const auto found = std::ranges::find(verb.positionals, name, &Positional::name);
    if (found != verb.positionals.end()) return *found;
    throw std::logic_error(fmt::format("verb '{}' has no positional '{}' in its row", verb.words, name));
}

std::vector<std::string> valuesOf(const Values& all, std::string_view name) {
    const auto found = all.find(std::string(name));
    return found == all.end() ? std::vector<std::string>{} : found->second;
}

std::optional<std::string> firstOf(std::vector<std::string> values) {
    if (values.empty()) return std::nullopt;
    return std::move(values.front());
}

}  // namespace

bool Arguments::flag(std::string_view option) const {
    return !valuesOf(options_, knownOption(*verb_, option).name).empty();
}

std::optional<std::string> Arguments::value(std::string_view option) const { return firstOf(values(option)); }

std::vector<std::string> Arguments::values(std::string_view option) const {
    return valuesOf(options_, knownOption(*verb_, option).name);
}

std::optional<std::int64_t> Arguments::number(std::string_view option, std::int64_t least, std::int64_t most) const {
    const auto text = value(option);
    if (!text) return std::nullopt;
    std::int64_t number = 0;
    const char* end = text->data() + text->size();
    const auto [stopped, error] = std::from_chars(text->data(), end, number);
    if (error == std::errc() && stopped == end && number >= least && number <= most) return number;
    throw usageError(verb_->words, fmt::format("option '--{}' takes a whole number from {} to {}, not '{}'", option,
                                               least, most, *text));
}

std::optional<std::string> Arguments::positional(std::string_view name) const { return firstOf(positionals(name)); }

std::vector<std::string> Arguments::positionals(std::string_view name) const {
    return valuesOf(positionals_, knownPositional(*verb_, name).name);
}

Error usageError(std::string_view verb, std::string_view message, std::string_view wayOut) {
    const std::string page = verb.empty() ? "gradus help" : fmt::format("gradus help {}", verb);
    const std::string name = verb.empty() ? "gradus" : fmt::format("gradus {}", verb);
    const std::string first = wayOut.empty() ? "" : fmt::format("{}\n", wayOut);
    return Error(ErrorCode::kUsage, "{}: {}", name, message).hint(fmt::format("{}see '{}'", first, page));
}

void requireChoice(std::string_view verb, std::string_view what, std::string_view given,
                   const std::vector<std::string_view>& choices) {
    if (choices.empty() || std::ranges::find(choices, given) != choices.end()) return;
    throw usageError(verb, fmt::format("{} takes {}, not '{}'", what, fmt::join(choices, ", "), given),
                     didYouMean(given, {choices.begin(), choices.end()}));
}

std::string didYouMean(std::string_view word, const std::vector<std::string>& candidates) {
    const auto meant = suggest(word, candidates);
    return meant ? fmt::format("did you mean '{}'?", *meant) : "";
}

}  // namespace gradus
