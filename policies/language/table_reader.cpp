#include "policies/language/table_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policies/language/suggest.h"
#include "policies/language/value_types.h"

namespace gradus {

namespace {

std::vector<std::string> namesOf(const std::vector<KeyRow>& rows) {
    std::vector<std::string> names;
    for (const KeyRow& row : rows) names.push_back(row.name);
    return names;
}

std::vector<KeyRow> joined(const std::vector<KeyRow>& a, const std::vector<KeyRow>& b) {
    std::vector<KeyRow> all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
}

/// Where else a key is at home, so that a key in the wrong place is not just "unknown".
std::string homeOf(const std::string& key, const Vocabulary& vocabulary) {
    for (const DriverWords& driver : vocabulary.drivers)
        if (findRow(driver.keys, key) != nullptr) return fmt::format("a stage with driver = \"{}\"", driver.name);
    for (const CheckKindWords& kind : vocabulary.checkKinds)
        if (findRow(kind.keys, key) != nullptr) return fmt::format("a check with '{}'", kind.keys.front().name);
    for (const Section& candidate : sections())
        if (findRow(candidate.rows, key) != nullptr) return fmt::format("'{}'", candidate.id);
    return {};
}

void fillTable(Value& table, const KeyRow& row, const Vocabulary& vocabulary) {
    Settings inner;
    for (auto& [key, field] : table.fields) inner.set(key, std::move(field));
    fillDefaults(inner, section(row.section).rows, vocabulary);
    table.fields.clear();
    for (const auto& [key, field] : inner.values()) table.fields.emplace(key, field);
}

void fillNested(Value& value, const KeyRow& row, const Vocabulary& vocabulary) {
    if (value.type == ValueType::kTable) fillTable(value, row, vocabulary);
    for (Value& item : value.items) fillTable(item, row, vocabulary);
}

}  // namespace

Settings TableReader::read(const Node& table, const std::vector<KeyRow>& rows, const std::string& where) {
    Settings settings;
    for (const NodeEntry& entry : table.entries) {
        const KeyRow* row = findRow(rows, entry.key);
        if (row == nullptr) {
            reportUnknown(entry, rows, where);
            continue;
        }
        if (auto value = readValue(entry.value, *row, where)) settings.set(entry.key, std::move(*value));
    }
    for (const KeyRow& row : rows)
        if (row.required && table.find(row.name) == nullptr) reportMissing(table, row, where);
    return settings;
}

std::optional<Value> TableReader::readValue(const Node& node, const KeyRow& row, const std::string& where) {
    return typeInfo(row.type).read({node, row, where, *this});
}

void TableReader::reportUnknown(const NodeEntry& entry, const std::vector<KeyRow>& rows, const std::string& where) {
    std::string hint = findings_.hintFor(entry.key, namesOf(rows), "keys");
    const std::string home = homeOf(entry.key, vocabulary_);
    if (!home.empty() && !suggest(entry.key, namesOf(rows))) hint = fmt::format("it is a key of {}; {}", home, hint);
    findings_.error(originOf(entry.keySpan), "unknown-key", fmt::format("unknown key '{}' in {}", entry.key, where),
                    "not a key of it", std::move(hint));
}

void TableReader::reportMissing(const Node& table, const KeyRow& row, const std::string& where) {
    findings_.error(originOf(table.span), "missing-key", fmt::format("{} has no '{}'", where, row.name),
                    "it is required here", fmt::format("add {} = {}", row.name, row.example));
}

const CheckKindWords* TableReader::kindOf(const Node& table, const std::string& where) {
    const CheckKindWords* found = nullptr;
    std::vector<std::string> keys;
    for (const CheckKindWords& kind : vocabulary_.checkKinds) {
        const std::string& key = kind.keys.front().name;
        keys.push_back(key);
        if (table.find(key) == nullptr) continue;
        if (found != nullptr) {
            findings_.error(originOf(table.find(key)->span), "conflict",
                            fmt::format("{} has both '{}' and '{}'", where, found->keys.front().name, key),
                            "a check is of one kind", "make two checks of it");
            return nullptr;
        }
        found = &kind;
    }
    if (found != nullptr) return found;
    findings_.error(originOf(table.span), "missing-key", fmt::format("{} does not say what it does", where),
                    fmt::format("none of {} is there", fmt::join(keys, ", ")),
                    fmt::format("add {} = {}", vocabulary_.checkKinds.empty() ? "run" : keys.front(), "\"make test\""));
    return nullptr;
}

Settings TableReader::readCheck(const Node& table, const std::vector<KeyRow>& extraRows, const std::string& where) {
    const CheckKindWords* kind = kindOf(table, where);
    std::vector<KeyRow> rows = joined(section("check").rows, extraRows);
    if (kind != nullptr) {
        rows = joined(rows, kind->keys);
    } else {
        // The kind is in doubt and said so; its keys are not called unknown on top.
        for (const CheckKindWords& other : vocabulary_.checkKinds)
            for (KeyRow row : other.keys) row.required = false, rows.push_back(row);
    }
    Settings settings = read(table, rows, where);
    if (kind == nullptr) return settings;
    Value name;
    name.type = ValueType::kName;
    name.text = kind->name;
    name.origin = originOf(table.find(kind->keys.front().name)->span);
    settings.set(kKindSetting, std::move(name));
    return settings;
}

void fillDefaults(Settings& settings, const std::vector<KeyRow>& rows, const Vocabulary& vocabulary) {
    std::string text;
    for (const KeyRow& row : rows)
        if (!row.fallback.empty() && !settings.has(row.name)) text += row.name + " = " + row.fallback + "\n";
    Findings none;
    std::vector<Diagnostic> ignored;
    TableReader reader(vocabulary, none, Origin::Kind::kDefault, "");
    const auto document = parseDocument(SourceText("defaults", text), ignored);
    if (document)
        for (const NodeEntry& entry : document->entries)
            if (auto value = reader.readValue(entry.value, *findRow(rows, entry.key), "defaults"))
                settings.set(entry.key, std::move(*value));
    for (const KeyRow& row : rows)
        if (Value* value = settings.find(row.name); value != nullptr && !row.section.empty())
            fillNested(*value, row, vocabulary);
}

std::vector<KeyRow> checkRows(const CheckKindWords& kind) { return joined(section("check").rows, kind.keys); }

std::vector<KeyRow> stageRows(const DriverWords& driver) { return joined(section("stage").rows, driver.keys); }

}  // namespace gradus
