#pragma once

#include <string_view>

#include "pipeline/cli/host.h"
#include "pipeline/cli/result.h"
#include "pipeline/cli/style.h"

namespace gradus {

/// How this run answers. Known before parsing, so that a mistake in the words is answered in the right form too.
struct Face {
    bool json = false;
    Paint out{false};
    Paint err{false};
};

/// Shows results and problems: data on standard output, the rest on standard error; with --json one envelope on
/// standard output whatever happened.
class Presenter {
  public:
    Presenter(Host& host, const Face& face) : host_(host), face_(face) {}

    /// Returns once everything has left the process. Throws ReaderGone or Error as Sink::write does.
    void show(std::string_view verb, const Result& result);
    /// `error: …` and `  help: …` on standard error.
    void complain(const Problem& problem);

  private:
    void showText(const Result& result);

    Host& host_;
    Face face_;
};

}  // namespace gradus
