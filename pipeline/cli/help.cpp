#include "pipeline/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "pipeline/cli/help_layout.h"

namespace gradus {

namespace {

struct GroupTitle {
    Group group;
    std::string_view title;
};
constexpr std::array<GroupTitle, 6> kGroups = {{{Group::kTry, "Try"},
                                                {Group::kPromote, "Promote"},
                                                {Group::kAnswer, "Ask what happened, and why"},
                                                {Group::kRules, "Rules"},
                                                {Group::kStore, "Store"},
                                                {Group::kGradus, "About gradus"}}};

constexpr std::string_view kWhatItIs =
    "gradus moves a change from a disposable copy to production, one proven step at\n"
    "a time, and takes it back by itself when a step fails.\n";

std::string optionName(const Option& option) {
    const std::string letter = option.letter == '\0' ? "" : fmt::format("-{}, ", option.letter);
    const std::string value = option.isFlag() ? "" : fmt::format(" {}", option.value);
    return fmt::format("{}--{}{}", letter, option.name, value);
}

std::string optionDoc(const Option& option) {
    std::string doc(option.doc);
    if (!option.choices.empty()) doc += fmt::format(": {}", fmt::join(option.choices, ", "));
    if (option.repeatable) doc += "; may be given several times";
    if (!option.fallback.empty()) doc += fmt::format(" (default {})", option.fallback);
    return doc;
}

std::string positionalDoc(const Positional& place) {
    if (place.choices.empty()) return std::string(place.doc);
    return fmt::format("{}: {}", place.doc, fmt::join(place.choices, ", "));
}

std::string positionalUsage(const Positional& place) {
    const std::string name = fmt::format("{}{}", place.name, place.repeated ? "..." : "");
    return place.required ? name : fmt::format("[{}]", name);
}

std::string commandUsage(const Positional& command) {
    const std::string usage = fmt::format("-- {}", positionalUsage({command.name, command.doc, true, true}));
    return command.required ? usage : fmt::format("[{}]", usage);
}

std::vector<HelpRow> exampleRows(const std::vector<Example>& examples) {
    std::vector<HelpRow> rows;
    rows.reserve(examples.size());
    for (const Example& example : examples) rows.push_back({std::string(example.command), std::string(example.doc)});
    return rows;
}

std::vector<HelpRow> optionRows(const std::vector<Option>& options) {
    std::vector<HelpRow> rows;
    rows.reserve(options.size());
    for (const Option& option : options) rows.push_back({optionName(option), optionDoc(option)});
    return rows;
}

std::vector<HelpRow> argumentRows(const Verb& verb) {
    std::vector<HelpRow> rows;
    for (const Positional& place : verb.positionals) rows.push_back({std::string(place.name), positionalDoc(place)});
    if (verb.command) rows.push_back({std::string(verb.command->name), positionalDoc(*verb.command)});
    return rows;
}

std::vector<HelpRow> verbRows(const std::vector<const Verb*>& verbs) {
    std::vector<HelpRow> rows;
    rows.reserve(verbs.size());
    for (const Verb* verb : verbs) rows.push_back({std::string(verb->words), std::string(verb->summary)});
    return rows;
}

std::vector<Example> frontPageExamples(const VerbTable& verbs) {
    std::vector<Example> examples;
    for (const Verb& verb : verbs.all()) {
        if (verb.onFrontPage && !verb.examples.empty()) examples.push_back(verb.examples.front());
    }
    return examples;
}

Json describeOption(const Option& option) {
    Json out = {{"name", option.name}, {"doc", option.doc}, {"repeatable", option.repeatable}};
    if (!option.isFlag()) out["value"] = option.value;
    if (!option.choices.empty()) out["choices"] = option.choices;
    if (!option.fallback.empty()) out["default"] = option.fallback;
    return out;
}

Json describePositional(const Positional& place) {
    Json out = {{"name", place.name}, {"doc", place.doc}, {"required", place.required}, {"repeated", place.repeated}};
    if (!place.choices.empty()) out["choices"] = place.choices;
    return out;
}

}  // namespace

std::string_view titleOf(Group group) {
    for (const GroupTitle& row : kGroups) {
        if (row.group == group) return row.title;
    }
    throw std::logic_error("a group of verbs without a title");
}

std::string usageLine(const Verb& verb) {
    std::string line = fmt::format("gradus {} [OPTION]...", verb.words);
    for (const Positional& place : verb.positionals) line += " " + positionalUsage(place);
    if (verb.command) line += " " + commandUsage(*verb.command);
    return line;
}

std::string overviewHelp(const VerbTable& verbs, const Paint& paint) {
    std::string out(kWhatItIs);
    out += helpSection("Examples", exampleRows(frontPageExamples(verbs)), paint);
    for (const GroupTitle& group : kGroups) {
        std::vector<const Verb*> members;
        for (const Verb& verb : verbs.all()) {
            if (verb.group == group.group) members.push_back(&verb);
        }
        out += helpSection(group.title, verbRows(members), paint);
    }
    out += helpSection("Options of every verb", optionRows(globalOptions()), paint);
    return out + "\nMore about one verb: gradus help VERB\n";
}

std::string groupHelp(const VerbTable& verbs, std::string_view group, const Paint& paint) {
    const std::vector<const Verb*> members = verbs.below(group);
    std::vector<HelpRow> examples;
    for (const Verb* verb : members) {
        const std::vector<HelpRow> rows = exampleRows(verb->examples);
        examples.insert(examples.end(), rows.begin(), rows.end());
    }
    return fmt::format("gradus {} has these verbs:\n", group) + helpSection("Verbs", verbRows(members), paint) +
           helpSection("Examples", examples, paint) +
           fmt::format("\nMore about one verb: gradus help {} VERB\n", group);
}

std::string verbHelp(const Verb& verb, const Paint& paint) {
    return fmt::format("gradus {}: {}\n", verb.words, verb.summary) +
           helpSection("Examples", exampleRows(verb.examples), paint) +
           helpSection("Usage", {{usageLine(verb), ""}}, paint) + helpSection("Arguments", argumentRows(verb), paint) +
           helpSection("Options", optionRows(verb.options), paint) +
           helpSection("Options of every verb", optionRows(globalOptions()), paint);
}

Json describeVerb(const Verb& verb) {
    Json out = {{"name", verb.words}, {"summary", verb.summary}, {"usage", usageLine(verb)}};
    out["examples"] = Json::array();
    for (const Example& example : verb.examples)
        out["examples"].push_back({{"command", example.command}, {"doc", example.doc}});
    out["arguments"] = Json::array();
    for (const Positional& place : verb.positionals) out["arguments"].push_back(describePositional(place));
    out["options"] = Json::array();
    for (const auto* options : {&verb.options, &globalOptions()}) {
        for (const Option& option : *options) out["options"].push_back(describeOption(option));
    }
    if (verb.command) out["command"] = describePositional(*verb.command);
    return out;
}

Json listVerbs(const std::vector<const Verb*>& verbs) {
    Json out = Json::array();
    for (const Verb* verb : verbs)
        out.push_back({{"name", verb->words}, {"group", titleOf(verb->group)}, {"summary", verb->summary}});
    return out;
}

}  // namespace gradus
