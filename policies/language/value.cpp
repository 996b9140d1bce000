#include "policies/language/value.h"

#include <fmt/format.h>

#include "policies/language/duration.h"
#include "policies/language/size.h"

namespace gradus {

namespace {

std::string joined(const std::vector<Value>& items) {
    std::string text;
    for (const Value& item : items) text += (text.empty() ? "" : ", ") + valueText(item);
    return "[" + text + "]";
}

std::string tableText(const std::map<std::string, Value>& fields) {
    if (fields.empty()) return "{}";
    std::string text;
    for (const auto& [key, value] : fields) text += (text.empty() ? "" : ", ") + key + " = " + valueText(value);
    return "{ " + text + " }";
}

std::string thousandthsText(std::int64_t number) {
    std::string text = fmt::format("{}.{:03}", number / 1000, number % 1000);
    while (text.ends_with('0') && text[text.size() - 2] != '.') text.pop_back();
    return text;
}

std::string stem(std::string_view file) {
    const std::size_t slash = file.rfind('/');
    if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
    if (file.ends_with(".toml")) file.remove_suffix(5);
    return std::string(file);
}

}  // namespace

std::string Origin::text() const {
    switch (kind) {
        case Kind::kDefault:
            return "default";
        case Kind::kShipped:
            return "shipped policy " + stem(file);
        case Kind::kProject:
            return fmt::format("{}:{}:{}", file, span.begin.line, span.begin.column);
        case Kind::kCeiling:
            return fmt::format("administrator ceiling {}:{}:{}", file, span.begin.line, span.begin.column);
        case Kind::kCaller:
            return "the caller";
    }
    return "default";
}

std::string tomlQuoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            result += '\\', result += c;
        else if (c == '\n')
            result += "\\n";
        else if (c == '\t')
            result += "\\t";
        else if (byte < 0x20 || byte == 0x7f)
            result += fmt::format("\\u{:04X}", byte);
        else
            result += c;
    }
    return result + "\"";
}

std::string numberText(ValueType type, std::int64_t number) {
    switch (type) {
        case ValueType::kDuration:
            return tomlQuoted(formatDuration(Milliseconds(number)));
        case ValueType::kSize:
            return tomlQuoted(formatSize(number));
        case ValueType::kDecimal:
            return thousandthsText(number);
        case ValueType::kBoolean:
            return number != 0 ? "true" : "false";
        default:
            return std::to_string(number);
    }
}

std::string valueText(const Value& value) {
    switch (value.type) {
        case ValueType::kDuration:
        case ValueType::kSize:
        case ValueType::kDecimal:
        case ValueType::kBoolean:
        case ValueType::kCount:
            return numberText(value.type, value.number);
        case ValueType::kTable:
            return tableText(value.fields);
        case ValueType::kNetwork:
            return value.text == "allow" ? "{ allow = " + joined(value.items) + " }" : tomlQuoted(value.text);
        case ValueType::kNameList:
        case ValueType::kTextList:
        case ValueType::kPeople:
        case ValueType::kCountList:
        case ValueType::kChoiceList:
        case ValueType::kGlobList:
        case ValueType::kPathList:
        case ValueType::kCommand:
        case ValueType::kEnvironment:
        case ValueType::kTableList:
            return joined(value.items);
        default:
            return tomlQuoted(value.text);
    }
}

const Value* Settings::find(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
}

Value* Settings::find(std::string_view key) {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
}

std::string Settings::text(std::string_view key) const {
    const Value* value = find(key);
    return value != nullptr ? value->text : std::string();
}

std::int64_t Settings::number(std::string_view key) const {
    const Value* value = find(key);
    return value != nullptr ? value->number : 0;
}

std::vector<std::string> Settings::list(std::string_view key) const {
    std::vector<std::string> texts;
    if (const Value* value = find(key))
        for (const Value& item : value->items) texts.push_back(item.text);
    return texts;
}

}  // namespace gradus
