#include "policies/language/schema.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "policies/language/document.h"

namespace gradus {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNamePattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$";
constexpr const char* kDurationPattern = "^(?=.)([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
constexpr const char* kSizePattern = "^[0-9]+([KMGT](iB)?|B)$";

Json text(const char* pattern = nullptr) {
    Json schema{{"type", "string"}};
    if (pattern != nullptr)
        schema["pattern"] = pattern;
    else
        schema["minLength"] = 1;
    return schema;
}

Json listOf(Json item, const KeyRow& row) {
    Json schema{{"type", "array"}, {"items", std::move(item)}, {"uniqueItems", true}};
    if (row.least > 0) schema["minItems"] = row.least;
    if (row.most != std::numeric_limits<std::int64_t>::max()) schema["maxItems"] = row.most;
    return schema;
}

Json number(const KeyRow& row) {
    Json schema{{"type", "integer"}, {"minimum", row.least}};
    if (row.most != std::numeric_limits<std::int64_t>::max()) schema["maximum"] = row.most;
    return schema;
}

Json decimal(const KeyRow& row) {
    return {{"type", "number"},
            {"minimum", static_cast<double>(row.least) / 1000},
            {"maximum", static_cast<double>(row.most) / 1000}};
}

Json network() {
    Json allow{{"type", "object"},
               {"properties",
                {{"allow", {{"type", "array"}, {"items", text("^[A-Za-z0-9_.-]+(:[0-9]{1,5})?(=[0-9a-fA-F.:]+)?$")}}}}},
               {"required", {"allow"}},
               {"additionalProperties", false}};
    return {{"oneOf", Json::array({Json{{"enum", {"none", "host"}}}, std::move(allow)})}};
}

Json reference(const std::string& id) { return {{"$ref", "#/$defs/" + id}}; }

Json typeSchema(const KeyRow& row) {
    switch (row.type) {
        case ValueType::kName:
            return text(kNamePattern);
        case ValueType::kNameList:
            return listOf(text(kNamePattern), row);
        case ValueType::kTextList:
        case ValueType::kPeople:
        case ValueType::kGlobList:
        case ValueType::kPathList:
            return listOf(text(), row);
        case ValueType::kEnvironment:
            return listOf(text("^[A-Za-z_][A-Za-z0-9_]*(=.*)?$"), row);
        case ValueType::kBoolean:
            return {{"type", "boolean"}};
        case ValueType::kCount:
            return number(row);
        case ValueType::kCountList:
            return {{"oneOf",
                     Json::array({number(row), Json{{"type", "array"}, {"items", number(row)}, {"minItems", 1}}})}};
        case ValueType::kDecimal:
            return decimal(row);
        case ValueType::kDuration:
            return text(kDurationPattern);
        case ValueType::kSize:
            return text(kSizePattern);
        case ValueType::kChoice:
            return {{"enum", row.choices}};
        case ValueType::kChoiceList:
            return listOf({{"enum", row.choices}}, row);
        case ValueType::kCommand:
            return {{"oneOf",
                     Json::array({text(), Json{{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}}})}};
        case ValueType::kUrl:
            return text("^https?://");
        case ValueType::kReport:
            return text("^[a-z]+:.+$");
        case ValueType::kNetwork:
            return network();
        case ValueType::kTable:
            return reference(row.section);
        case ValueType::kTableList:
            return {{"type", "array"}, {"items", reference(row.section)}};
        default:
            return text();
    }
}

/// The default of a row as JSON, where it is a plain value.
void addDefault(const KeyRow& row, Json& schema) {
    if (row.fallback.empty()) return;
    const Json value = Json::parse(row.fallback, nullptr, false);  // Scalars and lists are written alike in both.
    if (!value.is_discarded()) schema["default"] = value;
}

Json rowSchema(const KeyRow& row) {
    Json schema = typeSchema(row);
    schema["description"] = row.documentation;
    addDefault(row, schema);
    return schema;
}

void addRows(const std::vector<KeyRow>& rows, bool withRequired, Json& schema) {
    for (const KeyRow& row : rows) {
        Json& place = schema["properties"][row.name];
        // Two drivers may use one word for two things; either is right as far as a schema can tell.
        place = place.is_null() ? rowSchema(row) : Json{{"anyOf", Json::array({place, rowSchema(row)})}};
        if (withRequired && row.required) schema["required"].push_back(row.name);
    }
}

Json objectOf(const std::vector<KeyRow>& rows, const std::string& documentation) {
    Json schema{{"type", "object"},
                {"description", documentation},
                {"properties", Json::object()},
                {"additionalProperties", false}};
    addRows(rows, true, schema);
    return schema;
}

Json requiredOf(const std::vector<KeyRow>& rows) {
    Json names = Json::array();
    for (const KeyRow& row : rows)
        if (row.required) names.push_back(row.name);
    return names;
}

Json checkSchema(const std::vector<KeyRow>& rows, const std::string& documentation, const Vocabulary& vocabulary) {
    Json schema = objectOf(rows, documentation);
    Json kinds = Json::array();
    for (const CheckKindWords& kind : vocabulary.checkKinds) {
        addRows(kind.keys, false, schema);
        kinds.push_back({{"required", requiredOf(kind.keys)}});
    }
    if (!kinds.empty()) schema["oneOf"] = kinds;
    return schema;
}

Json stageSchema(const Section& stage, const Vocabulary& vocabulary) {
    Json schema = objectOf(stage.rows, stage.documentation);
    Json names = Json::array();
    for (const DriverWords& driver : vocabulary.drivers) {
        names.push_back(driver.name);
        addRows(driver.keys, false, schema);
        const Json needed = requiredOf(driver.keys);
        if (needed.empty()) continue;
        schema["allOf"].push_back(
            {{"if", {{"properties", {{"driver", {{"const", driver.name}}}}}, {"required", {"driver"}}}},
             {"then", {{"required", needed}}}});
    }
    schema["properties"]["driver"] = {{"enum", names}, {"description", findRow(stage.rows, "driver")->documentation}};
    return schema;
}

Json sectionSchema(const Section& section, const Vocabulary& vocabulary) {
    if (section.id == "stage") return stageSchema(section, vocabulary);
    if (section.id == "check") return checkSchema(section.rows, section.documentation, vocabulary);
    if (section.id != "policy-check") return objectOf(section.rows, section.documentation);
    std::vector<KeyRow> rows = section.rows;
    const std::vector<KeyRow>& common = gradus::section("check").rows;
    rows.insert(rows.end(), common.begin(), common.end());
    return checkSchema(rows, section.documentation, vocabulary);
}

Json placeOf(const Section& section) {
    switch (section.shape) {
        case Section::Shape::kNamed:
            return {{"type", "object"},
                    {"propertyNames", text(kNamePattern)},
                    {"additionalProperties", reference(section.id)}};
        case Section::Shape::kList:
            return {{"type", "array"}, {"items", reference(section.id)}};
        default:
            return reference(section.id);
    }
}

}  // namespace

std::string schemaJson(const Vocabulary& vocabulary) {
    Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                {"title", "gradus.toml"},
                {"type", "object"},
                {"properties", Json::object()},
                {"required", {"pipeline"}},
                {"additionalProperties", false}};
    for (const Section& section : sections()) {
        schema["$defs"][section.id] = sectionSchema(section, vocabulary);
        if (section.shape != Section::Shape::kNested) schema["properties"][section.id] = placeOf(section);
    }
    return schema.dump(2) + "\n";
}

}  // namespace gradus
