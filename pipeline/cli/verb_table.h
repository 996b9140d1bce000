#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/cli/verb.h"

namespace gradus {

/// All verbs of the program, found by their words.
class VerbTable {
  public:
    explicit VerbTable(std::vector<Verb> verbs) : verbs_(std::move(verbs)) {}

    const std::vector<Verb>& all() const { return verbs_; }
    const Verb* find(std::string_view words) const;
    /// The verbs whose words begin with `words` and go on; all of them for "".
    std::vector<const Verb*> below(std::string_view words) const;
    /// The words that may follow `words`, each once: sub-verbs and groups.
    std::vector<std::string> wordsAfter(std::string_view words) const;

  private:
    std::vector<Verb> verbs_;
};

/// "audit" and "verify" make "audit verify"; an empty path is left out.
std::string joinWords(std::string_view path, std::string_view word);

}  // namespace gradus
