#include "plugins/checks/builtin.h"

namespace gradus {

namespace {

class CommandCheck final : public CheckKind {
  public:
    CheckAnswer run(const CheckContext& context) const override {
        const std::vector<std::string> words = context.check.settings.list("run");
        return context.check.settings.text("on") == "host" ? context.onHost(words) : context.confined(words);
    }
};

}  // namespace

std::unique_ptr<CheckKind> commandCheck() { return std::make_unique<CommandCheck>(); }

CheckKindWords commandCheckWords() {
    return {
        .name = "command",
        .documentation = "Runs a command; exit code 0 is a yes.",
        .keys = {
            {.name = "run",
             .type = ValueType::kCommand,
             .documentation = "The command: words, no shell; [\"sh\", \"-c\", \"…\"] for a shell.",
             .example = "\"make test\"",
             .required = true},
            {.name = "report",
             .type = ValueType::kReport,
             .documentation = "A file it writes with the results of single tests, as FORMAT:PATH.",
             .example = "\"junit:junit.xml\"",
             .choices = {"junit", "tap", "sarif"}},
            {.name = "on",
             .type = ValueType::kChoice,
             .documentation = "Where it runs: in a sandbox, or after the stage was touched on the host itself.",
             .example = "\"sandbox\"",
             .fallback = "\"sandbox\"",
             .choices = {"sandbox", "host"}},
            {.name = "env",
             .type = ValueType::kEnvironment,
             .documentation = "Variables passed in by name, or set, beside those of [sandbox].",
             .example = "[\"CI=1\"]"},
            {.name = "directory",
             .type = ValueType::kInnerPath,
             .documentation = "Where in the project it runs.",
             .example = "\"server\"",
             .fallback = "\".\""},
            {.name = "outputs",
             .type = ValueType::kGlobList,
             .documentation = "Files that it builds in its sandbox, ignored ones too: they come into every release of "
                              "the same tree as the same bytes; for another tree they are built again.",
             .example = "[\"dist/**\"]",
             .least = 1,
             .most = 64},
            {.name = "interval",
             .type = ValueType::kDuration,
             .documentation = "Of one that comes after: the time between two runs while it keeps running; without it, "
                              "5s while it soaks and 30s while it is monitored.",
             .example = "\"10s\"",
             .least = 100,
             .most = 3'600'000},
        }};
}

}  // namespace gradus
