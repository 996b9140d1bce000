#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pipeline/cli/completion.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/help.h"
#include "pipeline/cli/parser.h"
#include "pipeline/cli/verbs.h"

namespace gradus {

namespace {

Result showHelp(Context& context) {
    const std::vector<std::string> words = context.arguments.positionals("VERB");
    const std::string path = fmt::format("{}", fmt::join(words, " "));
    if (const Verb* verb = context.verbs.find(path))
        return {.data = describeVerb(*verb), .text = verbHelp(*verb, context.paint)};
    const std::vector<const Verb*> below = context.verbs.below(path);
    if (below.empty()) {
        resolveVerb(context.verbs, words);  // Calling it would have failed: that says best what is wrong.
        throw usageError("help", fmt::format("no verb is called '{}'", path));
    }
    const bool everything = words.empty();
    return {.data = {{"verbs", listVerbs(below)}},
            .text = everything ? overviewHelp(context.verbs, context.paint)
                               : groupHelp(context.verbs, path, context.paint)};
}

Result showVersion(Context& /*context*/) {
    return {.data = {{"version", GRADUS_VERSION}}, .text = fmt::format("gradus {}\n", GRADUS_VERSION)};
}

Result showCompletion(Context& context) {
    const std::string shell = context.arguments.positional("SHELL").value();
    const std::string script = shell == "bash"  ? bashCompletion(context.verbs)
                               : shell == "zsh" ? zshCompletion(context.verbs)
                                                : fishCompletion(context.verbs);
    return {.data = {{"shell", shell}, {"script", script}}, .text = script};
}

}  // namespace

std::vector<Verb> gradusVerbs() {
    return {
        {.words = "help",
         .group = Group::kGradus,
         .summary = "show what gradus can do, or how one verb is used",
         .examples = {{"gradus help completion", "how one verb is used"},
                      {"gradus help --json", "every verb, for programs"}},
         .positionals = {{"VERB", "the words of a verb", false, true}},
         .onFrontPage = true,
         .handler = showHelp},
        {.words = "version",
         .group = Group::kGradus,
         .summary = "show the version",
         .examples = {{"gradus version", "the version of this program"},
                      {"gradus version --json", "the same for programs"}},
         .handler = showVersion},
        {.words = "completion",
         .group = Group::kGradus,
         .summary = "print a script that completes verbs and options in a shell",
         .examples = {{"source <(gradus completion bash)", "complete in this bash"},
                      {"source <(gradus completion zsh)", "complete in this zsh"},
                      {"gradus completion fish | source", "complete in this fish"}},
         .positionals = {{.name = "SHELL", .doc = "the shell", .choices = {"bash", "zsh", "fish"}}},
         .handler = showCompletion},
    };
}

}  // namespace gradus
