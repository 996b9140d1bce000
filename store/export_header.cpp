#include "store/audit_export.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/strict_json.h"

namespace gradus {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "gradus.v1/audit-export";
constexpr std::int64_t kFormat = 1;
constexpr int kDepth = 4;

template <typename T>
Json orNull(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}

Json pointJson(const AnchorPoint& point) { return {{"seq", point.seq}, {"hash", point.hash.hex()}}; }

Digest digestIn(const Json& json, const char* name) {
    const auto digest = Digest::fromHex(json.at(name).get<std::string>());
    if (!digest) throw Error(ErrorCode::kDamaged, "'{}' is no digest", name);
    return *digest;
}

std::string bytesIn(const Json& json, const char* name) {
    const auto bytes = fromHex(json.at(name).get<std::string>());
    if (!bytes) throw Error(ErrorCode::kDamaged, "'{}' is not written in hexadecimal digits", name);
    return *bytes;
}

AnchorPoint pointIn(const Json& json) { return {json.at("seq").get<std::int64_t>(), digestIn(json, "hash")}; }

template <typename T>
std::optional<T> optionalIn(const Json& json, const char* name) {
    return !json.contains(name) || json.at(name).is_null() ? std::nullopt : std::optional(json.at(name).get<T>());
}

ExportSelection selectionIn(const Json& json) {
    return {optionalIn<std::int64_t>(json, "since"), optionalIn<std::int64_t>(json, "until"),
            optionalIn<std::int64_t>(json, "change"), optionalIn<std::string>(json, "stage")};
}

std::pair<ActorId, Actor> actorIn(const Json& json) {
    const auto kind = fromName(kActorKinds, json.at("kind").get<std::string>());
    if (!kind) throw Error(ErrorCode::kDamaged, "an actor is of an unknown kind");
    return {json.at("id").get<std::int64_t>(), {*kind, json.at("name").get<std::string>()}};
}

ExportHeader headerIn(const Json& json) {
    if (json.at("schema") != kSchema || json.at("format") != kFormat)
        throw Error(ErrorCode::kDamaged, "it is of another format than {} {}", kSchema, kFormat);
    ExportHeader header;
    header.store = json.at("store").get<std::string>();
    for (const Json& key : json.at("public_keys")) header.publicKeys.push_back(key.get<std::string>());
    header.first = json.at("first").get<std::int64_t>();
    header.last = json.at("last").get<std::int64_t>();
    header.before = digestIn(json, "before");
    header.head = pointIn(json.at("head"));
    header.selection = selectionIn(json.at("selection"));
    for (const Json& point : json.at("anchors")) header.anchors.push_back(pointIn(point));
    for (const Json& point : json.at("signed"))
        header.signedPoints.push_back({pointIn(point), bytesIn(point, "public_key"), bytesIn(point, "signature")});
    for (const Json& actor : json.at("actors")) header.actors.push_back(actorIn(actor));
    header.at = fromMillis(json.at("exported_at").get<std::int64_t>());
    if (header.first < 1 || header.last < header.first)
        throw Error(ErrorCode::kDamaged, "it goes from event {} to event {}", header.first, header.last);
    return header;
}

}  // namespace

bool ExportSelection::holds(const ChainedFields& fields) const {
    return (!since || fields.at >= *since) && (!until || fields.at < *until) && (!change || fields.change == change) &&
           (!stage || (fields.stage && *fields.stage == *stage));
}

std::string ExportHeader::encode() const {
    Json json{{"schema", kSchema},
              {"format", kFormat},
              {"store", store},
              {"public_keys", publicKeys},
              {"first", first},
              {"last", last},
              {"before", before.hex()},
              {"head", pointJson(head)},
              {"selection",
               {{"since", orNull(selection.since)},
                {"until", orNull(selection.until)},
                {"change", orNull(selection.change)},
                {"stage", orNull(selection.stage)}}},
              {"anchors", Json::array()},
              {"signed", Json::array()},
              {"actors", Json::array()},
              {"exported_at", toMillis(at)}};
    for (const AnchorPoint& point : anchors) json["anchors"].push_back(pointJson(point));
    for (const SignedPoint& point : signedPoints) {
        Json one = pointJson(point.point);
        one["public_key"] = toHex(point.publicKey);
        one["signature"] = toHex(point.signature);
        json["signed"].push_back(std::move(one));
    }
    for (const auto& [id, actor] : actors)
        json["actors"].push_back({{"id", id}, {"kind", nameOf(kActorKinds, actor.kind)}, {"name", actor.name}});
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ExportHeader ExportHeader::decode(std::string_view line) {
    const auto json = parseStrictly(line, kDepth);
    if (!json) throw Error(ErrorCode::kDamaged, "its first line is no JSON object");
    try {
        return headerIn(*json);
    } catch (const Json::exception& e) {
        throw Error(ErrorCode::kDamaged, "its first line is incomplete: {}", e.what());
    }
}

}  // namespace gradus
