#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policies/language/diagnostic.h"
#include "policies/language/keys.h"
#include "store/model/clock.h"

namespace gradus {

/// Who set a value, and where.
struct Origin {
    enum class Kind { kDefault, kProject, kShipped, kCeiling, kCaller };
    Kind kind = Kind::kDefault;
    std::string file;  ///< empty for a default
    Span span;

    /// "default", "gradus.toml:12:9", "shipped policy production", "administrator ceiling
    /// /etc/gradus/ceiling.toml:3:1", "the caller".
    std::string text() const;
};

/// A value of the language, read and normalised: "1m30s" and "90s" are the same one. What it holds follows its type:
/// numbers, durations (ms), sizes (bytes), decimals (thousandths) and booleans are in `number`; lists and commands in
/// `items`; tables in `fields`; everything else in `text`. A network is "none", "host", or "allow" with items.
struct Value {
    ValueType type = ValueType::kText;
    std::int64_t number = 0;
    std::string text;
    std::vector<Value> items;
    std::map<std::string, Value> fields;
    Origin origin;
};

/// The value as TOML: `"90s"`, `["a", "b"]`, `{ count = 1 }`. Two values are the same rule exactly if their texts are.
std::string valueText(const Value& value);

/// A quoted and escaped TOML string.
std::string tomlQuoted(std::string_view text);

/// A number as a value of that type is written: 90000 as a duration is "1m30s".
std::string numberText(ValueType type, std::int64_t number);

inline bool isSameRule(const Value& a, const Value& b) { return valueText(a) == valueText(b); }

/// The keys of one section that have a value, set or by default. The getters give the zero of their type for a key
/// without a value; use find() where that is not the same.
class Settings {
  public:
    const Value* find(std::string_view key) const;
    Value* find(std::string_view key);
    bool has(std::string_view key) const { return find(key) != nullptr; }
    void set(const std::string& key, Value value) { values_.insert_or_assign(key, std::move(value)); }
    void erase(const std::string& key) { values_.erase(key); }

    std::string text(std::string_view key) const;
    std::int64_t number(std::string_view key) const;
    bool flag(std::string_view key) const { return number(key) != 0; }
    Milliseconds duration(std::string_view key) const { return Milliseconds(number(key)); }
    std::vector<std::string> list(std::string_view key) const;

    const std::map<std::string, Value, std::less<>>& values() const { return values_; }

  private:
    std::map<std::string, Value, std::less<>> values_;
};

}  // namespace gradus
