#include "store/strict_json.h"

#include <set>
#include <vector>

namespace gradus {

using Json = nlohmann::ordered_json;

std::optional<Json> parseStrictly(std::string_view text, int depth) {
    std::vector<std::set<std::string>> names;
    bool isStrict = true;
    const auto look = [&](int level, Json::parse_event_t event, Json& parsed) {
        if (level > depth) isStrict = false;
        if (event == Json::parse_event_t::object_start) names.emplace_back();
        if (event == Json::parse_event_t::object_end) names.pop_back();
        if (event == Json::parse_event_t::key)
            isStrict = names.back().insert(parsed.get<std::string>()).second && isStrict;
        return isStrict;
    };
    Json json = Json::parse(text, look, false);
    if (!isStrict || !json.is_object()) return std::nullopt;
    return json;
}

}  // namespace gradus
