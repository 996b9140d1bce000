#include "policies/language/tighten.h"

#include <algorithm>

namespace gradus {

namespace {

bool contains(const std::vector<Value>& items, const Value& item) {
    return std::any_of(items.begin(), items.end(), [&](const Value& other) { return isSameRule(other, item); });
}

Value unionOf(const Value& limit, const Value& wanted) {
    Value result = wanted;
    result.items = limit.items;
    for (const Value& item : wanted.items)
        if (!contains(result.items, item)) result.items.push_back(item);
    // Nothing new: whoever said it first still did.
    if (result.items.size() == limit.items.size()) result.origin = limit.origin;
    return result;
}

bool isSubset(const Value& wanted, const Value& limit) {
    return std::all_of(wanted.items.begin(), wanted.items.end(),
                       [&](const Value& item) { return contains(limit.items, item); });
}

std::ptrdiff_t rank(const KeyRow& row, const Value& value) {
    return std::find(row.choices.begin(), row.choices.end(), value.text) - row.choices.begin();
}

bool isNarrowerOrSame(const Value& wanted, const Value& limit) {
    if (limit.text == "host" || wanted.text == "none") return true;
    return limit.text == "allow" && wanted.text == "allow" && isSubset(wanted, limit);
}

bool isAllowed(const KeyRow& row, const Value& limit, const Value& wanted) {
    switch (row.stricter) {
        case Stricter::kMore:
            return wanted.number >= limit.number;
        case Stricter::kLess:
            return wanted.number <= limit.number;
        case Stricter::kLaterChoice:
            return rank(row, wanted) >= rank(row, limit);
        case Stricter::kSubset:
            return isSubset(wanted, limit);
        case Stricter::kNarrower:
            return isNarrowerOrSame(wanted, limit);
        default:
            return true;
    }
}

/// What is left of `wanted` inside `limit`: for permissions the part both allow, otherwise the limit itself.
Value bounded(const KeyRow& row, const Value& limit, const Value& wanted) {
    const bool lists = row.stricter == Stricter::kSubset ||
                       (row.stricter == Stricter::kNarrower && limit.text == "allow" && wanted.text == "allow");
    Value result = limit;
    if (!lists) return result;
    std::erase_if(result.items, [&](const Value& item) { return !contains(wanted.items, item); });
    return result;
}

Value fieldsTightened(const KeyRow& row, const Value& limit, const Value& wanted, const LooserFound& found,
                      const std::string& key) {
    Value result = wanted;
    result.fields = limit.fields;
    for (const auto& [name, field] : wanted.fields) {
        const KeyRow* inner = findRow(section(row.section).rows, name);
        const auto base = limit.fields.find(name);
        const bool both = inner != nullptr && base != limit.fields.end();
        result.fields.insert_or_assign(name,
                                       both ? tightened(*inner, base->second, field, found, key + "." + name) : field);
    }
    return result;
}

}  // namespace

Value tightened(const KeyRow& row, const Value& limit, const Value& wanted, const LooserFound& found,
                const std::string& key) {
    if (row.stricter == Stricter::kFields) return fieldsTightened(row, limit, wanted, found, key);
    if (row.stricter == Stricter::kUnion) return unionOf(limit, wanted);
    if (isAllowed(row, limit, wanted)) return isSameRule(limit, wanted) ? limit : wanted;
    found(key, limit, wanted);
    return bounded(row, limit, wanted);
}

Settings tightened(const std::vector<KeyRow>& rows, const Settings& limit, const Settings& wanted,
                   const LooserFound& found) {
    Settings result = limit;
    for (const auto& [key, value] : wanted.values()) {
        const KeyRow* row = findRow(rows, key);
        const Value* base = limit.find(key);
        result.set(key, row != nullptr && base != nullptr ? tightened(*row, *base, value, found, key) : value);
    }
    return result;
}

}  // namespace gradus
