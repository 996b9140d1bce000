#pragma once

#include <functional>
#include <string>

#include "policies/language/value.h"

namespace gradus {

/// Two values that disagree: `wanted` is looser than `limit` allows, at `key` ("limits.memory").
using LooserFound = std::function<void(const std::string& key, const Value& limit, const Value& wanted)>;

/// The stricter of the two, by the rule of the row. Where `wanted` is looser than `limit` in any part, `found` is told
/// and that part of `limit` stays: the result is never looser than either.
Value tightened(const KeyRow& row, const Value& limit, const Value& wanted, const LooserFound& found,
                const std::string& key);

/// Every key of `wanted` on top of `limit`.
Settings tightened(const std::vector<KeyRow>& rows, const Settings& limit, const Settings& wanted,
                   const LooserFound& found);

/// Whether a network lets anything through: an empty list does not.
inline bool opensNetwork(const Value& network) {
    return network.text == "host" || (network.text == "allow" && !network.items.empty());
}

}  // namespace gradus
