#pragma once

#include <string>
#include <string_view>

#include "pipeline/cli/result.h"

namespace gradus {

/// "gradus.v1/audit-verify" for "audit verify". A call that reached no verb has "gradus.v1/usage".
std::string schemaName(std::string_view verb);

/// One line of ASCII, whatever the strings hold: other characters are written as \uXXXX, so that an envelope can
/// neither break in a pipe nor drive a terminal; bytes that are not UTF-8 become U+FFFD.
std::string jsonLine(const Json& value);

/// `{"schema", "ok": true, "data", "next"}`, or `{"schema", "ok": false, "error"}` with the data there is.
Json envelope(std::string_view verb, const Result& result);

/// How a fault looks in an envelope.
Problem problemOf(const Error& error);

}  // namespace gradus
