#include "pipeline/cli/verb_table.h"

#include <algorithm>

namespace gradus {

const Verb* VerbTable::find(std::string_view words) const {
    const auto found = std::ranges::find(verbs_, words, &Verb::words);
    return found == verbs_.end() ? nullptr : &*found;
}

std::vector<const Verb*> VerbTable::below(std::string_view words) const {
    const std::string prefix = words.empty() ? "" : std::string(words) + " ";
    std::vector<const Verb*> found;
    for (const Verb& verb : verbs_) {
        if (verb.words.starts_with(prefix)) found.push_back(&verb);
    }
    return found;
}

std::vector<std::string> VerbTable::wordsAfter(std::string_view words) const {
    const std::size_t skip = words.empty() ? 0 : words.size() + 1;
    std::vector<std::string> next;
    for (const Verb* verb : below(words)) {
        const std::string_view rest = verb->words.substr(skip);
        std::string word(rest.substr(0, rest.find(' ')));
        if (std::ranges::find(next, word) == next.end()) next.push_back(std::move(word));
    }
    return next;
}

std::string joinWords(std::string_view path, std::string_view word) {
    if (path.empty()) return std::string(word);
    return std::string(path) + " " + std::string(word);
}

const std::vector<Option>& globalOptions() {
    static const std::vector<Option> options = {
        {.name = "json", .doc = "answer with one JSON object on standard output"},
        {.name = "color",
         .value = "WHEN",
         .doc = "colour the text",
         .fallback = "auto: on a terminal, unless NO_COLOR is set",
         .choices = {"auto", "always", "never"}},
        {.name = "no-color", .doc = "the same as --color=never"},
        {.name = "directory", .value = "DIR", .doc = "run as if started in DIR", .letter = 'C'},
        {.name = "help", .doc = "show the help of this verb", .letter = 'h'},
    };
    return options;
}

}  // namespace gradus
