#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// A place in a file: line and column from 1, columns in characters (not bytes). Line 0 is the file as a whole.
struct Position {
    std::uint32_t line = 0;
    std::uint32_t column = 0;
    // clang-tidy takes the zero in the generated comparison for a null pointer.
    auto operator<=>(const Position&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Span {
    Position begin;
    Position end;  ///< one past the last character
    bool operator==(const Span&) const = default;
};

enum class Severity { kError, kWarning };

/// One thing wrong with one file, as a value. The text may hold anything the file held: rendering makes it safe to
/// show.
struct Diagnostic {
    Severity severity = Severity::kError;
    std::string code;  ///< stable, for programs: "unknown-key"
    std::string file;  ///< as the user knows it: "gradus.toml"
    Span span;
    std::string message;     ///< what is wrong
    std::string reason;      ///< why it is wrong, beside the caret
    std::string note;        ///< where a rule that matters here comes from; may be empty
    std::string hint;        ///< the next step; never empty for an error
    std::string sourceLine;  ///< the line that `span` begins in, as it is in the file
};

/// The way rustc says it, one block per diagnostic and a closing count line. `colour` adds ANSI colours.
std::string renderDiagnostics(const std::vector<Diagnostic>& diagnostics, bool colour);

/// A JSON array of {severity, code, file, line, column, endLine, endColumn, message, reason, note, hint}.
std::string diagnosticsJson(const std::vector<Diagnostic>& diagnostics);

/// In the order a reader meets them: by file, line and column; errors before warnings at one place.
void sortDiagnostics(std::vector<Diagnostic>& diagnostics);

bool hasErrors(const std::vector<Diagnostic>& diagnostics);

}  // namespace gradus
