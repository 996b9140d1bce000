#include "pipeline/cli/presenter.h"

#include "pipeline/cli/envelope.h"
#include "pipeline/cli/printable.h"

namespace gradus {

namespace {

// Each line of a hint is a step of its own.
std::string helpLines(std::string_view hint, const Paint& paint) {
    std::string out;
    while (!hint.empty()) {
        const std::string_view line = hint.substr(0, hint.find('\n'));
        hint.remove_prefix(std::min(hint.size(), line.size() + 1));
        out += "  " + paint(Style::kCyan, "help:") + " " + printable(line) + "\n";
    }
    return out;
}

}  // namespace

void Presenter::show(std::string_view verb, const Result& result) {
    const bool nothingLeft = result.streamed && !result.problem;
    if (face_.json && !nothingLeft) {
        host_.out().write(jsonLine(envelope(verb, result)));
    } else if (!face_.json) {
        showText(result);
    }
    host_.out().flush();
}

void Presenter::showText(const Result& result) {
    // Handlers escape what they show; this catches the one that forgot.
    host_.out().write(face_.out.usesColour() ? printableStyled(result.text) : printableLines(result.text));
    host_.out().flush();
    if (result.problem) complain(*result.problem);
    for (const std::string& command : result.next)
        host_.err().write("  " + face_.err(Style::kCyan, "next:") + " " + printable(command) + "\n");
}

void Presenter::complain(const Problem& problem) {
    // A message is one line: a newline in it is part of a name, and could pass for a line of ours.
    host_.err().write(face_.err(Style::kRed, "error:") + " " + printable(problem.message) + "\n" +
                      helpLines(problem.hint, face_.err));
}

}  // namespace gradus
