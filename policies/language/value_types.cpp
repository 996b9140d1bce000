#include "policies/language/value_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "policies/language/command_words.h"
#include "policies/language/duration.h"
#include "policies/language/size.h"
#include "policies/language/text_rules.h"
#include "store/model/actor_name.h"
#include "store/model/destination.h"

namespace gradus {

namespace {

using Kind = Node::Kind;

Value textValue(const Reading& reading, const Node& node, std::string text) {
    Value value;
    value.text = std::move(text);
    value.origin = reading.reader.originOf(node.span);
    return value;
}

std::optional<Value> readPlain(const Reading& reading, TextRule rule) {
    if (reading.node.kind != Kind::kText) return reading.wrongType();
    if (const std::string problem = rule(reading.node.text); !problem.empty())
        return reading.bad(reading.node, problem);
    Value value = reading.start();
    value.text = reading.node.text;
    return value;
}

std::optional<Value> readText(const Reading& reading) { return readPlain(reading, plainProblem); }
std::optional<Value> readName(const Reading& reading) { return readPlain(reading, nameProblem); }
std::optional<Value> readInnerPath(const Reading& reading) { return readPlain(reading, innerPathProblem); }
std::optional<Value> readUrl(const Reading& reading) { return readPlain(reading, urlProblem); }
std::optional<Value> readCron(const Reading& reading) { return readPlain(reading, cronProblem); }

/// A list of texts without repetition, each of which `rule` accepts; all that are wrong are said.
std::optional<Value> readTexts(const Reading& reading, TextRule rule) {
    if (reading.node.kind != Kind::kList) return reading.wrongType();
    Value value = reading.start();
    std::set<std::string> seen;
    bool good = true;
    for (const Node& item : reading.node.items) {
        const std::string problem = item.kind != Kind::kText         ? "must be a text"
                                    : !seen.insert(item.text).second ? "is listed twice"
                                                                     : rule(item.text);
        if (!problem.empty()) reading.bad(item, problem), good = false;
        value.items.push_back(textValue(reading, item, item.text));
    }
    if (!good) return std::nullopt;
    const auto count = static_cast<std::int64_t>(value.items.size());
    if (count < reading.row.least)
        return reading.bad(reading.node, "is empty", "write at least one: " + reading.row.example);
    if (count > reading.row.most)
        return reading.bad(reading.node, fmt::format("has more than {} elements", reading.row.most));
    return value;
}

std::optional<Value> readNames(const Reading& reading) { return readTexts(reading, nameProblem); }
std::optional<Value> readTextList(const Reading& reading) { return readTexts(reading, plainProblem); }
std::optional<Value> readPeople(const Reading& reading) { return readTexts(reading, actorNameProblem); }
std::optional<Value> readGlobs(const Reading& reading) { return readTexts(reading, globProblem); }
std::optional<Value> readEnvironment(const Reading& reading) { return readTexts(reading, environmentProblem); }

std::optional<Value> readBoolean(const Reading& reading) {
    if (reading.node.kind != Kind::kBoolean) return reading.wrongType();
    Value value = reading.start();
    value.number = reading.node.boolean ? 1 : 0;
    return value;
}

std::optional<Value> readCount(const Reading& reading) {
    if (reading.node.kind != Kind::kInteger) return reading.wrongType();
    return reading.ranged(reading.node.integer);
}

std::optional<Value> readCounts(const Reading& reading) {
    Value value = reading.start();
    KeyRow one = reading.row;
    one.type = ValueType::kCount;
    const bool single = reading.node.kind == Kind::kInteger;
    if (!single && reading.node.kind != Kind::kList) return reading.wrongType();
    const std::vector<Node> items = single ? std::vector<Node>{reading.node} : reading.node.items;
    for (const Node& item : items) {
        const auto number = readCount({item, one, reading.where, reading.reader});
        if (!number) return std::nullopt;
        value.items.push_back(*number);
    }
    if (value.items.empty()) return reading.bad(reading.node, "is empty");
    return value;
}

std::optional<Value> readDecimal(const Reading& reading) {
    double number = reading.node.decimal;
    if (reading.node.kind == Kind::kInteger)
        number = static_cast<double>(reading.node.integer);
    else if (reading.node.kind != Kind::kDecimal)
        return reading.wrongType();
    if (!std::isfinite(number)) return reading.bad(reading.node, "is not a number");
    // Beyond this a double holds no thousandths, and a conversion could overflow.
    if (std::abs(number) > 1e12) return reading.ranged(std::numeric_limits<std::int64_t>::max());
    return reading.ranged(std::llround(number * 1000));
}

std::optional<Value> readDuration(const Reading& reading) {
    if (reading.node.kind != Kind::kText) return reading.wrongType();
    const auto parsed = parseDuration(reading.node.text);
    if (!parsed) return reading.bad(reading.node, parsed.problem);
    return reading.ranged(parsed.value->count());
}

std::optional<Value> readSize(const Reading& reading) {
    if (reading.node.kind != Kind::kText) return reading.wrongType();
    const auto parsed = parseSize(reading.node.text);
    if (!parsed) return reading.bad(reading.node, parsed.problem);
    return reading.ranged(*parsed.value);
}

bool isChoice(const KeyRow& row, const std::string& text) {
    return std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end();
}

std::optional<Value> badChoice(const Reading& reading, const Node& node) {
    return reading.bad(node, "is not one of its values",
                       reading.reader.findings().hintFor(node.text, reading.row.choices, "values"));
}

std::optional<Value> readChoice(const Reading& reading) {
    if (reading.node.kind != Kind::kText) return reading.wrongType();
    if (!isChoice(reading.row, reading.node.text)) return badChoice(reading, reading.node);
    Value value = reading.start();
    value.text = reading.node.text;
    return value;
}

std::optional<Value> readChoices(const Reading& reading) {
    auto value = readTexts(reading, plainProblem);
    if (!value) return value;
    bool good = true;
    for (const Node& item : reading.node.items)
        if (!isChoice(reading.row, item.text)) badChoice(reading, item), good = false;
    if (!good) return std::nullopt;
    // It is a set: the order in the file says nothing.
    const auto& choices = reading.row.choices;
    std::sort(value->items.begin(), value->items.end(), [&](const Value& a, const Value& b) {
        return std::find(choices.begin(), choices.end(), a.text) < std::find(choices.begin(), choices.end(), b.text);
    });
    return value;
}

std::optional<Value> readPath(const Reading& reading) { return readPlain(reading, plainProblem); }
std::optional<Value> readPaths(const Reading& reading) { return readTexts(reading, plainProblem); }

std::optional<Value> readCommand(const Reading& reading) {
    const bool single = reading.node.kind == Kind::kText;
    if (!single && reading.node.kind != Kind::kList) return reading.wrongType();
    Value value = reading.start();
    if (single) {
        if (reading.node.text.find('\0') != std::string::npos) return reading.bad(reading.node, "has a zero byte");
        const auto words = splitCommand(reading.node.text);
        if (!words)
            return reading.bad(
                reading.node, words.problem,
                words.problem.find("shell") == std::string::npos
                    ? ""
                    : fmt::format("ask for a shell by name: {} = [\"sh\", \"-c\", \"…\"]", reading.row.name));
        for (const std::string& word : *words.value) value.items.push_back(textValue(reading, reading.node, word));
    }
    for (const Node& item : reading.node.items) {
        if (item.kind != Kind::kText) return reading.bad(item, "must be a text");
        if (item.text.find('\0') != std::string::npos) return reading.bad(item, "has a zero byte");
        value.items.push_back(textValue(reading, item, item.text));
    }
    if (value.items.empty() || value.items[0].text.empty()) return reading.bad(reading.node, "names no program");
    return value;
}

std::optional<Value> readReport(const Reading& reading) {
    if (reading.node.kind != Kind::kText) return reading.wrongType();
    const std::string& text = reading.node.text;
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return reading.bad(reading.node, "has no ':' between format and path");
    const std::string format = text.substr(0, colon);
    if (!isChoice(reading.row, format))
        return reading.bad(reading.node, fmt::format("has the unknown format '{}'", format),
                           reading.reader.findings().hintFor(format, reading.row.choices, "formats"));
    if (const std::string problem = innerPathProblem(text.substr(colon + 1)); !problem.empty())
        return reading.bad(reading.node, "has a path that " + problem);
    Value value = reading.start();
    value.text = text;
    return value;
}

std::optional<Value> readAllowList(const Reading& reading) {
    const Node& table = reading.node;
    const Node* list = table.find("allow");
    if (list == nullptr || table.entries.size() != 1 || list->kind != Kind::kList)
        return reading.bad(table, "must have the one key 'allow', a list of \"host:port\"");
    Value value = reading.start();
    value.text = "allow";
    for (const Node& item : list->items) {
        const std::string problem = item.kind != Kind::kText ? "must be a text" : destinationProblem(item.text);
        if (!problem.empty())
            return reading.bad(item, problem,
                               "write it as \"host:port\", such as \"pypi.org:443\"; \"db.test:5432=127.0.0.1\" pins "
                               "the address");
        value.items.push_back(textValue(reading, item, formatDestination(parseDestination(item.text))));
    }
    std::sort(value.items.begin(), value.items.end(), [](const Value& a, const Value& b) { return a.text < b.text; });
    return value;
}

std::optional<Value> readNetwork(const Reading& reading) {
    if (reading.node.kind == Kind::kTable) return readAllowList(reading);
    if (reading.node.kind != Kind::kText) return reading.wrongType();
    if (reading.node.text != "none" && reading.node.text != "host")
        return reading.bad(reading.node, "is not one of its values",
                           reading.reader.findings().hintFor(reading.node.text, {"none", "host"}, "values"));
    Value value = reading.start();
    value.text = reading.node.text;
    return value;
}

std::optional<Value> readTimeZone(const Reading& reading) {
    if (reading.node.kind != Kind::kText) return reading.wrongType();
    const std::string& text = reading.node.text;
    if (!timeZoneProblem(text).empty()) return reading.bad(reading.node, "is not the name of a time zone");
    std::error_code ignored;
    const std::filesystem::path& zones = reading.reader.vocabulary().zoneinfo;
    if (std::filesystem::is_directory(zones, ignored) && !std::filesystem::is_regular_file(zones / text, ignored))
        return reading.bad(reading.node, "is no time zone that this machine knows");
    Value value = reading.start();
    value.text = text;
    return value;
}

std::optional<Value> readTable(const Reading& reading) {
    if (reading.node.kind != Kind::kTable) return reading.wrongType();
    const std::string where = fmt::format("{} of {}", reading.row.name, reading.where);
    const Settings settings = reading.row.section == "policy-check"
                                  ? reading.reader.readCheck(reading.node, section("policy-check").rows, where)
                                  : reading.reader.read(reading.node, section(reading.row.section).rows, where);
    Value value = reading.start();
    value.type = ValueType::kTable;
    for (const auto& [key, field] : settings.values()) value.fields.emplace(key, field);
    return value;
}

std::optional<Value> readTables(const Reading& reading) {
    if (reading.node.kind != Kind::kList) return reading.wrongType();
    Value value = reading.start();
    for (const Node& item : reading.node.items) {
        const auto table = readTable({item, reading.row, reading.where, reading.reader});
        if (table) value.items.push_back(*table);
    }
    return value;
}

constexpr std::array<ValueTypeInfo, 26> kTypes{{
    {ValueType::kText, "a text", readText},
    {ValueType::kName, "a name", readName},
    {ValueType::kNameList, "a list of names", readNames},
    {ValueType::kTextList, "a list of texts", readTextList},
    {ValueType::kPeople, "a list of people", readPeople},
    {ValueType::kBoolean, "true or false", readBoolean},
    {ValueType::kCount, "a whole number", readCount},
    {ValueType::kCountList, "a whole number or a list of them", readCounts},
    {ValueType::kDecimal, "a number", readDecimal},
    {ValueType::kDuration, "a duration", readDuration},
    {ValueType::kSize, "a size", readSize},
    {ValueType::kChoice, "one of its values", readChoice},
    {ValueType::kChoiceList, "a list of its values", readChoices},
    {ValueType::kGlobList, "a list of patterns", readGlobs},
    {ValueType::kPath, "a path", readPath},
    {ValueType::kPathList, "a list of paths", readPaths},
    {ValueType::kInnerPath, "a path below the project", readInnerPath},
    {ValueType::kCommand, "a command", readCommand},
    {ValueType::kEnvironment, "a list of variables", readEnvironment},
    {ValueType::kUrl, "an address", readUrl},
    {ValueType::kReport, "a report", readReport},
    {ValueType::kNetwork, "a network", readNetwork},
    {ValueType::kCron, "a cron expression", readCron},
    {ValueType::kTimeZone, "a time zone", readTimeZone},
    {ValueType::kTable, "a table", readTable},
    {ValueType::kTableList, "a list of tables", readTables},
}};

std::string likeThis(const KeyRow& row) { return fmt::format("write it like {} = {}", row.name, row.example); }

std::string rangeText(const KeyRow& row) {
    if (row.most == std::numeric_limits<std::int64_t>::max())
        return fmt::format("at least {}", numberText(row.type, row.least));
    return fmt::format("from {} to {}", numberText(row.type, row.least), numberText(row.type, row.most));
}

/// The node as the user wrote it, as far as a message needs it.
std::string written(const Node& node) {
    if (node.kind == Kind::kText) return tomlQuoted(node.text.substr(0, 80));
    if (node.kind == Kind::kInteger) return std::to_string(node.integer);
    if (node.kind == Kind::kDecimal) return fmt::format("{}", node.decimal);
    return std::string(kindName(node.kind));
}

}  // namespace

Value Reading::start() const {
    Value value;
    value.type = row.type;
    value.origin = reader.originOf(node.span);
    return value;
}

std::optional<Value> Reading::wrongType() const {
    reader.findings().error(reader.originOf(node.span), "wrong-type",
                            fmt::format("'{}' in {} must be {}", row.name, where, typeInfo(row.type).name),
                            fmt::format("this is {}", kindName(node.kind)), likeThis(row));
    return std::nullopt;
}

std::optional<Value> Reading::bad(const Node& at, std::string_view problem, std::string hint) const {
    if (hint.empty()) hint = likeThis(row);
    reader.findings().error(reader.originOf(at.span), "bad-value",
                            fmt::format("'{}' in {}: {} {}", row.name, where, written(at), problem),
                            std::string(problem), std::move(hint));
    return std::nullopt;
}

std::optional<Value> Reading::ranged(std::int64_t number) const {
    Value value = start();
    value.number = number;
    if (number >= row.least && number <= row.most) return value;
    const bool small = number < row.least;
    reader.findings().error(reader.originOf(node.span), "out-of-range",
                            fmt::format("'{}' in {} is out of range", row.name, where),
                            fmt::format("must be {} {}", small ? "at least" : "at most",
                                        numberText(row.type, small ? row.least : row.most)),
                            fmt::format("write a value {}", rangeText(row)));
    return std::nullopt;
}

const ValueTypeInfo& typeInfo(ValueType type) {
    return *std::find_if(kTypes.begin(), kTypes.end(), [type](const ValueTypeInfo& info) { return info.type == type; });
}

}  // namespace gradus
