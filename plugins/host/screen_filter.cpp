#include "plugins/host/screen_filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr char kEscape = '\x1b';
constexpr char kCancel = '\x18';
constexpr char kSubstitute = '\x1a';
constexpr std::size_t kLongestControl = 128;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Bell, backspace, tab, line feeds, return, and the two shifts between character sets.
constexpr std::string_view kHarmlessControls = "\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f";
// Save and restore the cursor, keypad, index, next line, tab stop, reverse index, full reset, single shifts.
constexpr std::string_view kHarmlessEscapes = "78=>DEHMcNO";
// Without a letter in between: cursor, erasing, inserting, scrolling, colours, tabs, the region.
constexpr std::string_view kHarmlessFinals = "@ABCDEFGHIJKLMPSTXZ`abdefgmrsu";

struct Mode {
    std::uint32_t number;
    bool atFirst;
};
// Private modes that are about the screen and what is reported of keys and mouse.
constexpr std::array kModes{
    Mode{1, false},    Mode{5, false},    Mode{6, false},    Mode{7, true},     Mode{9, false},
    Mode{12, false},   Mode{25, true},    Mode{47, false},   Mode{66, false},   Mode{69, false},
    Mode{1000, false}, Mode{1001, false}, Mode{1002, false}, Mode{1003, false}, Mode{1004, false},
    Mode{1005, false}, Mode{1006, false}, Mode{1007, false}, Mode{1015, false}, Mode{1016, false},
    Mode{1047, false}, Mode{1048, false}, Mode{1049, false}, Mode{2004, false}, Mode{2026, false}};

bool holds(std::string_view set, char byte) { return set.find(byte) != std::string_view::npos; }
bool isBetween(char byte, char first, char last) { return byte >= first && byte <= last; }

/// CSI, taken apart: "?25h" is prefix '?', parameters "25", no intermediates, final 'h'.
struct Control {
    char prefix = '\0';
    std::string_view parameters;
    std::string_view intermediates;
    char final = '\0';
};

Control parse(std::string_view body) {
    Control control;
    control.final = body.back();
    body.remove_suffix(1);
    if (!body.empty() && isBetween(body.front(), '<', '?')) {
        control.prefix = body.front();
        body.remove_prefix(1);
    }
    const auto* const end = std::find_if(body.begin(), body.end(), [](char c) { return isBetween(c, ' ', '/'); });
    control.parameters = body.substr(0, static_cast<std::size_t>(end - body.begin()));
    control.intermediates = body.substr(control.parameters.size());
    return control;
}

// Answers to these are digits in a fixed form: where the cursor is, what kind of terminal, whether a mode is set.
bool isQuestion(const Control& control) {
    if (control.final == 'n') return control.prefix != '>' && (control.parameters == "5" || control.parameters == "6");
    if (control.final == 'c') return control.intermediates.empty();
    return control.final == 'p' && control.intermediates == "$";
}

bool isHarmless(const Control& control) {
    if (control.intermediates == " " && control.final == 'q') return true;  // the cursor's form
    if (control.intermediates == "!" && control.final == 'p') return true;  // soft reset
    if (!control.intermediates.empty() || !holds(kHarmlessFinals, control.final)) return false;
    if (control.prefix == '\0') return true;
    if (control.prefix == '>') return control.final == 'm';  // how keys with modifiers are reported
    return control.prefix == '?' && (control.final == 'J' || control.final == 'K');
}

}  // namespace

std::string ScreenFilter::pass(std::string_view bytes) {
    for (const char byte : bytes) take(byte);
    return std::exchange(shown_, {});
}

std::string ScreenFilter::leave() {
    std::string text;
    for (const auto& [number, on] : modes_) text += "\x1b[?" + std::to_string(number) + (on ? "l" : "h");
    if (keypad_) text += "\x1b>";
    if (keys_) text += "\x1b[>4m";
    if (region_)
        text +=
            "\x1b"
            "7\x1b[r\x1b"
            "8";
    if (touched_) text += "\x1b[0m\x0f";
    *this = ScreenFilter();
    return text;
}

void ScreenFilter::begin(State state, std::string_view held) {
    state_ = state;
    held_ = held;
}

void ScreenFilter::show() {
    touched_ = true;
    shown_ += held_;
    begin(State::kText, {});
}

void ScreenFilter::take(char byte) {
    const bool isString = state_ == State::kString || state_ == State::kStringEscape;
    if (byte == kCancel || byte == kSubstitute) return begin(State::kText, {});
    if (byte == kEscape && !isString) return begin(State::kEscape, {&kEscape, 1});
    switch (state_) {
        case State::kText:
            return takeText(byte);
        case State::kEscape:
            return takeEscape(byte);
        case State::kDesignation:
            return takeDesignation(byte);
        case State::kControl:
            return takeControl(byte);
        case State::kString:
        case State::kStringEscape:
            return takeString(byte);
    }
}

void ScreenFilter::takeText(char byte) {
    if (!held_.empty() || static_cast<unsigned char>(byte) >= 0x80) return takeCharacter(byte);
    if (isBetween(byte, ' ', '~') || holds(kHarmlessControls, byte)) shown_ += byte;
}

// Controls have a second form, one byte or one character from 0x80 to 0x9f: those are left out, whatever the coding.
void ScreenFilter::takeCharacter(char byte) {
    const bool goesOn = (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
    if (!held_.empty() && !goesOn) {
        held_.clear();
        shown_ += kReplacement;
        return take(byte);
    }
    held_ += byte;
    const auto lead = static_cast<unsigned char>(held_.front());
    const std::size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (held_.size() < wanted) return;
    const CodePoint point = firstCodePoint(held_);
    if (!point.valid)
        shown_ += kReplacement;
    else if (point.value >= 0xa0)
        shown_ += held_;
    held_.clear();
}

void ScreenFilter::takeEscape(char byte) {
    held_ += byte;
    if (byte == '[') return begin(State::kControl, "\x1b[");
    if (holds("]PX^_", byte)) return begin(State::kString, {});
    if (holds("()*+#", byte)) return begin(State::kDesignation, held_);
    if (byte == '=' || byte == '>') keypad_ = byte == '=';
    if (holds(kHarmlessEscapes, byte)) return show();
    begin(State::kText, {});
}

void ScreenFilter::takeDesignation(char byte) {
    held_ += byte;
    if (isBetween(byte, '0', '~')) return show();
    begin(State::kText, {});
}

void ScreenFilter::takeControl(char byte) {
    if (static_cast<unsigned char>(byte) < 0x20) {
        begin(State::kText, {});
        return takeText(byte);
    }
    held_ += byte;
    if (held_.size() > kLongestControl || !isBetween(byte, ' ', '~')) return begin(State::kText, {});
    if (isBetween(byte, '@', '~')) endControl();
}

void ScreenFilter::endControl() {
    const std::string body = held_.substr(2);
    const Control control = parse(body);
    const bool isMode = control.final == 'h' || control.final == 'l';
    bool passes = isQuestion(control) || isHarmless(control);
    if (isQuestion(control)) asked_ = true;
    if (isMode && control.intermediates.empty() && control.prefix == '?')
        passes = setModes(control.parameters, control.final == 'h');
    else if (isMode)
        passes = control.prefix == '\0' && (control.parameters == "4" || control.parameters == "20");
    if (!passes) return begin(State::kText, {});
    if (control.final == 'r') region_ = !control.parameters.empty();
    if (control.final == 'm' && control.prefix == '>') keys_ = true;
    show();
}

// All or none: a mode that is not in the table stays out with its whole sequence.
bool ScreenFilter::setModes(std::string_view parameters, bool on) {
    std::map<std::uint32_t, bool> after = modes_;
    while (true) {
        std::uint32_t number = 0;
        const auto [end, error] = std::from_chars(parameters.data(), parameters.data() + parameters.size(), number);
        const auto* const known =
            std::find_if(kModes.begin(), kModes.end(), [&](Mode m) { return m.number == number; });
        if (error != std::errc() || known == kModes.end()) return false;
        if (on == known->atFirst)
            after.erase(number);
        else
            after[number] = on;
        parameters.remove_prefix(static_cast<std::size_t>(end - parameters.data()));
        if (parameters.empty()) break;
        if (parameters.front() != ';') return false;
        parameters.remove_prefix(1);
    }
    modes_ = std::move(after);
    return true;
}

// Up to its end, which is a bell or ESC \; nothing of it is shown.
void ScreenFilter::takeString(char byte) {
    if (byte == '\x07' || (state_ == State::kStringEscape && byte == '\\')) return begin(State::kText, {});
    if (state_ == State::kStringEscape && byte != kEscape) {
        begin(State::kEscape, {&kEscape, 1});
        return takeEscape(byte);
    }
    state_ = byte == kEscape ? State::kStringEscape : State::kString;
}

}  // namespace gradus
