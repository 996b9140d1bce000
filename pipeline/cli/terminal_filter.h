#pragma once

#include <string>
#include <string_view>

namespace gradus {

/// Makes a program's output fit for a person's terminal as it streams by: text, line breaks, tabs and colours pass;
/// everything else that could drive the terminal (cursor moves, titles, the clipboard, links, hidden directions of
/// writing) is shown as an escape; so are colours where they are nobody's but a file's. Pieces may break anywhere. One
/// per stream.
class TerminalFilter {
  public:
    enum class Colours { kPassed, kEscaped };
    explicit TerminalFilter(Colours colours = Colours::kPassed) : colours_(colours) {}

    /// What can be shown by now.
    std::string pass(std::string_view piece);
    /// The rest, at the end of the stream.
    std::string finish();

  private:
    std::string take(bool atEnd);
    Colours colours_;
    std::string held_;
};

}  // namespace gradus
