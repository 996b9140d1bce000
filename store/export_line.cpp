#include "store/export_line.h"

#include "store/audit_log.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/model/utf8.h"
#include "store/strict_json.h"

namespace gradus {

namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json orNull(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}

void requireText(const ExportLine& line) {
    for (const std::string* text :
         {&line.kind, &line.body, line.stage ? &*line.stage : nullptr, line.text ? &*line.text : nullptr})
        if (text != nullptr && firstInvalidUtf8(*text))
            throw Error(ErrorCode::kDamaged, "event {} holds bytes that are no text", line.numbers.seq)
                .hint("run `gradus audit verify`");
}

/// Reads members one by one; what is missing or of another type makes the whole unreadable.
class Reader {
  public:
    explicit Reader(const Json& json) : json_(json) {}
    bool isGood() const { return good_; }

    std::int64_t number(const char* name) {
        const Json* value = find(name);
        if (value != nullptr && value->is_number_integer()) return value->get<std::int64_t>();
        good_ = false;
        return 0;
    }
    std::string text(const char* name) {
        const Json* value = find(name);
        if (value != nullptr && value->is_string()) return value->get<std::string>();
        good_ = false;
        return {};
    }
    std::optional<std::int64_t> optionalNumber(const char* name) {
        return isAbsent(name) ? std::nullopt : std::optional(number(name));
    }
    std::optional<std::string> optionalText(const char* name) {
        return isAbsent(name) ? std::nullopt : std::optional(text(name));
    }
    std::optional<std::string> optionalBytes(const char* name, std::size_t size) {
        const auto digits = optionalText(name);
        if (!digits) return std::nullopt;
        auto bytes = fromHex(*digits);
        good_ = good_ && bytes && bytes->size() == size;
        return bytes;
    }

  private:
    const Json* find(const char* name) const {
        const auto found = json_.find(name);
        return found == json_.end() ? nullptr : &*found;
    }
    bool isAbsent(const char* name) const {
        const Json* value = find(name);
        return value == nullptr || value->is_null();
    }
    const Json& json_;
    bool good_ = true;
};

constexpr std::size_t kSaltSize = 16;

}  // namespace

ChainedFields ExportLine::fields() const {
    ChainedFields out = numbers;
    out.kind = kind;
    out.body = body;
    out.stage = stage;
    out.payloadDigest = payloadDigest;
    return out;
}

ExportLine ExportLine::of(const Sql::Call& row) {
    ExportLine line;
    line.numbers = chainedFields(row);
    line.kind = line.numbers.kind;
    line.body = line.numbers.body;
    if (line.numbers.stage) line.stage = std::string(*line.numbers.stage);
    if (line.numbers.payloadDigest) line.payloadDigest = std::string(*line.numbers.payloadDigest);
    line.hash = row.digest(kHashColumn);
    return line;
}

std::string ExportLine::encode() const {
    requireText(*this);
    Json json{{"seq", numbers.seq},
              {"at", numbers.at},
              {"batch", numbers.batch},
              {"kind", kind},
              {"actor", orNull(numbers.actor)},
              {"project", orNull(numbers.project)},
              {"change", orNull(numbers.change)},
              {"promotion", orNull(numbers.promotion)},
              {"stage", orNull(stage)},
              {"body", body},
              {"payload_digest", payloadDigest ? Json(toHex(*payloadDigest)) : Json()},
              {"hash", hash.hex()}};
    if (text) json["salt"] = toHex(salt.value_or(""));
    if (text) json["payload"] = *text;
    if (redactedBy) json["redacted_by"] = *redactedBy;
    return json.dump() + "\n";
}

std::optional<ExportLine> ExportLine::decode(std::string_view text) {
    const auto json = parseStrictly(text, 2);
    if (!json) return std::nullopt;
    Reader read(*json);
    ExportLine line;
    line.numbers.seq = read.number("seq");
    line.numbers.at = read.number("at");
    line.numbers.batch = read.number("batch");
    line.kind = read.text("kind");
    line.numbers.actor = read.optionalNumber("actor");
    line.numbers.project = read.optionalNumber("project");
    line.numbers.change = read.optionalNumber("change");
    line.numbers.promotion = read.optionalNumber("promotion");
    line.stage = read.optionalText("stage");
    line.body = read.text("body");
    line.payloadDigest = read.optionalBytes("payload_digest", Digest::kSize);
    const auto hash = read.optionalBytes("hash", Digest::kSize);
    line.salt = read.optionalBytes("salt", kSaltSize);
    line.text = read.optionalText("payload");
    line.redactedBy = read.optionalNumber("redacted_by");
    if (!read.isGood() || !hash || line.salt.has_value() != line.text.has_value()) return std::nullopt;
    line.hash = *Digest::fromBytes(*hash);
    return line;
}

}  // namespace gradus
