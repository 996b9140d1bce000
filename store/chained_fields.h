#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gradus {

/// One event's chained fields as they stand in the table, borrowed.
struct ChainedFields {
    std::int64_t seq = 0;
    std::int64_t at = 0;
    std::int64_t batch = 0;
    std::string_view kind;
    std::optional<std::int64_t> actor;
    std::optional<std::int64_t> project;
    std::optional<std::int64_t> change;
    std::optional<std::int64_t> promotion;
    std::optional<std::string_view> stage;
    std::string_view body;
    std::optional<std::string_view> payloadDigest;  ///< 32 bytes
};

}  // namespace gradus
