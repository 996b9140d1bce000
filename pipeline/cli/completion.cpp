#include "pipeline/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gradus {

namespace {

struct Candidate {
    std::string word;
    std::string doc;
};

// Where the caller stands: behind the words of a verb or group, or behind an option that wants one of some choices.
struct Spot {
    std::string words;
    std::vector<Candidate> candidates;
};

std::string docOfWord(const VerbTable& verbs, const std::string& words) {
    const Verb* verb = verbs.find(words);
    return verb != nullptr ? std::string(verb->summary) : fmt::format("verbs of {}", words);
}

std::vector<Candidate> candidatesAfter(const VerbTable& verbs, const std::string& words) {
    std::vector<Candidate> found;
    for (const std::string& word : verbs.wordsAfter(words))
        found.push_back({word, docOfWord(verbs, joinWords(words, word))});
    const Verb* verb = verbs.find(words);
    if (verb != nullptr && !verb->positionals.empty()) {
        const Positional& first = verb->positionals.front();
        for (const std::string_view choice : first.choices)
            found.push_back({std::string(choice), std::string(first.doc)});
    }
    for (const auto* options : {verb != nullptr ? &verb->options : nullptr, &globalOptions()}) {
        if (options == nullptr) continue;
        for (const Option& option : *options)
            found.push_back({fmt::format("--{}", option.name), std::string(option.doc)});
    }
    return found;
}

// Every beginning of every verb: "", "audit", "audit verify".
std::vector<std::string> pathsOf(const VerbTable& verbs) {
    std::vector<std::string> paths = {""};
    for (std::size_t i = 0; i < paths.size(); ++i) {
        const std::string path = paths[i];
        for (const std::string& word : verbs.wordsAfter(path)) paths.push_back(joinWords(path, word));
    }
    return paths;
}

std::vector<Spot> verbPlaces(const VerbTable& verbs) {
    std::vector<Spot> places;
    for (const std::string& path : pathsOf(verbs)) places.push_back({path, candidatesAfter(verbs, path)});
    return places;
}

// "audit query --format" for every option with choices, written as "PATH OPTION".
std::vector<Spot> choicePlaces(const VerbTable& verbs) {
    std::vector<Spot> places;
    const auto add = [&](const std::string& path, const std::vector<Option>& options) {
        for (const Option& option : options) {
            if (option.choices.empty()) continue;
            Spot place{fmt::format("{} --{}", path, option.name), {}};
            for (const std::string_view choice : option.choices) place.candidates.push_back({std::string(choice), ""});
            places.push_back(std::move(place));
        }
    };
    for (const std::string& path : pathsOf(verbs)) {
        if (const Verb* verb = verbs.find(path)) add(path, verb->options);
        add(path, globalOptions());
    }
    return places;
}

std::string shellQuoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'') {
            out += "'\\''";
        } else {
            out += c;
        }
    }
    return out + "'";
}

// fish has no '\'' : inside its single quotes a quote and a backslash are escaped.
std::string fishQuoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
    }
    return out + "'";
}

// "PATH WORD" for each step from one path to the next, as the scripts match them; PATH is empty at first.
std::vector<std::string> stepsOf(const VerbTable& verbs) {
    std::vector<std::string> steps;
    for (const std::string& path : pathsOf(verbs)) {
        for (const std::string& word : verbs.wordsAfter(path)) steps.push_back(fmt::format("{} {}", path, word));
    }
    return steps;
}

std::string wordList(const std::vector<Candidate>& candidates) {
    std::vector<std::string> words;
    words.reserve(candidates.size());
    for (const Candidate& candidate : candidates) words.push_back(candidate.word);
    return fmt::format("{}", fmt::join(words, " "));
}

std::string describedList(const std::vector<Candidate>& candidates) {
    std::vector<std::string> items;
    items.reserve(candidates.size());
    for (const Candidate& candidate : candidates)
        items.push_back(shellQuoted(candidate.doc.empty() ? candidate.word : candidate.word + ":" + candidate.doc));
    return fmt::format("{}", fmt::join(items, " "));
}

std::string stepPatterns(const VerbTable& verbs, std::string_view separator, std::string (*quote)(std::string_view)) {
    std::vector<std::string> patterns;
    for (const std::string& step : stepsOf(verbs)) patterns.push_back(quote(step));
    return fmt::format("{}", fmt::join(patterns, separator));
}

// The same walk in bash and zsh: `verb` becomes the longest path that the words before the cursor spell.
std::string walk(const VerbTable& verbs, std::string_view start, std::string_view end, std::string_view wordAt) {
    return fmt::format(R"(    local verb="" word index
    for ((index = {}; index < {}; index++)); do
        word="{}"
        case "$word" in
            --) return 0 ;;
            -C | --directory) ((index++)) ; continue ;;
            -*) continue ;;
        esac
        case "$verb $word" in
            {}) verb="${{verb:+$verb }}$word" ;;
        esac
    done
)",
                       start, end, wordAt, stepPatterns(verbs, " | ", shellQuoted));
}

void appendFish(std::string& out, const Spot& place) {
    for (const Candidate& candidate : place.candidates) {
        out +=
            fmt::format("complete -c gradus -n {} -a {} -d {}\n", fishQuoted("__gradus_at " + fishQuoted(place.words)),
                        fishQuoted(candidate.word), fishQuoted(candidate.doc));
    }
}

}  // namespace

std::string bashCompletion(const VerbTable& verbs) {
    std::string out = "# To load it: source <(gradus completion bash)\n_gradus() {\n";
    out += "    local current=\"${COMP_WORDS[COMP_CWORD]}\" candidates=\"\"\n";
    out += walk(verbs, "1", "COMP_CWORD", "${COMP_WORDS[index]}");
    out += "    case \"$verb ${COMP_WORDS[COMP_CWORD - 1]}\" in\n";
    for (const Spot& place : choicePlaces(verbs))
        out += fmt::format("        {}) candidates={} ;;\n", shellQuoted(place.words),
                           shellQuoted(wordList(place.candidates)));
    out += "        *)\n            case \"$verb\" in\n";
    for (const Spot& place : verbPlaces(verbs))
        out += fmt::format("                {}) candidates={} ;;\n", shellQuoted(place.words),
                           shellQuoted(wordList(place.candidates)));
    out +=
        "            esac ;;\n    esac\n    mapfile -t COMPREPLY < <(compgen -W \"$candidates\" -- \"$current\")\n}\n";
    return out + "complete -o default -F _gradus gradus\n";
}

std::string zshCompletion(const VerbTable& verbs) {
    std::string out =
        "#compdef gradus\n# To load it: source <(gradus completion zsh)\n_gradus() {\n    local -a candidates\n";
    out += walk(verbs, "2", "CURRENT", "${words[index]}");
    out += "    case \"$verb ${words[CURRENT - 1]}\" in\n";
    for (const Spot& place : choicePlaces(verbs))
        out +=
            fmt::format("        {}) candidates=({}) ;;\n", shellQuoted(place.words), describedList(place.candidates));
    out += "        *)\n            case \"$verb\" in\n";
    for (const Spot& place : verbPlaces(verbs))
        out += fmt::format("                {}) candidates=({}) ;;\n", shellQuoted(place.words),
                           describedList(place.candidates));
    out += "            esac ;;\n    esac\n    _describe gradus candidates || _files\n}\n";
    // Sourced it must register itself; loaded from a file in fpath it is the function's body and runs.
    return out + "if [ \"$funcstack[1]\" = _gradus ]; then _gradus \"$@\"; else compdef _gradus gradus; fi\n";
}

std::string fishCompletion(const VerbTable& verbs) {
    std::string out = "# To load it: gradus completion fish | source\nfunction __gradus_at\n    set -l verb ''\n";
    out +=
        "    for word in (commandline -opc)[2..-1]\n        switch $word\n            case '--'\n                "
        "return 1\n";
    out += "            case '-*'\n                continue\n        end\n        switch \"$verb $word\"\n";
    out += fmt::format("            case {}\n", stepPatterns(verbs, " ", fishQuoted));
    out += "                set verb (string trim -- \"$verb $word\")\n        end\n    end\n";
    out += "    test \"$verb\" = \"$argv[1]\"\nend\n";
    for (const Spot& place : verbPlaces(verbs)) appendFish(out, place);
    return out;
}

}  // namespace gradus
