#pragma once

#include <cstddef>
#include <string_view>

#include "pipeline/cli/arguments.h"
#include "pipeline/cli/host.h"
#include "pipeline/cli/result.h"
#include "pipeline/cli/style.h"
#include "pipeline/cli/terminal_filter.h"
#include "pipeline/cli/verb_table.h"

namespace gradus {

/// For a verb whose data does not wait for its end. Each call is one line; a missing newline is added.
class LineWriter {
  public:
    /// `isTerminal`: what the sink is.
    LineWriter(Sink& sink, Paint paint, bool isTerminal = false)
        : sink_(sink), paint_(paint), isTerminal_(isTerminal) {}
    /// Text for people; escaped but for what Paint wrote.
    void text(std::string_view line);
    /// One JSON value on one line.
    void json(const Json& value);
    /// Bytes that others made: as they are in a pipe or a file, made visible on a terminal, where they could drive it.
    /// Pieces may break anywhere; the last one is followed by endContents().
    void contents(std::string_view piece);
    void endContents();
    /// Bytes as they are: what gradus itself draws.
    void raw(std::string_view bytes) { sink_.write(bytes); }
    /// To be called where the reader should see the lines now, as in `--follow`.
    void flush() { sink_.flush(); }
    const Paint& paint() const { return paint_; }

  private:
    Sink& sink_;
    Paint paint_;
    bool isTerminal_;
    TerminalFilter shown_{TerminalFilter::Colours::kEscaped};
};

/// What a handler is given.
struct Context {
    const Arguments& arguments;
    const VerbTable& verbs;
    Host& host;
    bool json;            ///< the answer is an envelope: do not stream text
    Paint paint;          ///< for Result::text
    LineWriter lines;     ///< standard output
    LineWriter progress;  ///< standard error
    std::size_t width;    ///< columns for tables; 0 when standard output is not a terminal
};

}  // namespace gradus
