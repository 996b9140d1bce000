#include <algorithm>

#include "policies/language/document.h"
#include "store/model/utf8.h"

namespace gradus {

SourceText::SourceText(std::string name, std::string bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {
    starts_.push_back(0);
    for (std::size_t i = 0; i < bytes_.size(); ++i)
        if (bytes_[i] == '\n') starts_.push_back(i + 1);
}

std::string_view SourceText::line(std::uint32_t number) const {
    if (number == 0 || number > starts_.size()) return {};
    const std::size_t start = starts_[number - 1];
    const std::size_t end = std::min(bytes_.find('\n', start), bytes_.size());
    std::string_view text = std::string_view(bytes_).substr(start, end - start);
    if (text.ends_with('\r')) text.remove_suffix(1);
    return text;
}

Position SourceText::position(std::size_t offset) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const auto line = static_cast<std::uint32_t>(after - starts_.begin());
    std::uint32_t column = 1;
    for (std::size_t at = starts_[line - 1]; at < std::min(offset, bytes_.size()); ++column)
        at += firstCodePoint(std::string_view(bytes_).substr(at)).length;
    return {line, column};
}

Diagnostic diagnosticAt(const SourceText& source, Span span, std::string_view code) {
    Diagnostic diagnostic;
    diagnostic.code = code;
    diagnostic.file = source.name();
    diagnostic.span = span;
    diagnostic.sourceLine = source.line(span.begin.line);
    return diagnostic;
}

const Node* Node::find(std::string_view key) const {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const NodeEntry& e) { return e.key == key; });
    return found == entries.end() ? nullptr : &found->value;
}

std::string_view kindName(Node::Kind kind) {
    switch (kind) {
        case Node::Kind::kText:
            return "a text";
        case Node::Kind::kInteger:
            return "an integer";
        case Node::Kind::kDecimal:
            return "a decimal number";
        case Node::Kind::kBoolean:
            return "a boolean";
        case Node::Kind::kDate:
            return "a date or time";
        case Node::Kind::kList:
            return "a list";
        case Node::Kind::kTable:
            return "a table";
    }
    return "a value";
}

}  // namespace gradus
