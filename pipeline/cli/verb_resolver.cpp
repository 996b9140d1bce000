#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "pipeline/cli/parser.h"

namespace gradus {

namespace {

bool looksLikeOption(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

const Option* globalOption(std::string_view word) {
    const std::string_view spelled = word.substr(0, word.find('='));
    for (const Option& option : globalOptions()) {
        if (spelled == fmt::format("--{}", option.name)) return &option;
        if (option.letter != '\0' && word.starts_with(fmt::format("-{}", option.letter))) return &option;
    }
    return nullptr;
}

bool valueIsNextWord(const Option& option, std::string_view word) {
    const bool attached = word.starts_with("--") ? word.find('=') != std::string_view::npos : word.size() > 2;
    return !option.isFlag() && !attached;
}

// Walks the words up to the end of the verb's name; options of every verb may stand in between.
class Resolver {
  public:
    Resolver(const VerbTable& verbs, const std::vector<std::string>& words)
        : verbs_(verbs), words_(words), wantsHelp_(hasOption(words, "--help") || hasOption(words, "-h")) {}

    VerbCall resolve() {
        while ((verb_ == nullptr || goesOn()) && at_ < words_.size() && words_[at_] != "--") step();
        // Nothing at all: where this project stands is what most people want to know.
        if (path_.empty() && at_ == words_.size()) verb_ = verbs_.find("status");
        if (wantsHelp_ || verb_ == nullptr) return helpCall();
        kept_.insert(kept_.end(), words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
        return {verb_, kept_};
    }

  private:
    // A verb may be the beginning of another one's words: "race show" is not a race of "show".
    bool goesOn() const {
        std::size_t next = at_;
        while (next < words_.size() && words_[next] != "--" && looksLikeOption(words_[next])) {
            const Option* option = globalOption(words_[next]);
            if (option == nullptr) return false;
            next += valueIsNextWord(*option, words_[next]) ? 2 : 1;
        }
        return next < words_.size() && verbs_.find(withWord(words_[next])) != nullptr;
    }

    void step() {
        const std::string& word = words_[at_++];
        if (path_.empty() && (word == "--version" || word == "-V")) {
            extendPath("version");
        } else if (looksLikeOption(word)) {
            keepOption(word);
        } else {
            extendPath(word);
        }
    }

    void keepOption(const std::string& word) {
        const Option* option = globalOption(word);
        if (option == nullptr && !wantsHelp_) throw misplacedOption(word);
        if (option == nullptr || option->name == "help") return;
        kept_.push_back(word);
        if (valueIsNextWord(*option, word) && at_ < words_.size()) kept_.push_back(words_[at_++]);
    }

    // One word for one idea, and the other one for who is used to it.
    std::string withWord(const std::string& word) const {
        const std::string other = word == "ls" ? "list" : word == "list" ? "ls" : "";
        std::string longer = joinWords(path_, word);
        if (verbs_.find(longer) == nullptr && !other.empty() && verbs_.find(joinWords(path_, other)) != nullptr)
            longer = joinWords(path_, other);
        return longer;
    }

    void extendPath(const std::string& word) {
        const std::string longer = withWord(word);
        verb_ = verbs_.find(longer);
        if (word.empty() || (verb_ == nullptr && verbs_.below(longer).empty())) throw unknownVerb(word);
        path_ = longer;
    }

    Error misplacedOption(const std::string& word) const {
        std::vector<std::string> known;
        known.reserve(globalOptions().size());
        for (const Option& option : globalOptions()) known.push_back(fmt::format("--{}", option.name));
        std::string meant = didYouMean(word, known);
        if (meant.empty()) meant = "an option of a verb stands after the verb";
        return usageError(path_, fmt::format("unknown option '{}' before the verb", word), meant);
    }

    // Verbs of other tools, of which the spelling leads to a wrong one here.
    std::string meantByOthers(const std::string& word) const {
        struct Meant {
            std::string_view word;
            std::string_view verb;  ///< that must be here
            std::string_view wayOut;
        };
        constexpr std::array kMeant{
            Meant{"revert", "undo",
                  "'gradus undo' takes back the last apply; 'gradus rollback STAGE' takes a change out of a stage"},
            Meant{"unapprove", "approve", "'gradus approve CHANGE --withdraw' takes an approval back"},
        };
        const auto* const found = std::ranges::find(kMeant, word, &Meant::word);
        const bool isHere = path_.empty() && found != kMeant.end() && verbs_.find(found->verb) != nullptr;
        return isHere ? std::string(found->wayOut) : "";
    }

    Error unknownVerb(const std::string& word) const {
        std::string meant = meantByOthers(word);
        if (meant.empty()) meant = didYouMean(word, verbs_.wordsAfter(path_));
        // "gradus verify": the group was left out.
        for (const Verb* verb : verbs_.below("")) {
            if (meant.empty() && verb->words.ends_with(" " + word))
                meant = didYouMean(verb->words, {std::string(verb->words)});
        }
        return usageError(path_, fmt::format("unknown verb '{}'", word), meant);
    }

    VerbCall helpCall() {
        if (!wantsHelp_ && at_ < words_.size()) throw usageError(path_, "a verb is missing before '--'");
        for (std::size_t from = 0; from < path_.size();) {
            const std::size_t end = std::min(path_.find(' ', from), path_.size());
            kept_.push_back(path_.substr(from, end - from));
            from = end + 1;
        }
        if (hasOption(words_, "--json") && std::ranges::find(kept_, "--json") == kept_.end())
            kept_.emplace_back("--json");
        return {verbs_.find("help"), kept_};
    }

    const VerbTable& verbs_;
    const std::vector<std::string>& words_;
    bool wantsHelp_;
    std::size_t at_ = 0;
    std::string path_;
    const Verb* verb_ = nullptr;
    std::vector<std::string> kept_;
};

}  // namespace

VerbCall resolveVerb(const VerbTable& verbs, const std::vector<std::string>& words) {
    return Resolver(verbs, words).resolve();
}

bool hasOption(const std::vector<std::string>& words, std::string_view word) {
    const auto end = std::ranges::find(words, "--");
    return std::find(words.begin(), end, word) != end;
}

}  // namespace gradus
