#pragma once

#include <string>
#include <string_view>

namespace gradus {

/// Takes from lines of a program's output what the runner of a build service obeys as a command of its own
/// (`::set-env`, `##[…]`). Escape sequences are taken out before, by a TerminalFilter. Pieces may break anywhere. One
/// per stream.
class CiFilter {
  public:
    /// What can be shown by now.
    std::string pass(std::string_view piece);
    /// The rest, at the end of the stream.
    std::string finish();

  private:
    std::string held_;
};

}  // namespace gradus
