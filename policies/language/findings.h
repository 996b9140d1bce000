#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policies/language/diagnostic.h"
#include "policies/language/document.h"
#include "policies/language/value.h"

namespace gradus {

/// What was found wrong while loading, over all files. Knows the files' lines, so that a finding about a value needs
/// nothing but the value. After kMost findings the rest is only counted.
class Findings {
  public:
    static constexpr std::size_t kMost = 200;

    const SourceText& addSource(std::string name, std::string bytes);

    /// Adds one; the caller fills in what it left out. The reference is good until the next call.
    Diagnostic& error(const std::string& file, Span span, std::string_view code, std::string message,
                      std::string reason, std::string hint);
    Diagnostic& error(const Origin& origin, std::string_view code, std::string message, std::string reason,
                      std::string hint);
    void addAll(const std::vector<Diagnostic>& diagnostics);

    /// The help for a word that nothing answers to: "did you mean 'x'?", or the known ones. Empty once it is full, when
    /// nobody would see it: a hostile file can misspell thousands of names.
    std::string hintFor(std::string_view word, std::vector<std::string> known, std::string_view plural) const;
    bool isFull() const { return list_.size() >= kMost; }

    /// Sorted; closes with one that says how many were left out.
    std::vector<Diagnostic> take();

  private:
    std::map<std::string, SourceText> sources_;
    std::vector<Diagnostic> list_;
    Diagnostic overflow_;
    std::size_t leftOut_ = 0;
};

}  // namespace gradus
