#pragma once

#include "pipeline/cli/context.h"
#include "pipeline/cli/verbs.h"

namespace gradus {

inline Result answerNothing(Context& /*context*/) { return {}; }

/// The verbs of gradus itself and a few made-up ones that use everything a row can say.
inline VerbTable sampleVerbs(const Handler& handler = answerNothing) {
    std::vector<Verb> rows = gradusVerbs();
    rows.push_back({.words = "audit query",
                    .group = Group::kAnswer,
                    .summary = "list events",
                    .examples = {{"gradus audit query --since 2d", "the last two days"}},
                    .positionals = {{"CHANGE", "a change", false, false}},
                    .options = {{.name = "since", .value = "TIME", .doc = "from when on"},
                                {.name = "event", .value = "KIND", .doc = "only these", .repeatable = true},
                                {.name = "limit", .value = "N", .doc = "at most", .letter = 'n', .fallback = "100"},
                                {.name = "format", .value = "FORM", .doc = "how", .choices = {"table", "ndjson"}},
                                {.name = "follow", .doc = "go on", .letter = 'f'},
                                {.name = "quiet", .doc = "say less", .letter = 'q'}},
                    .onFrontPage = true,
                    .handler = handler});
    rows.push_back({.words = "audit verify",
                    .group = Group::kAnswer,
                    .summary = "check the log",
                    .examples = {{"gradus audit verify", "is it whole?"}},
                    .handler = handler});
    rows.push_back({.words = "try",
                    .group = Group::kTry,
                    .summary = "run a command in a copy",
                    .examples = {{"gradus try -- make test", "run the tests in a copy"}},
                    .options = {{.name = "keep", .doc = "keep the copy"}},
                    .command = Positional{"COMMAND", "what to run"},
                    .handler = handler});
    rows.push_back({.words = "lint",
                    .group = Group::kRules,
                    .summary = "check files",
                    .examples = {{"gradus lint a.toml b.toml", "check two files"}},
                    .positionals = {{"KIND", "what they are", true, false, {"policy", "pipeline"}},
                                    {"FILE", "a file", true, true}},
                    .handler = handler});
    return VerbTable(std::move(rows));
}

}  // namespace gradus
