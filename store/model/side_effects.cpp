#include "store/model/side_effects.h"

#include <nlohmann/json.hpp>

namespace gradus {

namespace {

using Json = nlohmann::ordered_json;

Json allowedJson(const AllowedConnection& one) {
    return {{"host", one.host},
            {"port", one.port},
            {"address", one.address},
            {"connections", one.connections},
            {"failed", one.failed}};
}

Json refusedJson(const RefusedConnection& one) {
    Json json{{"protocol", one.protocol}, {"host", one.host},         {"port", one.port},
              {"reason", one.reason},     {"attempts", one.attempts}, {"exact", one.exact}};
    if (!one.address.empty()) json["address"] = one.address;
    return json;
}

Json callJson(const RefusedCall& one) { return {{"call", one.name}, {"times", one.times}, {"exact", one.exact}}; }

template <typename Element>
Json listJson(bool seen, const std::vector<Element>& all, Json (*json)(const Element&)) {
    if (!seen) return nullptr;
    Json list = Json::array();
    for (const Element& element : all) list.push_back(json(element));
    return list;
}

std::string textIn(const Json& json, const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
}

std::uint64_t numberIn(const Json& json, const char* key) {
    return json.contains(key) && json[key].is_number_unsigned() ? json[key].get<std::uint64_t>() : 0;
}

bool flagIn(const Json& json, const char* key) {
    return json.contains(key) && json[key].is_boolean() && json[key].get<bool>();
}

std::uint16_t portIn(const Json& json) { return static_cast<std::uint16_t>(numberIn(json, "port") & 0xffff); }

/// Calls `use` with every object of a list; true if there is a list.
template <typename Use>
bool eachOf(const Json& json, const char* key, const Use& use) {
    if (!json.contains(key) || !json[key].is_array()) return false;
    for (const Json& element : json[key])
        if (element.is_object()) use(element);
    return true;
}

std::vector<std::string> textsIn(const Json& json, const char* key) {
    std::vector<std::string> all;
    if (!json.contains(key) || !json[key].is_array()) return all;
    for (const Json& element : json[key])
        if (element.is_string()) all.push_back(element.get<std::string>());
    return all;
}

}  // namespace

std::string formatSideEffects(const SideEffects& effects) {
    const Json json{{"outside_writes", effects.outsideWrites},
                    {"more_outside_writes", effects.moreOutsideWrites},
                    {"leftover_processes", {{"count", effects.leftoverCount}, {"names", effects.leftoverProcesses}}},
                    {"network_allowed", listJson(effects.connectionsSeen, effects.networkAllowed, allowedJson)},
                    {"network_denied", listJson(effects.connectionsSeen, effects.networkDenied, refusedJson)},
                    {"more_network_denied", effects.moreDenied},
                    {"syscalls_denied", listJson(effects.callsSeen, effects.syscallsDenied, callJson)}};
    // Any bytes may be in the name of a file or of a process.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

SideEffects parseSideEffects(std::string_view text) {
    SideEffects effects;
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) return effects;
    effects.outsideWrites = textsIn(json, "outside_writes");
    effects.moreOutsideWrites = numberIn(json, "more_outside_writes");
    if (json.contains("leftover_processes") && json["leftover_processes"].is_object()) {
        effects.leftoverCount = numberIn(json["leftover_processes"], "count");
        effects.leftoverProcesses = textsIn(json["leftover_processes"], "names");
    }
    effects.connectionsSeen = eachOf(json, "network_allowed", [&](const Json& one) {
        effects.networkAllowed.push_back({textIn(one, "host"), portIn(one), textIn(one, "address"),
                                          numberIn(one, "connections"), numberIn(one, "failed")});
    });
    eachOf(json, "network_denied", [&](const Json& one) {
        effects.networkDenied.push_back({textIn(one, "protocol"), textIn(one, "host"), portIn(one),
                                         textIn(one, "reason"), textIn(one, "address"), numberIn(one, "attempts"),
                                         flagIn(one, "exact")});
    });
    effects.moreDenied = numberIn(json, "more_network_denied");
    effects.callsSeen = eachOf(json, "syscalls_denied", [&](const Json& one) {
        effects.syscallsDenied.push_back({textIn(one, "call"), numberIn(one, "times"), flagIn(one, "exact")});
    });
    return effects;
}

}  // namespace gradus
