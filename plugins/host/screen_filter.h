#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gradus {

/// What a full-screen program in a sandbox may do to a person's terminal: text, cursor, colours, and the modes of a
/// table. What reaches beyond the screen is left out: titles, the clipboard, links, the printer, the window, words that
/// a terminal could be made to type back. Pieces may break anywhere.
class ScreenFilter {
  public:
    std::string pass(std::string_view bytes);
    /// What the program did not put back itself: the other screen, the mouse, a hidden cursor, a colour.
    std::string leave();
    /// The terminal was asked something, so an answer may be on its way.
    bool hasAsked() const { return asked_; }

  private:
    enum class State { kText, kEscape, kDesignation, kControl, kString, kStringEscape };

    void take(char byte);
    void takeText(char byte);
    void takeCharacter(char byte);
    void takeEscape(char byte);
    void takeDesignation(char byte);
    void takeControl(char byte);
    void takeString(char byte);
    void endControl();
    bool setModes(std::string_view parameters, bool on);
    void begin(State state, std::string_view held);
    void show();

    State state_ = State::kText;
    std::string held_;  ///< of a sequence or a character whose end is still to come
    std::string shown_;
    std::map<std::uint32_t, bool> modes_;  ///< that are not as a terminal has them at first
    bool touched_ = false;
    bool keypad_ = false;
    bool keys_ = false;
    bool region_ = false;
    bool asked_ = false;
};

}  // namespace gradus
