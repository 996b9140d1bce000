#include "pipeline/cli/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "pipeline/cli/shell_word.h"

namespace gradus {

namespace {

// One pass over the words that follow a verb. `at_` is the next word to read.
class Parser {
  public:
    Parser(const VerbCall& call, const VariableLookup& variable)
        : verb_(*call.verb), words_(call.words), variable_(variable), arguments_(verb_) {}

    Arguments parse() {
        while (at_ < words_.size() && words_[at_] != "--") {
            const std::string& word = words_[at_++];
            if (word.starts_with("--")) {
                longOption(word);
            } else if (word.size() > 1 && word.front() == '-') {
                letters(word);
            } else {
                positional(word);
            }
        }
        afterDashes();
        standIn();
        requirePositionals();
        return std::move(arguments_);
    }

  private:
    Error wrong(const std::string& message, const std::string& wayOut = {}) const {
        return usageError(verb_.words, message, wayOut);
    }

    template <typename Matches>
    const Option* findOption(Matches matches) const {
        for (const auto* options : {&verb_.options, &globalOptions()}) {
            const auto found = std::ranges::find_if(*options, matches);
            if (found != options->end()) return &*found;
        }
        return nullptr;
    }

    void longOption(const std::string& word) {
        const std::size_t equals = word.find('=');
        const std::string spelled = word.substr(0, equals);
        const Option* option =
            findOption([&](const Option& o) { return o.name == std::string_view(spelled).substr(2); });
        if (option == nullptr) throw wrong(fmt::format("unknown option '{}'", spelled), meantOption(spelled));
        if (equals == std::string::npos) {
            take(*option, spelled, option->isFlag() ? "" : nextValue(spelled));
        } else if (option->isFlag()) {
            throw wrong(fmt::format("option '{}' takes no value", spelled));
        } else {
            take(*option, spelled, word.substr(equals + 1));
        }
    }

    // "-f", "-C DIR", "-CDIR", and flags run together.
    void letters(const std::string& word) {
        for (std::size_t i = 1; i < word.size(); ++i) {
            const std::string spelled = fmt::format("-{}", word[i]);
            const Option* option = findOption([&](const Option& o) { return o.letter == word[i]; });
            if (option == nullptr) throw wrong(fmt::format("unknown option '{}'", word), meantOption("-" + word));
            if (option->isFlag()) {
                take(*option, spelled, "");
                continue;
            }
            take(*option, spelled, i + 1 < word.size() ? word.substr(i + 1) : nextValue(spelled));
            return;
        }
    }

    std::string meantOption(const std::string& spelled) const {
        std::vector<std::string> known;
        const bool overrides =
            std::ranges::any_of(verb_.options, [](const Option& option) { return option.name == "override"; });
        if (spelled == "--force" && overrides)
            return fmt::format(
                "'gradus {} CHANGE --override GATE --reason TEXT' opens one closed gate; "
                "'gradus why CHANGE' names the closed ones",
                verb_.words);
        for (const auto* options : {&verb_.options, &globalOptions()}) {
            for (const Option& option : *options) known.push_back(fmt::format("--{}", option.name));
        }
        return didYouMean(spelled, known);
    }

    // A word that begins with a dash is another option far more often than a value.
    std::string nextValue(const std::string& spelled) {
        const bool none = at_ == words_.size() || words_[at_] == "--";
        if (!none && (words_[at_].size() < 2 || words_[at_].front() != '-')) return words_[at_++];
        if (none || !spelled.starts_with("--")) throw wrong(fmt::format("option '{}' needs a value", spelled));
        throw wrong(fmt::format("option '{}' needs a value", spelled),
                    fmt::format("if '{0}' is the value, write '{1}={0}'", words_[at_], spelled));
    }

    void take(const Option& option, const std::string& spelled, const std::string& value) {
        if (!option.repeatable && arguments_.isGiven(option.name))
            throw wrong(fmt::format("option '{}' is given twice", spelled));
        if (!option.isFlag() && value.empty()) throw wrong(fmt::format("option '{}' has an empty value", spelled));
        requireChoice(verb_.words, fmt::format("option '{}'", spelled), value, option.choices);
        arguments_.addOption(option.name, value);
    }

    void positional(const std::string& word) {
        if (place_ == verb_.positionals.size()) throw unexpected(word);
        const Positional& place = verb_.positionals[place_];
        // An empty word is a shell variable that was not set; taking it for "not given" would do something else.
        if (word.empty()) throw wrong(fmt::format("{} is empty", place.name));
        if (!place.choices.empty() && place.name == "SOURCE" && word != "-")
            throw wrong(fmt::format("{} takes -, not '{}'", place.name, word),
                        fmt::format("to submit a patch: gradus {} --patch {}", verb_.words, shellWord(word)));
        requireChoice(verb_.words, place.name, word, place.choices);
        arguments_.addPositional(place.name, word);
        given_.push_back(word);
        if (!place.repeated) ++place_;
    }

    Error unexpected(const std::string& word) const {
        std::string wayOut;
        if (verb_.command) wayOut = "put '--' before the command: " + withDashes();
        return wrong(fmt::format("unexpected argument '{}'", word), wayOut);
    }

    /// The call as it is meant: what was read before `--`, the rest after it.
    std::string withDashes() const {
        std::string call = fmt::format("gradus {}", verb_.words);
        for (std::size_t i = 0; i < words_.size(); ++i) call += (i + 1 == at_ ? " -- " : " ") + shellWord(words_[i]);
        return call;
    }

    void afterDashes() {
        const std::vector<std::string> rest(
            words_.begin() + static_cast<std::ptrdiff_t>(std::min(at_ + 1, words_.size())), words_.end());
        if (verb_.command && rest.empty() && verb_.command->required)
            throw wrong("the command is missing",
                        fmt::format("put it after '--': gradus {} -- {}", verb_.words, verb_.command->name));
        if (verb_.command) return arguments_.setCommand(rest);
        for (const std::string& word : rest) positional(word);
    }

    bool isAnyMissing() const {
        return std::ranges::any_of(verb_.positionals, [&](const Positional& place) {
            return place.required && arguments_.positionals(place.name).empty();
        });
    }

    // A word too few is taken for the first one, and the others move on.
    void standIn() {
        const std::string name(verb_.positionals.empty() ? "" : verb_.positionals.front().variable);
        if (name.empty() || !variable_ || !isAnyMissing()) return;
        const std::string value = variable_(name).value_or("");
        if (value.empty()) return;
        std::vector<std::string> given = std::exchange(given_, {});
        given.insert(given.begin(), value);
        arguments_.forgetPositionals();
        place_ = 0;
        for (const std::string& word : given) positional(word);
    }

    void requirePositionals() const {
        for (const Positional& place : verb_.positionals) {
            if (place.required && arguments_.positionals(place.name).empty()) throw missing(place);
        }
    }

    Error missing(const Positional& place) const {
        const std::string choices = place.choices.empty() ? "" : fmt::format(" ({})", fmt::join(place.choices, ", "));
        return wrong(fmt::format("{}{} is missing", place.name, choices), fmt::format("{}: {}", place.name, place.doc));
    }

    const Verb& verb_;
    const std::vector<std::string>& words_;
    const VariableLookup& variable_;
    Arguments arguments_;
    std::vector<std::string> given_;  ///< words that were taken as positionals
    std::size_t at_ = 0;
    std::size_t place_ = 0;
};

}  // namespace

Arguments parseArguments(const VerbCall& call, const VariableLookup& variable) {
    return Parser(call, variable).parse();
}

}  // namespace gradus
