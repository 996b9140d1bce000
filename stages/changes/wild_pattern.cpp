#include "stages/changes/wild_pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace gradus {

namespace {

using Class = int (*)(int);

struct NamedClass {
    std::string_view name;
    Class contains;
};

constexpr std::array kClasses{
    NamedClass{"alnum", std::isalnum}, NamedClass{"alpha", std::isalpha}, NamedClass{"blank", std::isblank},
    NamedClass{"cntrl", std::iscntrl}, NamedClass{"digit", std::isdigit}, NamedClass{"graph", std::isgraph},
    NamedClass{"lower", std::islower}, NamedClass{"print", std::isprint}, NamedClass{"punct", std::ispunct},
    NamedClass{"space", std::isspace}, NamedClass{"upper", std::isupper}, NamedClass{"xdigit", std::isxdigit},
};

/// Reads what stands between '[' and ']'. Any mistake in it means that the pattern matches nothing from there on.
class SetReader {
  public:
    SetReader(std::string_view pattern, std::size_t at) : pattern_(pattern), at_(at) {}

    std::size_t end() const { return at_; }

    /// Afterwards end() is behind the ']'.
    std::optional<std::bitset<256>> read() {
        const bool negated = peek() == '!' || peek() == '^';
        if (negated) ++at_;
        // A ']' in first place is a member, not the end.
        do {
            if (!readMember()) return std::nullopt;
        } while (peek() != ']');
        ++at_;
        if (negated) members_.flip();
        members_.reset('/');
        return members_;
    }

  private:
    unsigned char peek(std::size_t ahead = 0) const {
        return at_ + ahead < pattern_.size() ? static_cast<unsigned char>(pattern_[at_ + ahead]) : 0;
    }

    bool readMember() {
        if (at_ >= pattern_.size()) return false;
        if (peek() == '-' && previous_ != 0 && peek(1) != 0 && peek(1) != ']') return readRange();
        if (peek() == '[' && peek(1) == ':') return readClass();
        if (peek() == '\\') ++at_;
        if (at_ >= pattern_.size()) return false;
        previous_ = peek();
        members_.set(previous_);
        ++at_;
        return true;
    }

    bool readRange() {
        ++at_;
        if (peek() == '\\') ++at_;
        if (at_ >= pattern_.size()) return false;
        for (std::size_t byte = previous_; byte <= peek(); ++byte) members_.set(byte);
        previous_ = 0;
        ++at_;
        return true;
    }

    bool readClass() {
        const std::size_t begin = at_ + 2;
        const std::size_t close = pattern_.find(']', begin);
        if (close == std::string_view::npos) return false;
        if (close == begin || pattern_[close - 1] != ':') {
            members_.set('[');
            previous_ = '[';
            ++at_;
            return true;
        }
        const std::string_view name = pattern_.substr(begin, close - 1 - begin);
        const auto* const found =
            std::find_if(kClasses.begin(), kClasses.end(), [&](const NamedClass& known) { return known.name == name; });
        if (found == kClasses.end()) return false;
        for (int byte = 0; byte < 128; ++byte)
            if (found->contains(byte) != 0) members_.set(static_cast<std::size_t>(byte));
        previous_ = 0;
        at_ = close + 1;
        return true;
    }

    std::string_view pattern_;
    std::size_t at_;
    std::bitset<256> members_;
    unsigned char previous_ = 0;
};

}  // namespace

WildPattern::WildPattern(std::string_view pattern) {
    for (std::size_t at = 0; at < pattern.size();) {
        if (pattern[at] == '*') {
            at = readStars(pattern, at);
        } else if (pattern[at] == '[') {
            at = readSet(pattern, at);
        } else if (pattern[at] == '?') {
            steps_.push_back({Kind::kOne, 0, 0, false});
            ++at;
        } else {
            if (pattern[at] == '\\') ++at;
            const bool dangling = at >= pattern.size();
            steps_.push_back({dangling ? Kind::kNever : Kind::kByte,
                              dangling ? static_cast<unsigned char>(0) : static_cast<unsigned char>(pattern[at]), 0,
                              false});
            ++at;
        }
    }
}

std::size_t WildPattern::readStars(std::string_view pattern, std::size_t at) {
    const std::size_t end = std::min(pattern.find_first_not_of('*', at), pattern.size());
    const bool opens = at == 0 || pattern[at - 1] == '/';
    const std::string_view rest = pattern.substr(end);
    const bool closes = rest.empty() || rest.front() == '/' || rest.starts_with("\\/");
    const bool anyDepth = end - at >= 2 && opens && closes;
    steps_.push_back({anyDepth ? Kind::kAnyDepth : Kind::kStar, 0, 0, anyDepth && rest.starts_with('/')});
    return end;
}

std::size_t WildPattern::readSet(std::string_view pattern, std::size_t at) {
    SetReader reader(pattern, at + 1);
    if (const auto members = reader.read()) {
        steps_.push_back({Kind::kSet, 0, sets_.size(), false});
        sets_.push_back(*members);
        return reader.end();
    }
    steps_.push_back({Kind::kNever, 0, 0, false});
    return pattern.size();
}

bool WildPattern::accepts(const Step& step, unsigned char byte) const {
    switch (step.kind) {
        case Kind::kByte:
            return byte == step.byte;
        case Kind::kOne:
        case Kind::kStar:
            return byte != '/';
        case Kind::kSet:
            return sets_[step.set].test(byte);
        case Kind::kAnyDepth:
            return true;
        case Kind::kNever:
            return false;
    }
    return false;
}

// A state is a number of steps done; a star may stand for nothing, so the state behind it is reached at once. "**/" may
// stand for nothing only where it begins, not after it has swallowed half a name: `arriving` tells the two apart.
void WildPattern::enter(std::vector<char>& states, std::size_t state, bool arriving) const {
    constexpr char kStayed = 1;
    constexpr char kArrived = 2;
    const char mark = arriving ? kArrived : kStayed;
    while (states[state] < mark) {
        states[state] = mark;
        if (state == steps_.size()) return;
        const Step& step = steps_[state];
        if (step.mayBeSkipped && arriving) enter(states, state + 2, true);
        if (step.kind != Kind::kStar && step.kind != Kind::kAnyDepth) return;
        ++state;
    }
}

bool WildPattern::matches(std::string_view text) const {
    std::vector<char> now(steps_.size() + 1, 0);
    std::vector<char> next(now.size(), 0);
    enter(now, 0, true);
    for (const char c : text) {
        std::fill(next.begin(), next.end(), 0);
        bool alive = false;
        for (std::size_t state = 0; state < steps_.size(); ++state) {
            const Step& step = steps_[state];
            if (now[state] == 0 || !accepts(step, static_cast<unsigned char>(c))) continue;
            const bool stays = step.kind == Kind::kStar || step.kind == Kind::kAnyDepth;
            enter(next, stays ? state : state + 1, !stays);
            alive = true;
        }
        if (!alive) return false;
        now.swap(next);
    }
    return now[steps_.size()] != 0;
}

}  // namespace gradus
