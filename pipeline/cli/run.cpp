#include "pipeline/cli/run.h"

#include <fmt/format.h>

#include <filesystem>
#include <new>

#include "pipeline/cli/context.h"
#include "pipeline/cli/envelope.h"
#include "pipeline/cli/parser.h"
#include "pipeline/cli/presenter.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

ColourChoice colourChoice(const std::vector<std::string>& words) {
    if (hasOption(words, "--no-color")) return ColourChoice::kNever;
    for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
        const bool apart = words[i] == "--color" && i + 1 < words.size();
        const std::string choice = apart ? "--color=" + words[i + 1] : words[i];
        if (choice == "--color=always") return ColourChoice::kAlways;
        if (choice == "--color=never") return ColourChoice::kNever;
    }
    return ColourChoice::kAuto;
}

// Lenient: a wrong word is complained about later, by the parser, in the form found here.
Face chooseFace(const std::vector<std::string>& words, const Host& host) {
    const Terminal terminal = host.terminal();
    const ColourFacts out{.choice = colourChoice(words),
                          .isTerminal = terminal.outIsTerminal,
                          .noColor = !host.variable("NO_COLOR").value_or("").empty(),
                          .dumbTerminal = host.variable("TERM").value_or("dumb") == "dumb"};
    ColourFacts err = out;
    err.isTerminal = terminal.errIsTerminal;
    return {hasOption(words, "--json"), Paint(wantsColour(out)), Paint(wantsColour(err))};
}

class Run {
  public:
    Run(const VerbTable& verbs, const std::vector<std::string>& words, Host& host)
        : verbs_(verbs), words_(words), host_(host), face_(chooseFace(words, host)), presenter_(host, face_) {}

    Exit go() {
        const Result result = answer();
        return deliver(result);
    }

  private:
    // Whatever a verb throws becomes a result here.
    Result answer() {
        try {
            return callVerb();
        } catch (const Error& error) {
            return {.exit = exitOf(error), .problem = problemOf(error)};
        } catch (const ReaderGone&) {
            return {.exit = Exit::kReaderGone, .streamed = true};
        } catch (const std::bad_alloc&) {
            return {.exit = Exit::kInfrastructure, .problem = Problem{"out-of-memory", "out of memory", "", true}};
        } catch (const std::filesystem::filesystem_error& refused) {
            // The machine said no to a look at a path: no fault of ours, and no fault of the call's form.
            const Error error =
                Error(ErrorCode::kInfrastructure, "cannot use {}: {}", printable(refused.path1().native()),
                      refused.code().message())
                    .hint("check who may use this path; 'gradus doctor' shows where gradus keeps its own");
            return {.exit = exitOf(error), .problem = problemOf(error)};
        } catch (const std::exception& exception) {
            return bug(exception.what());
        } catch (...) {
            return bug("an exception of an unknown type");
        }
    }

    // Where a command's own code is passed through, 125 says that it never ran. A call that was wrong, or came while
    // somebody else uses the sandbox, can be told from one that will fail again.
    Exit exitOf(const Error& error) const {
        const Exit exit = faceOf(error.code()).exit;
        return runsCommand_ && exit != Exit::kUsage && exit != Exit::kBusy ? Exit::kSetupFailed : exit;
    }

    static Result bug(std::string_view what) {
        return {.exit = Exit::kInfrastructure,
                .problem = Problem{"bug", fmt::format("this is a bug in gradus: {}", what),
                                   "please report it with the command you ran and the output of 'gradus version'"}};
    }

    Result callVerb() {
        const VerbCall call = resolveVerb(verbs_, words_);
        name_ = call.verb->words;
        runsCommand_ = call.verb->command.has_value();
        const Arguments arguments = parseArguments(call, [&](const std::string& name) { return host_.variable(name); });
        if (const auto directory = arguments.value("directory")) host_.enterDirectory(*directory);
        const Terminal terminal = host_.terminal();
        Context context{.arguments = arguments,
                        .verbs = verbs_,
                        .host = host_,
                        .json = face_.json,
                        .paint = face_.out,
                        .lines = LineWriter(host_.out(), face_.out, terminal.outIsTerminal),
                        .progress = LineWriter(host_.err(), face_.err),
                        .width = terminal.outIsTerminal ? terminal.width : 0};
        return call.verb->handler(context);
    }

    Exit deliver(const Result& result) {
        try {
            presenter_.show(name_, result);
            return result.exit;
        } catch (const ReaderGone&) {
            return result.exit;  // The verb is done; its reader wanted no more of the answer.
        } catch (const Error& error) {
            complainAbout(result, error);
            return Exit::kInfrastructure;
        }
    }

    // Standard output is lost, so all that is left to say goes to standard error.
    void complainAbout(const Result& result, const Error& error) {
        Problem lost = problemOf(error);
        if (!result.problem) lost.hint = "only the answer is lost: what the verb did is done";
        const bool sameTwice = result.problem && result.problem->message == lost.message;
        if (result.problem && !sameTwice) presenter_.complain(*result.problem);
        presenter_.complain(lost);
    }

    const VerbTable& verbs_;
    const std::vector<std::string>& words_;
    Host& host_;
    Face face_;
    Presenter presenter_;
    std::string_view name_;
    bool runsCommand_ = false;
};

}  // namespace

int runCommandLine(const VerbTable& verbs, const std::vector<std::string>& words, Host& host) {
    return static_cast<int>(Run(verbs, words, host).go());
}

}  // namespace gradus
