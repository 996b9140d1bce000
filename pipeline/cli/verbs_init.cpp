#include <fmt/format.h>

#include "pipeline/cli/context.h"
#include "pipeline/cli/verbs.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

std::string foundText(const FirstRules& first) {
    if (first.found.empty()) return "nothing was found that tests this project; the file shows how to add a check\n";
    std::string text;
    for (const std::string& found : first.found) text += fmt::format("found {}\n", printable(found));
    return text;
}

Result init(Service& service, Context& context) {
    const bool onlyShow = context.arguments.flag("dry-run");
    const FirstRules first = service.firstRules(context.host.directory(), onlyShow);
    Result result;
    result.data = {{"file", first.file.native()},
                   {"found", first.found},
                   {"text", first.text},
                   {"written", first.written},
                   {"trusted", first.trusted}};
    if (onlyShow) {
        context.progress.text(foundText(first));
        result.text = first.text;
        result.next = {"gradus init"};
        return result;
    }
    result.text = fmt::format("{}wrote {}\n", foundText(first), printable(first.file.native()));
    if (first.trusted) {
        result.text += "its rules are in force\n";
        result.next = {"gradus check", "gradus try -- COMMAND"};
    } else {
        result.text += fmt::format("its rules are not in force yet: {}\n", first.untrustedBecause);
        result.next = {"gradus trust"};
    }
    return result;
}

}  // namespace

std::vector<Verb> initVerbs(const OpenService& open) {
    return {{.words = "init",
             .group = Group::kRules,
             .summary = "write a first gradus.toml for this project, and put it in force",
             .examples = {{"gradus init", "finds make, CMake, npm, pytest, cargo and go"},
                          {"gradus init --dry-run", "shows the file and writes nothing"}},
             .options = {{.name = "dry-run", .doc = "show the file, write and trust nothing"}},
             .handler = withService(open, init)}};
}

}  // namespace gradus
