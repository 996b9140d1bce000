#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/verbs.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

Json blameJson(const Blame& blame) {
    Json json{{"promotion", promotionJson(blame.promotion, "")},
              {"change",
               {{"id", changeHandle(blame.change.id)},
                {"revision", blame.change.revision},
                {"title", blame.change.title ? Json(*blame.change.title) : Json()}}},
              {"by", blame.makers},
              {"promoted_by", blame.promotedBy},
              {"rules", blame.promotion.rules.hex()},
              {"tree", blame.promotion.tree ? Json(blame.promotion.tree->hex()) : Json()}};
    if (blame.line)
        json["line"] = {{"path", blame.line->path}, {"number", blame.line->number}, {"text", blame.line->text}};
    json["vouched"] = blame.vouched ? adoptionJson(*blame.vouched) : Json();
    json["built_by"] = blame.builtBy ? Json(*blame.builtBy) : Json();
    json["below"] = Json::array();
    for (const BlamedPath& path : blame.below)
        json["below"].push_back({{"path", path.path},
                                 {"change", changeHandle(path.change)},
                                 {"revision", path.revision},
                                 {"promotion", promotionHandle(path.promotion)},
                                 {"removed", path.removed}});
    json["proofs"] = Json::array();
    for (const CheckResult& check : blame.proofs)
        json["proofs"].push_back(
            {{"check", check.check}, {"phase", nameOf(kCheckPhases, check.phase)}, {"evidence", check.evidence.hex()}});
    json["approvals"] = Json::array();
    for (const auto& [by, approval] : blame.approvals)
        json["approvals"].push_back({{"by", by}, {"at", formatTime(approval.at)}, {"roles", approval.roles}});
    json["overrides"] = Json::array();
    for (const auto& [by, word] : blame.overrides)
        json["overrides"].push_back({{"by", by}, {"gate", word.gate}, {"reason", word.reason.value_or("")}});
    return json;
}

std::string blameText(const Blame& blame) {
    std::string text;
    if (blame.line)
        text = fmt::format("{}:{}: {}\n", printable(blame.line->path), blame.line->number, printable(blame.line->text));
    text += fmt::format("{}.{} {}, by {}\n", changeHandle(blame.change.id), blame.change.revision,
                        printable(blame.change.title.value_or("(no title)")), fmt::join(blame.makers, ", "));
    text += fmt::format("  promoted by {} with {} on {}\n", printable(blame.promotedBy),
                        promotionHandle(blame.promotion.id), formatTime(blame.promotion.movedAt));
    if (blame.vouched)
        text += fmt::format("  on {} {}\n", formatTime(blame.vouched->adoption.at), printable(blame.vouched->text));
    if (blame.builtBy) text += fmt::format("  built by the check {}\n", printable(*blame.builtBy));
    for (const CheckResult& check : blame.proofs)
        text += fmt::format("  proven by {} ({}), evidence {}\n", printable(check.check),
                            nameOf(kCheckPhases, check.phase), check.evidence.hex().substr(0, 12));
    for (const auto& [by, approval] : blame.approvals)
        text += fmt::format("  approved by {} on {}{}\n", printable(by), formatTime(approval.at),
                            approval.reason ? ": " + printable(*approval.reason) : "");
    for (const auto& [by, word] : blame.overrides)
        text += fmt::format("  {} {} {}: {}\n", printable(by), word.gate == "steps" ? "consented to" : "overrode",
                            printable(word.gate), printable(word.reason.value_or("")));
    text += fmt::format("  under the rules {}\n", blame.promotion.rules.hex().substr(0, 12));
    if (!blame.below.empty()) text += "who touched what is in it last:\n";
    for (const BlamedPath& path : blame.below)
        text += fmt::format("  {}.{} {} {}{}\n", changeHandle(path.change), path.revision,
                            promotionHandle(path.promotion), printable(path.path), path.removed ? " (removed)" : "");
    return text;
}

Result blame(Service& service, Context& context) {
    const Blame found = service.blame(context.host.directory(), *context.arguments.positional("STAGE"),
                                      context.arguments.positional("PATH"));
    return {
        .data = blameJson(found),
        .text = blameText(found),
        .next = {"gradus show " + changeHandle(found.change.id), "gradus why " + promotionHandle(found.promotion.id)}};
}

}  // namespace

std::vector<Verb> blameVerbs(const OpenService& open) {
    return {{.words = "blame",
             .group = Group::kAnswer,
             .summary = "say who put this there, proven by what, allowed by whom",
             .examples = {{"gradus blame production", "what the stage holds"},
                          {"gradus blame production src/app.c", "the change that touched this path last"},
                          {"gradus blame production src/app.c:7", "the change that brought this line"},
                          {"gradus blame production src", "each path below it, and who touched it last"}},
             .positionals = {{"STAGE", "the stage"},
                             {"PATH", "a file, a directory or a line (FILE:7) in it, from where you are or absolute",
                              false}},
             .handler = withService(open, blame)}};
}

}  // namespace gradus
