#include "policies/language/document.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <set>

#include "store/model/utf8.h"

namespace gradus {

namespace {

Position toPosition(const toml::source_position& position) { return {position.line, position.column}; }
Span toSpan(const toml::source_region& region) { return {toPosition(region.begin), toPosition(region.end)}; }

Node convert(const toml::node& source);

void convertTable(const toml::table& table, Node& node) {
    node.kind = Node::Kind::kTable;
    for (const auto& [key, value] : table)
        node.entries.push_back({std::string(key.str()), toSpan(key.source()), convert(value)});
    // toml++ sorts by name; messages and stages read better in the order of the file.
    std::stable_sort(node.entries.begin(), node.entries.end(),
                     [](const NodeEntry& a, const NodeEntry& b) { return a.keySpan.begin < b.keySpan.begin; });
}

void convertList(const toml::array& list, Node& node) {
    node.kind = Node::Kind::kList;
    for (const toml::node& item : list) node.items.push_back(convert(item));
}

Node convert(const toml::node& source) {
    Node node;
    node.span = toSpan(source.source());
    if (const auto* table = source.as_table())
        convertTable(*table, node);
    else if (const auto* list = source.as_array())
        convertList(*list, node);
    else if (const auto* text = source.as_string())
        node.kind = Node::Kind::kText, node.text = text->get();
    else if (const auto* number = source.as_integer())
        node.kind = Node::Kind::kInteger, node.integer = number->get();
    else if (const auto* real = source.as_floating_point())
        node.kind = Node::Kind::kDecimal, node.decimal = real->get();
    else if (const auto* truth = source.as_boolean())
        node.kind = Node::Kind::kBoolean, node.boolean = truth->get();
    else
        node.kind = Node::Kind::kDate;
    return node;
}

/// How a message of the parser's is said here. The first row whose `theirs` occurs in it wins.
struct Rewrite {
    std::string_view theirs;
    std::string_view code;
    std::string_view message;
    std::string_view reason;
    std::string_view hint;
};

constexpr std::array<Rewrite, 20> kRewrites{{
    {"key-value pair: cannot redefine", "duplicate", "this key is already set", "set a second time here",
     "remove one of the two"},
    {"cannot redefine existing table", "duplicate", "this table is already defined", "defined a second time here",
     "merge the two sections into one"},
    {"cannot redefine existing array", "duplicate", "this list is already defined", "defined a second time here",
     "use [[…]] for every element, or merge them"},
    {"cannot redefine", "duplicate", "this key is already set", "set a second time here", "remove one of the two"},
    {"parsing string: unescaped control", "syntax", "this text is not closed or holds a control character",
     "the text ends here without its quote", "close it with '\"', or write the character as an escape such as \\n"},
    {"literal string: control", "syntax", "this text is not closed or holds a control character",
     "the text ends here without its quote", "close it with a single quote"},
    {"parsing string: encountered end-of-file", "syntax", "this text is not closed", "the file ends here",
     "close it with '\"'"},
    {"literal string: encountered end-of-file", "syntax", "this text is not closed", "the file ends here",
     "close it with a single quote"},
    {"unknown escape", "syntax", "this escape does not exist in TOML", "no such escape",
     "write a backslash as \\\\, or use single quotes: '…'"},
    {"table header: expected ']'", "syntax", "this section header is not closed", "expected ']' here",
     "write it as [section] or [section.name]"},
    {"expected value, saw", "syntax", "a value is missing", "expected a value here",
     "write a value after '=', such as \"text\", 3, true or [\"a\", \"b\"]"},
    {"expected '=', saw", "syntax", "a key without a value", "expected '=' here", "write it as key = value"},
    {"expected a comment or whitespace", "syntax", "something follows the value", "not expected here",
     "start a new line, or quote the whole value"},
    {"is not representable", "out-of-range", "this number is too large", "does not fit into 64 bits",
     "write a smaller number"},
    {"leading zeroes", "syntax", "a number must not start with a zero", "leading zero", "remove the zero"},
    {"boolean", "syntax", "this is neither true nor false", "not a value", "write true or false, or quote a text"},
    {"inline table", "syntax", "this inline table is not well formed", "not expected here",
     "keep it on one line: { key = value, key = value }"},
    {"parsing array", "syntax", "this list is not closed", "expected ',' or ']' here", "close the list with ']'"},
    {"date", "syntax", "this is not a date", "no such day", "no rule takes a date; quote a text: \"…\""},
    {"time", "syntax", "this is not a time", "no such time", "no rule takes a time; quote a text: \"…\""},
}};

constexpr Rewrite kOther{"", "syntax", "this is not TOML", "not expected here",
                         "a line is [section], key = value or # comment; quote texts: \"…\""};

const Rewrite& rewriteOf(std::string_view theirs) {
    const auto found = std::find_if(kRewrites.begin(), kRewrites.end(), [&](const Rewrite& row) {
        return theirs.find(row.theirs) != std::string_view::npos;
    });
    return found == kRewrites.end() ? kOther : *found;
}

std::size_t charactersIn(std::string_view line) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < line.size(); ++count) at += firstCodePoint(line.substr(at)).length;
    return count;
}

/// The parser points behind a repeated key, at its value; people look for the key. Nothing where it is not at the start
/// of the line: in a header, or inside an inline table.
std::optional<Span> keyOfLine(std::string_view line, Position value) {
    const std::size_t first = line.find_first_not_of(" \t");
    const std::size_t equals = line.find('=');
    if (first == std::string_view::npos || equals == std::string_view::npos || line[first] == '[') return std::nullopt;
    const std::size_t brace = line.find('{');
    if (brace != std::string_view::npos && brace + 1 < value.column) return std::nullopt;
    const std::size_t last = line.find_last_not_of(" \t", equals - 1);
    const auto begin = static_cast<std::uint32_t>(first + 1);
    return Span{{value.line, begin}, {value.line, static_cast<std::uint32_t>(last + 2)}};
}

Diagnostic syntaxError(const SourceText& source, const toml::parse_error& error) {
    const Rewrite& row = rewriteOf(error.description());
    Span span = toSpan(error.source());
    // The position may lie behind the end of its line, or be missing at the end of the file.
    span.begin.line = std::max<std::uint32_t>(1, span.begin.line);
    const auto length = static_cast<std::uint32_t>(charactersIn(source.line(span.begin.line)));
    span.begin.column = std::clamp<std::uint32_t>(span.begin.column, 1, length + 1);
    span.end = {span.begin.line, span.begin.column + 1};
    if (row.code == "duplicate") span = keyOfLine(source.line(span.begin.line), span.begin).value_or(span);
    Diagnostic diagnostic = diagnosticAt(source, span, row.code);
    diagnostic.message = row.message;
    diagnostic.reason = row.reason;
    diagnostic.hint = row.hint;
    return diagnostic;
}

// The parser stops at a key that is set a second time. Under another name it is read over, and left out afterwards, so
// that whatever else is wrong with the file is found too.
class RepeatedKeys {
  public:
    explicit RepeatedKeys(const SourceText& source) : source_(source), bytes_(source.bytes()) {}

    const std::string& bytes() const { return bytes_; }

    /// Then it is of our own making: what looked like the key was only a part of it.
    bool wasRenamed(const Diagnostic& problem) const { return lines_.contains(problem.span.begin.line); }

    /// False: this problem is another one, or the key cannot be told from its line.
    bool rename(const Diagnostic& problem) {
        const std::uint32_t line = problem.span.begin.line;
        const auto key = keyOfLine(source_.line(line), problem.span.end);
        if (problem.code != "duplicate" || !key || lines_.size() == kMostRenamed || !lines_.insert(line).second)
            return false;
        const std::size_t begin = startOf(line) + key->begin.column - 1;
        bytes_.replace(begin, key->end.column - key->begin.column, fmt::format("set-before-{}", line));
        return true;
    }

    void removeFrom(Node& table) const {
        std::erase_if(table.entries, [&](const NodeEntry& entry) { return lines_.contains(entry.keySpan.begin.line); });
        for (NodeEntry& entry : table.entries) removeFrom(entry.value);
        for (Node& item : table.items) removeFrom(item);
    }

  private:
    static constexpr std::size_t kMostRenamed = 64;

    std::size_t startOf(std::uint32_t line) const {
        std::size_t start = 0;
        for (; line > 1; --line) start = bytes_.find('\n', start) + 1;
        return start;
    }

    const SourceText& source_;
    std::string bytes_;
    std::set<std::uint32_t> lines_;
};

}  // namespace

std::optional<Node> parseDocument(const SourceText& source, std::vector<Diagnostic>& diagnostics) {
    const std::vector<Diagnostic> problems = inspectBytes(source);
    diagnostics.insert(diagnostics.end(), problems.begin(), problems.end());
    if (!problems.empty()) return std::nullopt;
    RepeatedKeys repeated(source);
    while (true) {
        try {
            Node root = convert(toml::parse(repeated.bytes()));
            repeated.removeFrom(root);
            return root;
        } catch (const toml::parse_error& error) {
            Diagnostic problem = syntaxError(source, error);
            const bool isNew = !repeated.wasRenamed(problem);
            const bool goesOn = repeated.rename(problem);
            if (isNew) diagnostics.push_back(std::move(problem));
            if (!goesOn) return std::nullopt;
        }
    }
}

}  // namespace gradus
