#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/language/diagnostic.h"

namespace gradus {

struct NodeEntry;

/// A TOML value with the place it was written at. Dates and times exist in TOML but in no rule of ours: only their
/// name survives, for messages.
struct Node {
    enum class Kind { kText, kInteger, kDecimal, kBoolean, kDate, kList, kTable };

    Kind kind = Kind::kTable;
    Span span;
    std::string text;
    std::int64_t integer = 0;
    double decimal = 0;
    bool boolean = false;
    std::vector<Node> items;
    std::vector<NodeEntry> entries;  ///< of a table, in the order of the file

    /// The value of `key`, or nullptr.
    const Node* find(std::string_view key) const;
};

struct NodeEntry {
    std::string key;
    Span keySpan;
    Node value;
};

/// "an integer", "a list": what a value is, for messages.
std::string_view kindName(Node::Kind kind);

/// The bytes of one file and the lines in them.
class SourceText {
  public:
    SourceText(std::string name, std::string bytes);

    const std::string& name() const { return name_; }
    std::string_view bytes() const { return bytes_; }
    /// Line `number` from 1, without its end; empty beyond the last.
    std::string_view line(std::uint32_t number) const;
    /// Where a byte offset is.
    Position position(std::size_t offset) const;

  private:
    std::string name_;
    std::string bytes_;
    std::vector<std::size_t> starts_;
};

/// A diagnostic at `span` of `source`, with the line filled in.
Diagnostic diagnosticAt(const SourceText& source, Span span, std::string_view code);

/// More than this is no pipeline file, and would cost memory and time to refuse later.
constexpr std::size_t kLargestRuleFile = std::size_t{256} * 1024;
/// The deepest `a.b.c` or `[[[` that is parsed. The parser below recurses once a level, so a long enough key would
/// exhaust the stack.
constexpr std::size_t kDeepestNesting = 32;

/// What is wrong with the bytes before any TOML is read: size, encoding, control characters, nesting.
std::vector<Diagnostic> inspectBytes(const SourceText& source);

/// The root table; nothing on a syntax error, which adds one diagnostic. Bytes that inspectBytes refuses are never
/// parsed.
std::optional<Node> parseDocument(const SourceText& source, std::vector<Diagnostic>& diagnostics);

}  // namespace gradus
