#include "policies/language/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policies/language/suggest.h"

namespace gradus {

const SourceText& Findings::addSource(std::string name, std::string bytes) {
    const std::string key = name;
    return sources_.insert_or_assign(key, SourceText(std::move(name), std::move(bytes))).first->second;
}

Diagnostic& Findings::error(const std::string& file, Span span, std::string_view code, std::string message,
                            std::string reason, std::string hint) {
    const bool full = isFull();
    if (full) ++leftOut_;
    Diagnostic& diagnostic = full ? overflow_ : list_.emplace_back();
    diagnostic = {};
    const auto source = sources_.find(file);
    if (source != sources_.end()) diagnostic = diagnosticAt(source->second, span, code);
    diagnostic.file = file;
    diagnostic.code = code;
    diagnostic.span = span;
    diagnostic.message = std::move(message);
    diagnostic.reason = std::move(reason);
    diagnostic.hint = std::move(hint);
    return diagnostic;
}

Diagnostic& Findings::error(const Origin& origin, std::string_view code, std::string message, std::string reason,
                            std::string hint) {
    return error(origin.file, origin.span, code, std::move(message), std::move(reason), std::move(hint));
}

void Findings::addAll(const std::vector<Diagnostic>& diagnostics) {
    list_.insert(list_.end(), diagnostics.begin(), diagnostics.end());
}

std::vector<Diagnostic> Findings::take() {
    sortDiagnostics(list_);
    if (leftOut_ > 0) {
        Diagnostic more;
        more.code = "more";
        more.file = list_.back().file;
        more.message = fmt::format("{} more problems are not shown", leftOut_);
        more.hint = "mend the ones above first";
        list_.push_back(std::move(more));
    }
    return std::move(list_);
}

std::string Findings::hintFor(std::string_view word, std::vector<std::string> known, std::string_view plural) const {
    if (isFull()) return {};
    constexpr std::size_t kMostCompared = 256;
    constexpr std::size_t kMostShown = 16;
    if (known.empty()) return fmt::format("there are no {} yet", plural);
    if (known.size() > kMostCompared) known.resize(kMostCompared);
    if (const auto meant = suggest(word, known)) return fmt::format("did you mean '{}'?", *meant);
    const bool more = known.size() > kMostShown;
    if (more) known.resize(kMostShown);
    return fmt::format("known {}: {}{}", plural, fmt::join(known, ", "), more ? " …" : "");
}

}  // namespace gradus
