#include "pipeline/cli/context.h"

#include "pipeline/cli/envelope.h"
#include "pipeline/cli/printable.h"

namespace gradus {

void LineWriter::text(std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    sink_.write((paint_.usesColour() ? printableStyled(line) : printableLines(line)) + "\n");
}

void LineWriter::contents(std::string_view piece) {
    if (isTerminal_)
        sink_.write(shown_.pass(piece));
    else
        sink_.write(piece);
}

void LineWriter::endContents() {
    if (isTerminal_) sink_.write(shown_.finish());
}

void LineWriter::json(const Json& value) { sink_.write(jsonLine(value)); }

}  // namespace gradus
