#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/chained_fields.h"
#include "store/model/digest.h"
#include "store/sql.h"

namespace gradus {

/// One event of an export: everything that its hash covers, and the text beside it.
struct ExportLine {
    ChainedFields numbers;  ///< its texts mean nothing: see fields()
    std::string kind;
    std::optional<std::string> stage;
    std::string body;
    std::optional<std::string> payloadDigest;  ///< 32 bytes
    Digest hash;
    std::optional<std::string> salt;  ///< 16 bytes; there is one exactly if there is a text
    std::optional<std::string> text;
    std::optional<std::int64_t> redactedBy;  ///< the event that took the text away

    /// Borrows from this.
    ChainedFields fields() const;
    /// Throws Error(kDamaged) for bytes that are no text.
    std::string encode() const;
    /// Of a row of the table `event`, without what stands beside it.
    static ExportLine of(const Sql::Call& row);
    /// Nothing if the line is no event.
    static std::optional<ExportLine> decode(std::string_view line);
};

}  // namespace gradus
