#include "policies/language/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "policies/language/value.h"
#include "policies/language/value_types.h"

namespace gradus {

namespace {

std::string inCell(std::string_view text) {
    std::string result;
    for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
    return result;
}

bool hasNumber(ValueType type) {
    return type == ValueType::kCount || type == ValueType::kCountList || type == ValueType::kDecimal ||
           type == ValueType::kDuration || type == ValueType::kSize;
}

std::string bound(const KeyRow& row, std::int64_t number) { return numberText(row.type, number); }

/// "a duration, 100ms to 7d": what may be written.
std::string typeCell(const KeyRow& row) {
    std::string text(typeInfo(row.type).name);
    if (!row.choices.empty() && row.type != ValueType::kReport)
        text = fmt::format("{} `{}`", row.type == ValueType::kChoice ? "one of" : "some of",
                           fmt::join(row.choices, "`, `"));
    if (row.type == ValueType::kReport)
        text = fmt::format("`FORMAT:PATH` with format `{}`", fmt::join(row.choices, "`, `"));
    if (row.type == ValueType::kTable) text = fmt::format("[{0}](#{0})", row.section);
    if (row.type == ValueType::kTableList) text = fmt::format("list of [{0}](#{0})", row.section);
    if (row.type == ValueType::kNetwork) text = "`\"none\"`, `\"host\"` or `{ allow = [\"host:port\", …] }`";
    if (hasNumber(row.type) && row.most != std::numeric_limits<std::int64_t>::max())
        text += fmt::format(", `{}` to `{}`", bound(row, row.least), bound(row, row.most));
    return text;
}

std::string_view stricterWord(Stricter stricter) {
    switch (stricter) {
        case Stricter::kMore:
            return "more";
        case Stricter::kLess:
            return "less";
        case Stricter::kLaterChoice:
            return "the later value";
        case Stricter::kUnion:
            return "adding";
        case Stricter::kSubset:
            return "leaving out";
        case Stricter::kNarrower:
            return "narrower";
        case Stricter::kFields:
            return "key by key";
        case Stricter::kFree:
            return "";
    }
    return "";
}

std::string defaultCell(const KeyRow& row) {
    if (row.required) return "**required**";
    return row.fallback.empty() ? "" : "`" + row.fallback + "`";
}

std::string rowsTable(const std::vector<KeyRow>& rows, bool withStricter) {
    if (rows.empty()) return "It has no keys of its own.\n";
    std::string text = withStricter
                           ? "| key | value | default | stricter is | meaning | example |\n|---|---|---|---|---|---|\n"
                           : "| key | value | default | meaning | example |\n|---|---|---|---|---|\n";
    for (const KeyRow& row : rows) {
        const std::string middle = withStricter ? fmt::format(" {} |", stricterWord(row.stricter)) : "";
        text += fmt::format("| `{}` | {} | {} |{} {} | `{}` |\n", row.name, inCell(typeCell(row)),
                            inCell(defaultCell(row)), middle, inCell(row.documentation), inCell(row.example));
    }
    return text;
}

std::string heading(const Section& section) {
    switch (section.shape) {
        case Section::Shape::kSingle:
            return fmt::format("## `[{}]`", section.id);
        case Section::Shape::kNamed:
            return fmt::format("## `[{}.NAME]`", section.id);
        case Section::Shape::kList:
            return fmt::format("## `[[{}]]`", section.id);
        case Section::Shape::kNested:
            return fmt::format("## {}", section.id);
    }
    return {};
}

template <typename Words>
std::string pluggedIn(const std::vector<Words>& list, std::string_view what) {
    std::string text;
    for (const Words& words : list)
        text += fmt::format("\n### {} `{}`\n\n{}\n\n{}", what, words.name, words.documentation,
                            rowsTable(words.keys, false));
    return text;
}

constexpr std::string_view kIntroduction =
    "# Reference of the pipeline file\n\n"
    "<!-- Generated from the table of keys; `GRADUS_UPDATE=1` and the test ReferencePage write it anew. -->\n\n"
    "Every key of `gradus.toml` and of policy files. [The pipeline file](../pipeline-file.md) explains them.\n"
    "Durations are `250ms`, `90s`, `30m`, `12h`, `2d`, `1w` or sums such as `1h30m`; sizes are `64K`, `512M`, `4G`, "
    "`2T`\n"
    "in powers of 1024. Names have letters, digits, `-` and `_`.\n";

}  // namespace

std::string referenceMarkdown(const Vocabulary& vocabulary) {
    std::string text(kIntroduction);
    for (const Section& section : sections()) {
        const bool ordered = std::any_of(section.rows.begin(), section.rows.end(),
                                         [](const KeyRow& row) { return row.stricter != Stricter::kFree; });
        text +=
            fmt::format("\n{}\n\n{}\n\n{}", heading(section), section.documentation, rowsTable(section.rows, ordered));
        if (section.id == "stage") text += pluggedIn(vocabulary.drivers, "driver");
        if (section.id == "check") text += pluggedIn(vocabulary.checkKinds, "kind");
    }
    return text;
}

}  // namespace gradus
