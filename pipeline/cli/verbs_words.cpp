#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/promote_words.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/engine/queue.h"
#include "policies/language/duration.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

const Option kReason{.name = "reason", .value = "TEXT", .doc = "why, for the record"};
const Option kTo{.name = "to", .value = "STAGE", .doc = "the stage; where it waits, otherwise"};
const Option kStage{.name = "stage", .value = "STAGE", .doc = "only in this stage"};
const Option kEverywhere{.name = "everywhere", .doc = "in every project of this store"};

bool isDry(const Context& context) { return context.arguments.flag("dry-run"); }

std::string reasonOf(const Context& context) { return context.arguments.value("reason").value_or(""); }

std::string said(const Context& context, const std::string& what) {
    return (isDry(context) ? "would say: " : "") + what + "\n";
}

Spoken spoken(Service& service, const Context& context, const char* positional, const char* stageOption) {
    return service.spokenOf(context.host.directory(), context.arguments.positional(positional).value_or("@"),
                            context.arguments.value(stageOption));
}

Json spokenJson(const Spoken& what) {
    Json json = Json::object();
    if (what.change) json["change"] = {{"id", changeHandle(what.change->id)}, {"revision", what.change->revision}};
    if (what.stage) json["stage"] = *what.stage;
    return json;
}

std::string spokenText(const Spoken& what) {
    const std::string change = what.change ? changeHandle(what.change->id) : "";
    return change + (what.change && what.stage ? " in " : "") + (what.stage ? printable(*what.stage) : "");
}

/// The same as words of a command: "c2 --stage production".
std::string spokenWords(const Spoken& what) {
    if (!what.change) return what.stage.value_or("");
    return changeHandle(what.change->id) + (what.stage ? " --stage " + *what.stage : "");
}

/// The stage that an answer is for: the named one, or the one where the change waits.
std::string answeredStage(Service& service, const Context& context, const Spoken& what) {
    if (what.stage) return *what.stage;
    std::string found;
    for (const Promotion& promotion : service.status(context.host.directory()).unfinished)
        if (promotion.change == what.change->id && promotion.state == PromotionState::kWaiting) found = promotion.stage;
    if (found.empty())
        throw Error(ErrorCode::kUsage, "{} waits at no stage", changeHandle(what.change->id))
            .hint("name the stage: --to STAGE");
    return found;
}

/// An answer is to what is newest: what it was before has been replaced.
void requireNewest(Service& service, const Context& context, const Spoken& what) {
    if (!what.change)
        throw Error(ErrorCode::kUsage, "'{}' is a stage; name a change (c2) or a promotion (p3)",
                    printable(what.stage.value_or("")));
    const Change newest = service.viewChange(context.host.directory(), changeHandle(what.change->id)).change;
    if (!what.revisionNamed || newest.revision == what.change->revision) return;
    throw Error(ErrorCode::kNotAllowed, "c{}.{} was replaced by c{}.{}", what.change->id, what.change->revision,
                newest.id, newest.revision)
        .hint(fmt::format("look at what it is now: gradus show {}", changeHandle(newest.id)));
}

Json approvalJson(const Approval& approval) {
    return {{"id", approval.id},
            {"revision", approval.revision},
            {"rules", approval.rules.hex()},
            {"base", approval.base.hex()},
            {"evidence", approval.evidence ? Json(approval.evidence->hex()) : Json()},
            {"roles", approval.roles}};
}

Result withdraw(Service& service, Context& context, const Spoken& what, const std::string& stage) {
    Result result{.data = spokenJson(what)};
    result.data["stage"] = stage;
    if (!isDry(context))
        result.data["withdrawn"] = service.engine(context.host.directory()).withdraw(what.change->id, stage);
    result.text = said(context, fmt::format("{} takes the approval of {} in {} back", service.caller().name,
                                            changeHandle(what.change->id), printable(stage)));
    return result;
}

bool asksAnybody(Engine& engine, std::int64_t change, const std::string& stage) {
    const Decision gates = engine.standing(change, stage).gates;
    return std::ranges::any_of(gates.gates, [](const GateAnswer& gate) { return gate.needsPerson; });
}

// A refusal names who could say yes. Where nobody is asked there is nobody to name, and no need of a yes.
ApprovalGiven approved(Service& service, std::int64_t change, const std::string& stage, const Context& context) {
    Engine& engine = service.engine(context.host.directory());
    const bool isPerson = service.caller().kind == ActorKind::kPerson;
    try {
        return engine.approve(change, stage, reasonOf(context), isDry(context));
    } catch (const Error& e) {
        if (e.code() != ErrorCode::kNotAllowed || !isPerson || asksAnybody(engine, change, stage)) throw;
        throw Error(e.code(), "{}", e.what())
            .hint(fmt::format("{0} asks nobody for an approval of it: gradus promote {1} --to {0}", stage,
                              changeHandle(change)));
    }
}

Result approve(Service& service, Context& context) {
    const Spoken what = spoken(service, context, "CHANGE", "to");
    requireNewest(service, context, what);
    const std::string stage = answeredStage(service, context, what);
    if (context.arguments.flag("withdraw")) return withdraw(service, context, what, stage);
    Engine& engine = service.engine(context.host.directory());
    const ApprovalGiven given = approved(service, what.change->id, stage, context);
    Result result;
    result.data = {{"change", {{"id", changeHandle(what.change->id)}, {"revision", given.approval.revision}}},
                   {"stage", stage},
                   {"approval", approvalJson(given.approval)},
                   {"gates", decisionJson(given.standing.gates)}};
    result.text = said(context, fmt::format("{} approves c{}.{} for {}{}", service.caller().name, what.change->id,
                                            given.approval.revision, printable(stage),
                                            given.approval.evidence ? "" : ", whatever its checks then prove"));
    for (const GateAnswer& gate : given.standing.gates.gates)
        if (isWaitedFor(gate)) result.text += "    still closed: " + gateText(gate) + "\n";
    const std::string goal = engine.goalOf(what.change->id).value_or(stage);
    result.next = {fmt::format("gradus promote {} --to {}", changeHandle(what.change->id), goal)};
    return result;
}

/// The same for a no, which ends what is on its way, too.
std::string rejectedStage(Service& service, const Context& context, const Spoken& what) {
    if (!what.stage)
        for (const Promotion& promotion : service.status(context.host.directory()).unfinished)
            if (promotion.change == what.change->id && !promotion.undoes && isUnderWay(promotion.state))
                return promotion.stage;
    return answeredStage(service, context, what);
}

std::string rejectedText(const Promotion& promotion) {
    const std::string id = promotionHandle(promotion.id);
    if (isFinal(promotion.state)) return fmt::format("{} is rejected\n", id);
    if (promotion.checkpoint)
        return fmt::format("{} is {} in {}: the process that drives it, or `gradus recover`, takes it back\n", id,
                           nameOf(kPromotionStates, promotion.state), printable(promotion.stage));
    return fmt::format("{} is {}: it ends as rejected, and touches nothing\n", id,
                       nameOf(kPromotionStates, promotion.state));
}

Result reject(Service& service, Context& context) {
    const Spoken what = spoken(service, context, "CHANGE", "to");
    requireNewest(service, context, what);
    const std::string stage = rejectedStage(service, context, what);
    Result result{.data = spokenJson(what)};
    result.data["stage"] = stage;
    result.text = said(context, fmt::format("{} says no to {} in {}", service.caller().name,
                                            changeHandle(what.change->id), printable(stage)));
    if (isDry(context)) return result;
    const auto ended = service.engine(context.host.directory()).reject(what.change->id, stage, reasonOf(context));
    if (!ended) return result;
    result.data["promotion"] = promotionJson(*ended, reasonOf(context));
    result.text += rejectedText(*ended);
    return result;
}

std::optional<Time> endOf(const Context& context) {
    const auto text = context.arguments.value("for");
    if (!text) return std::nullopt;
    const auto parsed = parseDuration(*text);
    if (!parsed)
        throw usageError(context.arguments.verb().words,
                         fmt::format("--for '{}' {}", printable(*text), parsed.problem));
    return context.host.clock().now() + *parsed.value;
}

Result hold(Service& service, Context& context) {
    const Spoken what = spoken(service, context, "WHAT", "stage");
    const auto until = endOf(context);
    if (!isDry(context)) service.hold(context.host.directory(), what, reasonOf(context), until);
    Result result{.data = spokenJson(what)};
    if (until) result.data["until"] = formatTime(*until);
    result.text = said(context, fmt::format("{} holds {}{}", service.caller().name, spokenText(what),
                                            until ? " until " + formatTime(*until) : ""));
    result.next = {"gradus unhold " + spokenWords(what)};
    return result;
}

Result unhold(Service& service, Context& context) {
    const Spoken what = spoken(service, context, "WHAT", "stage");
    const auto ended = service.unhold(context.host.directory(), what, isDry(context));
    Result result{.data = spokenJson(what)};
    result.data["lifted"] = !ended;
    if (ended) result.data["ended_at"] = formatTime(*ended);
    result.text = ended
                      ? fmt::format("the hold of {} ended by itself at {}: there is nothing to be lifted\n",
                                    spokenText(what), formatTime(*ended))
                      : said(context, fmt::format("{} lifts the hold of {}", service.caller().name, spokenText(what)));
    return result;
}

Result pin(Service& service, Context& context) {
    const std::string stage = *context.arguments.positional("STAGE");
    Spoken what = service.spokenOf(context.host.directory(), stage, std::nullopt);
    if (const auto change = context.arguments.positional("CHANGE"))
        what = service.spokenOf(context.host.directory(), *change, stage);
    const Pin pin = service.pin(context.host.directory(), what, reasonOf(context), isDry(context));
    const std::string handle = changeHandle(pin.change) + (pin.revision ? fmt::format(".{}", *pin.revision) : "");
    return {.data = {{"stage", stage}, {"change", {{"id", changeHandle(pin.change)}, {"handle", handle}}}},
            .text = said(context, fmt::format("{} pins {} to {}", service.caller().name, printable(stage), handle)),
            .next = {"gradus unpin " + stage}};
}

Result unpin(Service& service, Context& context) {
    const std::string stage = *context.arguments.positional("STAGE");
    if (!isDry(context)) service.unpin(context.host.directory(), stage);
    return {.data = {{"stage", stage}},
            .text = said(context, fmt::format("{} unpins {}", service.caller().name, printable(stage)))};
}

Result veto(Service& service, Context& context) {
    const Spoken what = spoken(service, context, "CHANGE", "stage");
    const Veto veto = service.veto(context.host.directory(), what, reasonOf(context), isDry(context));
    Result result{.data = spokenJson(what)};
    result.data["change_set"] = veto.changeSet.hex();
    result.data["patch"] = veto.patch.hex();
    result.text = said(context, fmt::format("{} vetoes {}, and the same patch on whatever base", service.caller().name,
                                            spokenText(what)));
    result.next = {"gradus unveto " + spokenWords(what)};
    return result;
}

Result unveto(Service& service, Context& context) {
    const Spoken what = spoken(service, context, "CHANGE", "stage");
    const auto lifted = service.unveto(context.host.directory(), what, isDry(context));
    Result result{.data = spokenJson(what)};
    result.data["lifted"] = lifted.size();
    result.text = said(context, fmt::format("{} takes the veto of {} back", service.caller().name, spokenText(what)));
    return result;
}

Result halt(Service& service, Context& context) {
    const bool everywhere = context.arguments.flag("everywhere");
    if (!isDry(context)) service.halt(context.host.directory(), everywhere, reasonOf(context));
    return {.data = {{"everywhere", everywhere}},
            .text = said(context, fmt::format("{} halts {}: nothing enters a stage; going back is possible",
                                              service.caller().name, everywhere ? "everything" : "this project")),
            .next = {everywhere ? "gradus resume --everywhere" : "gradus resume"}};
}

Result resume(Service& service, Context& context) {
    const bool everywhere = context.arguments.flag("everywhere");
    if (!isDry(context)) service.resume(context.host.directory(), everywhere);
    return {.data = {{"everywhere", everywhere}},
            .text = said(context, fmt::format("{} lets work go on", service.caller().name)),
            .next = {"gradus status"}};
}

Result whoami(Service& service, Context& context) {
    const WhoAmI who = service.whoAmI(context.host.directory());
    const bool person = who.actor.kind == ActorKind::kPerson;
    Result result;
    result.data = {{"kind", nameOf(kActorKinds, who.actor.kind)},
                   {"name", who.actor.name},
                   {"declared", who.declared},
                   {"login", who.login},
                   {"roles", who.roles},
                   {"may_approve", person}};
    result.text =
        fmt::format("{}:{}{}\nroles     {}\n{}\n", nameOf(kActorKinds, who.actor.kind), printable(who.actor.name),
                    who.declared ? " (by GRADUS_ACTOR; logged in as " + printable(who.login) + ")" : "",
                    who.roles.empty() ? "none" : fmt::format("{}", fmt::join(who.roles, ", ")),
                    person ? "may approve what others made" : "may not approve: that takes a person");
    return result;
}

}  // namespace

std::vector<Verb> wordVerbs(const OpenService& open) {
    const Positional change{"CHANGE", "a change (c2, @) or a promotion (p3)"};
    const Positional what{"WHAT", "a change (c2, @), a stage, or a promotion (p3)"};
    const Positional stage{"STAGE", "the stage"};
    return {
        {.words = "approve",
         .group = Group::kPromote,
         .summary = "say yes to a change that others made, for one stage",
         .examples = {{"gradus approve c2", "where it waits"},
                      {"gradus approve c2 --to production", "before it got there"},
                      {"gradus approve c2 --withdraw", "think again"}},
         .positionals = {change},
         .options = {kTo, kReason, {.name = "withdraw", .doc = "take your own yes back"}, kDryRun},
         .handler = withService(open, approve)},
        {.words = "reject",
         .group = Group::kPromote,
         .summary = "say no to a change that waits; machines do not try again",
         .examples = {{"gradus reject c2 --reason 'not before the sale'", "where it waits"}},
         .positionals = {change},
         .options = {kTo, kReason, kDryRun},
         .handler = withService(open, reject)},
        {.words = "hold",
         .group = Group::kPromote,
         .summary = "keep a change, or everything, out of a stage",
         .examples = {{"gradus hold production --for 2h --reason audit", "nothing enters for two hours"},
                      {"gradus hold c2", "one change, in any stage"},
                      {"gradus hold c2 --stage production", "one change, in one stage"}},
         .positionals = {what},
         .options = {kStage, {.name = "for", .value = "DURATION", .doc = "until it ends by itself"}, kReason, kDryRun},
         .handler = withService(open, hold)},
        {.words = "unhold",
         .group = Group::kPromote,
         .summary = "lift a hold, the one after a rollback too",
         .examples = {{"gradus unhold production", "changes may enter again"},
                      {"gradus unhold c2 --stage production", "machines may try it again"}},
         .positionals = {what},
         .options = {kStage, kDryRun},
         .handler = withService(open, unhold)},
        {.words = "pin",
         .group = Group::kPromote,
         .summary = "let a stage keep one change",
         .examples = {{"gradus pin production", "what it holds now"},
                      {"gradus pin production c2", "nothing but c2 enters"}},
         .positionals = {stage, {"CHANGE", "a change (c2, c2.1); what it holds, otherwise", false}},
         .options = {kReason, kDryRun},
         .handler = withService(open, pin)},
        {.words = "unpin",
         .group = Group::kPromote,
         .summary = "let other changes enter a stage again",
         .examples = {{"gradus unpin production", "the pin is gone"}},
         .positionals = {stage},
         .options = {kDryRun},
         .handler = withService(open, unpin)},
        {.words = "veto",
         .group = Group::kPromote,
         .summary = "keep a change out for good, and every rebase of it",
         .examples = {{"gradus veto c2 --reason 'leaks the key'", "these bytes, and the patch"},
                      {"gradus veto c2 --stage production", "in one stage"}},
         .positionals = {change},
         .options = {kStage, kReason, kDryRun},
         .handler = withService(open, veto)},
        {.words = "unveto",
         .group = Group::kPromote,
         .summary = "take a veto back",
         .examples = {{"gradus unveto c2", "it may enter again"}},
         .positionals = {change},
         .options = {kStage, kDryRun},
         .handler = withService(open, unveto)},
        {.words = "halt",
         .group = Group::kPromote,
         .summary = "stop everything that would enter a stage, at once",
         .examples = {{"gradus halt --reason 'the disk is full'", "rollbacks still run"}},
         .options = {kEverywhere, kReason, kDryRun},
         .handler = withService(open, halt)},
        {.words = "resume",
         .group = Group::kPromote,
         .summary = "let work go on after a halt",
         .examples = {{"gradus resume", "what waited can be promoted"}},
         .options = {kEverywhere, kDryRun},
         .handler = withService(open, resume)},
        {.words = "whoami",
         .group = Group::kAnswer,
         .summary = "say who you are here, and which roles you have",
         .examples = {{"gradus whoami", "as the record would name you"}},
         .handler = withService(open, whoami)},
    };
}

}  // namespace gradus
