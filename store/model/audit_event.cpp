#include "store/model/audit_event.h"

#include <nlohmann/json.hpp>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

// What is written here is chained for good, so nothing may go in that could not be read back.
void appendQuoted(std::string& out, std::string_view text) {
    if (firstInvalidUtf8(text)) throw Error(ErrorCode::kUsage, "an event's field is not UTF-8: {}", printable(text));
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 0x20)
            throw Error(ErrorCode::kUsage, "a control character in an event's field: {}", printable(text));
        out += c;
    }
    out += '"';
}

// A field given twice, a number too large, a stray space: a reader would see something else than what was hashed.
bool isAsWritten(const EventFields& fields, std::string_view text) {
    try {
        return fields.json() == text;
    } catch (const Error&) {
        return false;
    }
}

[[noreturn]] void missing(std::string_view key) {
    throw Error(ErrorCode::kDamaged, "an event lacks its field '{}'", key);
}

}  // namespace

EventFields& EventFields::set(std::string_view key, std::int64_t value) {
    values_.emplace_back(key, value);
    return *this;
}

EventFields& EventFields::set(std::string_view key, std::string_view value) {
    values_.emplace_back(key, std::string(value));
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
    std::string out = "{";
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
    const auto parsed = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!parsed.is_object()) throw Error(ErrorCode::kDamaged, "an event's body is not a JSON object");
    EventFields fields;
    for (const auto& [key, value] : parsed.items()) {
        if (value.is_number_integer()) {
            fields.set(key, value.get<std::int64_t>());
        } else if (value.is_string()) {
            fields.set(key, value.get_ref<const std::string&>());
        } else {
            throw Error(ErrorCode::kDamaged, "an event's field '{}' is neither a number nor a text", key);
        }
    }
    if (!isAsWritten(fields, text))
        throw Error(ErrorCode::kDamaged, "an event's body is not written the way events are: {}", printable(text));
    return fields;
}

}  // namespace gradus
