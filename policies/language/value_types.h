#pragma once

#include <optional>
#include <string>

#include "policies/language/document.h"
#include "policies/language/table_reader.h"

namespace gradus {

/// One value being read: what it is, for which key, and where findings go.
struct Reading {
    const Node& node;
    const KeyRow& row;
    const std::string& where;
    TableReader& reader;

    /// A value of the row's type at the node's place.
    Value start() const;
    /// Each adds a finding and gives nothing.
    std::optional<Value> wrongType() const;
    std::optional<Value> bad(const Node& at, std::string_view problem, std::string hint = {}) const;
    /// Checks `least` and `most`; gives the value with that number.
    std::optional<Value> ranged(std::int64_t number) const;
};

/// What is known about a type of value: its name with an article, and how it is read.
struct ValueTypeInfo {
    ValueType type;
    std::string_view name;
    std::optional<Value> (*read)(const Reading& reading);
};

const ValueTypeInfo& typeInfo(ValueType type);

}  // namespace gradus
