#include "policies/language/schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/policies/language/loading.h"

namespace gradus {
namespace {

using Json = nlohmann::json;

TEST(Schema, IsADraft2020Schema) {
    const Json schema = Json::parse(schemaJson(builtinVocabulary()));
    EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    EXPECT_EQ(schema["required"], Json({"pipeline"}));
}

TEST(Schema, HasEveryKeyWithItsDocumentation) {
    const Vocabulary vocabulary = builtinVocabulary();
    const Json schema = Json::parse(schemaJson(vocabulary));
    const auto expectRows = [&](const std::string& id, const std::vector<KeyRow>& rows) {
        for (const KeyRow& row : rows) {
            const Json& properties = schema["$defs"][id]["properties"];
            ASSERT_TRUE(properties.contains(row.name)) << id << "." << row.name;
            EXPECT_NE(properties[row.name].dump().find(Json(row.documentation).dump()), std::string::npos) << row.name;
        }
        EXPECT_EQ(schema["$defs"][id]["additionalProperties"], false);
    };
    for (const Section& section : sections()) expectRows(section.id, section.rows);
    for (const DriverWords& driver : vocabulary.drivers) expectRows("stage", driver.keys);
    for (const CheckKindWords& kind : vocabulary.checkKinds) expectRows("check", kind.keys);
}

TEST(Schema, EveryReferenceLeadsSomewhere) {
    const Json schema = Json::parse(schemaJson(builtinVocabulary()));
    const std::string text = schema.dump();
    std::size_t found = 0;
    for (std::size_t at = text.find("#/$defs/"); at != std::string::npos; at = text.find("#/$defs/", at + 1), ++found) {
        const std::string id = text.substr(at + 8, text.find('"', at) - at - 8);
        EXPECT_TRUE(schema["$defs"].contains(id)) << id;
    }
    EXPECT_GT(found, 10U);
}

TEST(Schema, TheRangesAreThoseOfTheTable) {
    const Json schema = Json::parse(schemaJson(builtinVocabulary()));
    EXPECT_EQ(schema["$defs"]["check"]["properties"]["retries"]["maximum"], 10);
    EXPECT_EQ(schema["$defs"]["check"]["properties"]["retries"]["default"], 1);
    EXPECT_EQ(schema["$defs"]["policy"]["properties"]["freshness"]["enum"], Json({"allow", "recheck", "exact"}));
}

}  // namespace
}  // namespace gradus
