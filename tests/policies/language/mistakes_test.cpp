#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "policies/language/table_reader.h"
#include "policies/language/value_types.h"
#include "tests/policies/language/loading.h"

// Every mistake that the table of keys lets one make, made once. A new row brings its mistakes along.

namespace gradus {
namespace {

/// A place where keys can be written: all of the file before them, and what else must be there.
struct Place {
    std::string name;
    std::string before;
    std::vector<KeyRow> rows;
    std::map<std::string, std::string> base;  // key -> value, besides the row under test
};

constexpr const char* kWorld =
    "[pipeline]\nname = \"w\"\nstages = [\"sandbox\", \"local\", \"production\", \"s\"]\n"
    "[check.build]\nrun = \"make\"\n[check.unit]\nrun = \"make test\"\n[check.health]\nhttp = \"http://127.0.0.1/\"\n"
    "[service.db]\nrun = \"db\"\n[stage.sandbox]\nchecks = [\"unit\"]\n[stage.local]\nchecks = [\"unit\"]\n"
    "[stage.production]\ndriver = \"release-directory\"\npath = \"/srv\"\nchecks = [\"unit\"]\n";
constexpr const char* kPlainStage = "[stage.s]\ndriver = \"worktree\"\nchecks = [\"unit\"]\n";

std::map<std::string, std::string> requiredOf(const std::vector<KeyRow>& rows) {
    std::map<std::string, std::string> base;
    for (const KeyRow& row : rows)
        if (row.required) base[row.name] = row.example;
    return base;
}

std::string headerOf(const std::string& id) {
    static const std::map<std::string, std::string> headers{
        {"sandbox", "[sandbox]\n"},
        {"limits", "[sandbox.limits]\n"},
        {"policy", "[policy.s]\n"},
        {"policy-check", "[[policy.s.check]]\n"},
        {"approval", "[[policy.s.approvals]]\n"},
        {"step", "[[stage.s.step]]\n"},
        {"risk", "[policy.s.risk]\n"},
        {"budget", "[policy.s.budget]\n"},
        {"window", "[[window]]\n"},
        {"service", "[service.x]\n"},
        {"role", "[role.x]\n"},
        {"window-time", "[[window]]\nstages = [\"local\"]\n[window.deny]\n"}};
    return headers.at(id);
}

void addStagePlaces(const Vocabulary& vocabulary, std::vector<Place>& places) {
    const std::string before = std::string(kWorld) + "[stage.s]\n";
    places.push_back(
        {"stage",
         before,
         section("stage").rows,
         {{"driver", "\"release-directory\""}, {"path", "\"/srv/s\""}, {"checks", "[\"unit\", \"health\"]"}}});
    for (const DriverWords& driver : vocabulary.drivers) {
        auto base = requiredOf(driver.keys);
        base["driver"] = "\"" + driver.name + "\"";
        places.push_back({"driver " + driver.name, before, driver.keys, base});
    }
}

void addCheckPlaces(const Vocabulary& vocabulary, std::vector<Place>& places) {
    const std::string before = std::string(kWorld) + kPlainStage + "[check.c]\n";
    places.push_back({"check", before, section("check").rows, {{"run", "\"make\""}}});
    for (const CheckKindWords& kind : vocabulary.checkKinds)
        places.push_back({"kind " + kind.name, before, kind.keys, requiredOf(kind.keys)});
}

std::vector<Place> allPlaces(const Vocabulary& vocabulary) {
    std::vector<Place> places;
    for (const Section& section : sections()) {
        auto base = requiredOf(section.rows);
        if (section.id == "pipeline")
            places.push_back({"pipeline", "[pipeline]\n", section.rows, base});
        else if (section.id == "stage")
            addStagePlaces(vocabulary, places);
        else if (section.id == "check")
            addCheckPlaces(vocabulary, places);
        else {
            if (section.id == "policy-check") base["run"] = "\"make lint\"";
            if (section.id == "step") {
                base["idempotence"] = "\"probe\"";
                base["probe"] = "\"true\"";
            }
            if (section.id == "window") base["deny"] = findRow(section.rows, "deny")->example;
            places.push_back(
                {section.id, std::string(kWorld) + kPlainStage + headerOf(section.id), section.rows, base});
        }
    }
    return places;
}

/// The file with `line` as its last line.
std::string fileWith(const Place& place, const std::string& without, const std::string& line) {
    std::string text = place.before;
    for (const auto& [key, value] : place.base)
        if (key != without && !(without == "allow" && key == "deny")) text += key + " = " + value + "\n";
    return text + line + "\n";
}

std::uint32_t lastLine(const std::string& text) {
    return static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n'));
}

struct Tally {
    int generated = 0;
    int refused = 0;
};

/// One mistake: the file must be refused with an error at that place that has a reason and a hint.
void expectRefused(const std::string& text, Position at, const std::string& what, Tally& tally,
                   const std::string& hint = {}) {
    ++tally.generated;
    static const Vocabulary vocabulary = builtinVocabulary();
    const LoadResult result = load(pipelineOf(text), vocabulary, {});
    bool found = false;
    for (const Diagnostic& d : result.diagnostics)
        found = found ||
                (d.severity == Severity::kError && d.file == kPipelineFile && d.span.begin == at &&
                 !d.message.empty() && !d.reason.empty() && !d.hint.empty() && d.hint.find(hint) != std::string::npos);
    if (found && !result.pipeline)
        ++tally.refused;
    else
        ADD_FAILURE() << what << " should be refused at " << at.line << ":" << at.column << " with hint '" << hint
                      << "':\n"
                      << text << "\n"
                      << renderDiagnostics(result.diagnostics, false);
}

using Values = std::vector<std::string>;

/// TOML values of kinds that the type does not take.
Values wrongTypes(ValueType type) {
    static const std::map<std::string, std::string> kinds{
        {"text", "\"?!\""},     {"integer", "7"}, {"decimal", "1.5"},      {"boolean", "true"},
        {"date", "1979-05-27"}, {"list", "[[]]"}, {"table", "{ zzz = 1 }"}};
    std::set<std::string> taken{"text"};
    switch (type) {
        case ValueType::kBoolean:
            taken = {"boolean"};
            break;
        case ValueType::kCount:
            taken = {"integer"};
            break;
        case ValueType::kCountList:
            taken = {"integer", "list"};
            break;
        case ValueType::kDecimal:
            taken = {"integer", "decimal"};
            break;
        case ValueType::kCommand:
            taken = {"text", "list"};
            break;
        case ValueType::kNetwork:
            taken = {"text", "table"};
            break;
        case ValueType::kTable:
            taken = {"table"};
            break;
        case ValueType::kNameList:
        case ValueType::kTextList:
        case ValueType::kPeople:
        case ValueType::kChoiceList:
        case ValueType::kGlobList:
        case ValueType::kPathList:
        case ValueType::kEnvironment:
        case ValueType::kTableList:
            taken = {"list"};
            break;
        default:
            break;
    }
    Values values;
    for (const auto& [kind, value] : kinds)
        if (!taken.contains(kind)) values.push_back(value);
    return values;
}

/// Values of the right kind that no value of the type has: units, forms, names.
Values wrongValues(ValueType type) {
    switch (type) {
        case ValueType::kText:
        case ValueType::kPath:
            return {"\"\""};
        case ValueType::kName:
            return {"\"\"", "\"a b\"", "\"-a\"", "\"a/b\"", "\"ä\""};
        case ValueType::kDuration:
            return {"\"\"",     "\"5\"",  "\"5 parsecs\"", "\"-1s\"",
                    "\"1.5h\"", "\"5M\"", "\"1s1h\"",      "\"9999999999999999999s\""};
        case ValueType::kSize:
            return {"\"\"", "\"5\"", "\"5X\"", "\"-1G\"", "\"1.5G\"", "\"5GB\"", "\"9999999999999999999T\""};
        case ValueType::kDecimal:
            return {"nan", "inf", "-inf"};
        case ValueType::kChoice:
            return {"\"\"", "\"zzz\""};
        case ValueType::kInnerPath:
            return {"\"\"", "\"/abs\"", "\"../up\"", "\"a/../../b\""};
        case ValueType::kCommand:
            return {"\"\"", "[]", "[\"\"]", "\"a | b\"", "\"echo ${x}\"", "\"echo 'a\""};
        case ValueType::kUrl:
            return {"\"\"", "\"ftp://x\"", "\"http://\"", "\"http://u:p@x/\"", "\"http://a b\""};
        case ValueType::kReport:
            return {"\"\"", "\"junit\"", "\"zzz:a\"", "\"junit:../a\"", "\"junit:\""};
        case ValueType::kNetwork:
            return {"\"\"", "\"lan\"", "{ deny = [] }", "{ allow = 1 }", "{ allow = [], x = 1 }"};
        case ValueType::kCron:
            return {"\"\"", "\"@daily\"", "\"61 * * * *\"", "\"* * * *\"", "\"0 0 * * FUN\"", "\"5-1 * * * *\""};
        case ValueType::kTimeZone:
            return {"\"\"", "\"Mars/Base\"", "\"../etc/passwd\"", "\"europe/berlin\""};
        case ValueType::kCountList:
            return {"[]"};
        default:
            return {};
    }
}

/// First elements of a list that are wrong.
Values wrongElements(ValueType type) {
    switch (type) {
        case ValueType::kNameList:
            return {"7", "true", "\"a b\"", "\"\"", "[]"};
        case ValueType::kTextList:
        case ValueType::kPathList:
            return {"7", "true", "\"\"", "[]"};
        case ValueType::kPeople:
            return {"7", "true", "\"\"", "[]", "\"ben \"", "\"\\tben\""};
        case ValueType::kChoiceList:
            return {"7", "true", "\"zzz\"", "[]"};
        case ValueType::kGlobList:
            return {"7", "\"\"", "\"[\"", "\"../x\"", "\"a**b\""};
        case ValueType::kEnvironment:
            return {"7", "\"\"", "\"1A\"", "\"=x\"", "\"A B\""};
        case ValueType::kCommand:
            return {"7", "true"};
        case ValueType::kTableList:
            return {"7", "\"a\""};
        case ValueType::kCountList:
            return {"\"a\"", "true", "1.5"};
        default:
            return {};
    }
}

bool isNumeric(ValueType type) {
    return type == ValueType::kCount || type == ValueType::kDecimal || type == ValueType::kDuration ||
           type == ValueType::kSize;
}

Values outOfRange(const KeyRow& row) {
    Values values;
    if (!isNumeric(row.type)) return row.least > 0 && row.type == ValueType::kNameList ? Values{"[]"} : values;
    if (row.least > 0 || row.type == ValueType::kCount) values.push_back(numberText(row.type, row.least - 1));
    if (row.most != std::numeric_limits<std::int64_t>::max()) values.push_back(numberText(row.type, row.most + 1));
    return values;
}

Values typosOf(const std::string& name) {
    std::string swapped = name;
    if (name.size() > 3) std::swap(swapped[1], swapped[2]);
    return {name + "s", "x" + name, name.substr(0, name.size() - 1), swapped, name + "_"};
}

void makeMistakesInValue(const Place& place, const KeyRow& row, Tally& tally) {
    const auto column = static_cast<std::uint32_t>(row.name.size() + 4);
    const auto attempt = [&](const std::string& value, std::uint32_t at) {
        const std::string text = fileWith(place, row.name, row.name + " = " + value);
        expectRefused(text, {lastLine(text), at}, place.name + "." + row.name + " = " + value, tally);
    };
    for (const std::string& value : wrongTypes(row.type)) attempt(value, column);
    for (const std::string& value : wrongValues(row.type)) attempt(value, column);
    for (const std::string& value : outOfRange(row)) attempt(value, column);
    for (const std::string& value : wrongElements(row.type)) attempt("[" + value + "]", column + 1);
    if (row.type == ValueType::kNameList || row.type == ValueType::kChoiceList) {
        const std::string item = row.example.substr(1, row.example.find_first_of(",]") - 1);
        attempt("[" + item + ", " + item + "]", column + static_cast<std::uint32_t>(item.size()) + 3);
    }
}

void makeMistakesInKey(const Place& place, const KeyRow& row, Tally& tally) {
    const std::string what = place.name + "." + row.name;
    for (const std::string& typo : typosOf(row.name)) {
        if (typo.empty() || findRow(place.rows, typo) != nullptr || place.base.contains(typo) || typo == row.name)
            continue;
        const std::string text = fileWith(place, row.name, typo + " = " + row.example);
        // A short word has too many neighbours for the right one to be certain.
        const std::string hint = row.name.size() > 4 ? "did you mean '" + row.name : "";  // check, or checks
        expectRefused(text, {lastLine(text), 1}, what + " as " + typo, tally, hint);
    }
    const std::string line = row.name + " = " + row.example;
    const std::string twice = fileWith(place, row.name, line + "\n" + line);
    expectRefused(twice, {lastLine(twice), 1}, what + " twice", tally, "remove one of the two");
    if (!row.required) return;
    const std::string text = fileWith(place, row.name, "");
    const auto header = static_cast<std::uint32_t>(std::count(place.before.begin(), place.before.end(), '\n'));
    expectRefused(text, {header, 1}, what + " missing", tally, "add ");
}

void makeNearlyRightChoices(const Place& place, const KeyRow& row, Tally& tally) {
    const bool list = row.type == ValueType::kChoiceList;
    if (!list && row.type != ValueType::kChoice) return;
    for (const std::string& choice : row.choices) {
        if (choice.size() < 4) continue;
        const std::string value = "\"" + choice.substr(0, choice.size() - 1) + "\"";
        const std::string text = fileWith(place, row.name, row.name + " = " + (list ? "[" + value + "]" : value));
        expectRefused(text, {lastLine(text), static_cast<std::uint32_t>(row.name.size() + (list ? 5 : 4))},
                      place.name + "." + row.name + " = " + value, tally, "did you mean '" + choice + "'?");
    }
}

TEST(Mistakes, EveryExampleOfTheTableIsRight) {
    const Vocabulary vocabulary = builtinVocabulary();
    for (const Place& place : allPlaces(vocabulary))
        for (const KeyRow& row : place.rows) {
            const std::string text = fileWith(place, row.name, row.name + " = " + row.example);
            const LoadResult result = load(pipelineOf(text), vocabulary, {});
            EXPECT_TRUE(result.diagnostics.empty()) << text << renderDiagnostics(result.diagnostics, false);
            EXPECT_FALSE(row.documentation.empty());
            EXPECT_TRUE(row.documentation.ends_with('.')) << place.name << "." << row.name;
        }
}

TEST(Mistakes, EveryDefaultOfTheTableIsRight) {
    const Vocabulary vocabulary = builtinVocabulary();
    for (const Place& place : allPlaces(vocabulary)) {
        Settings settings;
        fillDefaults(settings, place.rows, vocabulary);
        for (const KeyRow& row : place.rows)
            EXPECT_EQ(settings.has(row.name), !row.fallback.empty()) << place.name << "." << row.name;
    }
}

TEST(Mistakes, EachIsRefusedWithPositionReasonAndHint) {
    Tally tally;
    for (const Place& place : allPlaces(builtinVocabulary()))
        for (const KeyRow& row : place.rows) {
            makeMistakesInValue(place, row, tally);
            makeMistakesInKey(place, row, tally);
            makeNearlyRightChoices(place, row, tally);
        }
    std::cout << fmt::format("{} mistakes generated, {} refused with position, reason and hint\n", tally.generated,
                             tally.refused);
    EXPECT_EQ(tally.refused, tally.generated);
    EXPECT_GT(tally.generated, 1000);
}

}  // namespace
}  // namespace gradus
