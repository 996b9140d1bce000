#pragma once

#include <exception>
#include <vector>

#include "pipeline/cli/ci_filter.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/cli/terminal_filter.h"
#include "pipeline/service/service.h"

namespace gradus {

/// The options of every verb that runs a command in a sandbox.
std::vector<Option> commandOptions();
/// For verbs that make a sandbox.
Option systemOption();

/// What those options say.
SandboxWish sandboxWishOf(const Context& context, std::string_view verb);

/// One command on its way: the caller's words, its output as it comes, its interruption. Watches for signals as long as
/// it lives.
class RunningCommand {
  public:
    /// Throws Error (usage) for words that mean nothing.
    RunningCommand(Context& context, std::string_view verb);

    /// In a copy of the whole system.
    void askForSystem();
    RunWords words();
    /// After the run: the last of the output, then how it ended where its exit code does not say it, then notes.
    void finish(const ExecutionReport& report);
    std::stop_token stop() const { return interrupt_.token(); }
    /// `result` as it is, unless a signal ended the run. Throws what kept the output from being shown: by now what the
    /// command did is safe.
    Result interrupted(Result result) const;

  private:
    void show(Stream stream, std::string_view piece);
    std::string fitForCi(Stream stream, std::string text);
    void write(Stream stream, const std::string& text);

    Context& context_;
    SandboxWish wish_;
    bool filterOut_;
    bool filterErr_;
    TerminalFilter out_;
    TerminalFilter err_;
    /// Of GitHub's runner. GitLab's marks are escape sequences, which the filters above take.
    bool escapesCommands_;
    CiFilter outCi_;
    CiFilter errCi_;
    Interrupt interrupt_;
    std::exception_ptr unshown_;
};

}  // namespace gradus
