#include "store/model/audit_event.h"

#include <algorithm>
#include <charconv>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kUsualFields = 4;

bool isControl(char c) { return static_cast<unsigned char>(c) < 0x20; }

/// Needs no escape and no second look; nearly every field is such.
bool isPlain(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

// What is written here is chained for good, so nothing may go in that could not be read back.
void appendQuoted(std::string& out, std::string_view text) {
    if (isPlain(text)) {
        out.append("\"", 1).append(text).append("\"", 1);
        return;
    }
    if (firstInvalidUtf8(text)) throw Error(ErrorCode::kUsage, "an event's field is not UTF-8: {}", printable(text));
    out += '"';
    std::size_t written = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (isControl(text[at]))
            throw Error(ErrorCode::kUsage, "a control character in an event's field: {}", printable(text));
        if (text[at] != '"' && text[at] != '\\') continue;
        out.append(text, written, at - written) += '\\';
        written = at;
    }
    out.append(text, written) += '"';
}

/// Reads bodies the way json() writes them and no other: no spaces, no escapes but \" and \\, no number but an integer
/// in its shortest form, no name twice. A general parser takes ten times as long, and queries read nothing but bodies.
class BodyReader {
  public:
    explicit BodyReader(std::string_view text) : rest_(text) {}

    /// Nothing if it is not such a body.
    std::optional<EventFields> read() {
        EventFields fields;
        if (!take('{')) return std::nullopt;
        if (take('}')) return rest_.empty() ? std::optional(std::move(fields)) : std::nullopt;
        do {
            if (!readField(fields)) return std::nullopt;
        } while (take(','));
        if (!take('}') || !rest_.empty()) return std::nullopt;
        return fields;
    }

  private:
    bool take(char wanted) {
        if (rest_.empty() || rest_.front() != wanted) return false;
        rest_.remove_prefix(1);
        return true;
    }

    bool readField(EventFields& fields) {
        std::string key;
        if (!readText(key) || fields.has(key) || !take(':')) return false;
        if (!rest_.empty() && rest_.front() == '"') {
            std::string value;
            if (!readText(value)) return false;
            fields.set(key, std::move(value));
            return true;
        }
        const auto number = readNumber();
        if (number) fields.set(key, *number);
        return number.has_value();
    }

    bool readText(std::string& out) {
        if (!take('"')) return false;
        bool isAscii = true;
        std::size_t plain = 0;
        while (plain < rest_.size() && rest_[plain] != '"') {
            if (rest_[plain] == '\\') {
                if (!readEscaped(out, plain)) return false;
                plain = 0;
                continue;
            }
            if (isControl(rest_[plain])) return false;
            isAscii = isAscii && static_cast<unsigned char>(rest_[plain]) < 0x80;
            ++plain;
        }
        out += rest_.substr(0, plain);
        rest_.remove_prefix(plain);
        return take('"') && (isAscii || !firstInvalidUtf8(out));
    }

    /// The plain bytes before a backslash, and what it escapes.
    bool readEscaped(std::string& out, std::size_t plain) {
        out += rest_.substr(0, plain);
        rest_.remove_prefix(plain + 1);
        if (rest_.empty() || (rest_.front() != '"' && rest_.front() != '\\')) return false;
        out += rest_.front();
        rest_.remove_prefix(1);
        return true;
    }

    std::optional<std::int64_t> readNumber() {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        const std::string_view digits = rest_.substr(0, static_cast<std::size_t>(end - rest_.data()));
        if (error != std::errc() || (digits.front() == '0' && digits.size() > 1) || digits.starts_with("-0"))
            return std::nullopt;
        rest_.remove_prefix(digits.size());
        return value;
    }

    std::string_view rest_;
};

[[noreturn]] void missing(std::string_view key) {
    throw Error(ErrorCode::kDamaged, "an event lacks its field '{}'", key);
}

}  // namespace

void EventFields::add(std::string_view key, Value value) {
    if (values_.empty()) values_.reserve(kUsualFields);
    values_.emplace_back(key, std::move(value));
}

EventFields& EventFields::set(std::string_view key, std::int64_t value) {
    add(key, Value(value));
    return *this;
}

EventFields& EventFields::set(std::string_view key, std::string_view value) {
    add(key, Value(std::string(value)));
    return *this;
}

EventFields& EventFields::set(std::string_view key, std::string&& value) {
    add(key, Value(std::move(value)));
    return *this;
}

const EventFields::Value* EventFields::find(std::string_view key) const {
    for (const auto& [name, value] : values_)
        if (name == key) return &value;
    return nullptr;
}

std::optional<std::int64_t> EventFields::optionalNumber(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
    missing(key);
}

std::int64_t EventFields::number(std::string_view key) const {
    if (const auto value = optionalNumber(key)) return *value;
    missing(key);
}

const std::string& EventFields::text(std::string_view key) const {
    const Value* value = find(key);
    if (value != nullptr)
        if (const auto* text = std::get_if<std::string>(value)) return *text;
    missing(key);
}

std::optional<std::string> EventFields::optionalText(std::string_view key) const {
    return find(key) == nullptr ? std::nullopt : std::optional(text(key));
}

std::optional<Digest> EventFields::optionalDigest(std::string_view key) const {
    if (find(key) == nullptr) return std::nullopt;
    const auto digest = Digest::fromHex(text(key));
    if (!digest) missing(key);
    return digest;
}

Digest EventFields::digest(std::string_view key) const {
    if (const auto value = optionalDigest(key)) return *value;
    missing(key);
}

std::string EventFields::json() const {
    std::string out;
    out.reserve(256);
    out += '{';
    for (const auto& [key, value] : values_) {
        if (out.size() > 1) out += ',';
        appendQuoted(out, key);
        out += ':';
        if (const auto* number = std::get_if<std::int64_t>(&value)) {
            out += std::to_string(*number);
        } else {
            appendQuoted(out, std::get<std::string>(value));
        }
    }
    return out += '}';
}

EventFields EventFields::fromJson(std::string_view text) {
    if (auto fields = BodyReader(text).read()) return std::move(*fields);
    throw Error(ErrorCode::kDamaged, "an event's body is not written the way events are: {}", printable(text));
}

}  // namespace gradus
