#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/promote_words.h"
#include "pipeline/cli/sandbox_words.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/engine/drive.h"
#include "pipeline/engine/ground.h"
#include "pipeline/engine/step_words.h"
#include "policies/language/duration.h"
#include "policies/language/keys.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

std::vector<std::string_view> gateNames() {
    std::vector<std::string_view> names;
    for (const std::string& name : overridableGates()) names.emplace_back(name);
    return names;
}

/// How far it goes, and who said so; nothing to tell a caller who named the stage, or of whom nothing waits.
std::string goalText(const Goal& goal, const Actor& caller) {
    if (!goal.waiting || !goal.by) return {};
    const std::string id = promotionHandle(goal.waiting->id);
    if (*goal.by == caller) return fmt::format("as far as {}, as you asked when {} began to wait\n", goal.stage, id);
    const std::string wanted = goal.waiting->goal.value_or(goal.waiting->stage);
    std::string text = fmt::format("as far as {}, where {} waits for {}", goal.stage, id, kindAndName(*goal.by));
    if (wanted != goal.stage)
        text += fmt::format(", who wants it in {0}; you may, too: gradus promote {1} --to {0}", printable(wanted),
                            changeHandle(goal.waiting->change));
    return text + "\n";
}

/// Of what waits: who will have it go on, and where to.
void addGoalInForce(const Promotion& promotion, const Engine& engine, Result& result) {
    if (promotion.state != PromotionState::kWaiting || !promotion.goal) return;
    const std::string by = promoterText(engine, promotion.id);
    result.data["promotion"]["goal_by"] = by;
    result.text += fmt::format("    goes on as far as {} once it may, as {} asked\n", printable(*promotion.goal), by);
}

/// Somebody is still to be asked, once what else is in the way is gone.
bool isToBeAskedLater(const StageReport& report) {
    if (report.promotion.state != PromotionState::kWaiting || !report.gates || report.gates->asks()) return false;
    return std::ranges::any_of(report.gates->gates, [](const GateAnswer& gate) { return gate.needsPerson; });
}

// Where something else is in the way, it was decided on before its checks were looked at: an approval of what they
// proved did not count there, and does as soon as it goes on. So it is told as `gradus why` tells it.
void tellAsItStands(Engine& engine, Climb& climb) {
    if (climb.stages.empty() || !isToBeAskedLater(climb.stages.back())) return;
    StageReport& last = climb.stages.back();
    try {
        Decision now = engine.standing(climb.change, last.promotion.stage).gates;
        const std::string reason = closedGates(now).reason;
        if (reason.empty()) return;
        last.reason = reason;
        last.gates = std::move(now);
    } catch (const Error&) {
        // Nobody can look there now: what was decided is told.
        return;
    }
}

/// What it waits behind: the promotion that got stuck there.
std::optional<std::int64_t> stuckBefore(Engine& engine, const StageReport& report) {
    const bool isClosed = report.promotion.state == PromotionState::kWaiting && report.gates &&
                          isWaitedFor(report.gates->at(Gate::kQuarantine));
    if (!isClosed) return std::nullopt;
    try {
        const auto stuck = engine.standing(report.promotion.change, report.promotion.stage).facts.stuck;
        return stuck ? std::optional(stuck->promotion) : std::nullopt;
    } catch (const Error&) {
        // What was done is told all the same.
        return std::nullopt;
    }
}

/// A stage that is closed opens by no word about the change: the way out of it is the way on.
void addWayOutOfStage(Engine& engine, const StageReport& report, Result& result) {
    const auto stuck = stuckBefore(engine, report);
    if (!stuck || !result.problem) return;
    result.problem->hint = fmt::format("{} is closed by {}: {}", printable(report.promotion.stage),
                                       promotionHandle(*stuck), wayOutOf(engine, *stuck));
    const WayBack back = wayBackOf(engine, *engine.find(*stuck));
    if (back.command && !result.next.empty()) result.next.insert(result.next.begin() + 1, *back.command);
}

Result climbResult(const Climb& climb, const std::string& to, Engine& engine, const Context& context) {
    Result result;
    result.data = climbJson(climb);
    result.data["goal"] = to;
    for (const StageReport& report : climb.others)
        result.text +=
            fmt::format("before it, {}:\n", changeHandle(report.promotion.change)) + stageText(report, context.paint);
    for (const StageReport& report : climb.stages) result.text += stageText(report, context.paint);
    if (climb.stages.empty()) return result;
    const StageReport& last = climb.stages.back();
    result.exit = exitOf(last);
    result.problem = problemOf(last);
    addGoalInForce(last.promotion, engine, result);
    const Stage* const stage = engine.project().pipeline.findStage(last.promotion.stage);
    result.next = nextAfter(engine, last, stage != nullptr && stage->driver == "worktree", to);
    addWayOutOfStage(engine, last, result);
    return result;
}

/// ", builds dist/**".
std::string outputsOf(const StagePlan& plan, const std::string& check) {
    const auto found = plan.outputs.find(check);
    return found == plan.outputs.end()
               ? ""
               : fmt::format(", builds {}", printable(fmt::format("{}", fmt::join(found->second, ", "))));
}

std::string planText(const StagePlan& plan, const Context& context) {
    std::string text = fmt::format("{}", context.paint(Style::kBold, plan.stage));
    if (plan.already) return text + ": already there\n";
    text += fmt::format(": {}", counted(plan.changes.changes().size(), "path"));
    if (plan.seeds) text += ", into an empty stage that begins as what the change was made on";
    if (!plan.mergedPaths.empty()) text += fmt::format(", {} merged", plan.mergedPaths.size());
    text += "\n";
    for (const MergeConflict& conflict : plan.mergeConflicts)
        text += fmt::format("  conflict  {}: {}\n", printable(conflict.path), printable(conflict.detail));
    for (const Conflict& conflict : plan.conflicts) text += fmt::format("  conflict  {}\n", describe(conflict));
    for (const std::string& check : plan.checks)
        text += fmt::format("  check     {}{}\n", printable(check), outputsOf(plan, check));
    for (const StepPlan& step : plan.steps)
        text += fmt::format("  step      {}, {}{}\n", printable(step.name), nameOf(kStepWhens, step.when),
                            step.irreversible   ? ", cannot be undone"
                            : step.undo.empty() ? ", nothing to undo"
                                                : "");
    for (const GateAnswer& gate : plan.gates.gates)
        if (isWaitedFor(gate)) text += fmt::format("  closed    {}\n", gateText(gate));
    return text;
}

Json planJson(const StagePlan& plan) {
    Json json{{"stage", plan.stage}, {"already", plan.already}, {"seeds", plan.seeds}, {"checks", plan.checks}};
    json["paths"] = Json::array();
    for (const PathChange& change : plan.changes.changes())
        json["paths"].push_back({{"path", change.path}, {"kind", nameOf(kChangeKinds, kindOf(change))}});
    json["merged"] = plan.mergedPaths;
    json["steps"] = Json::array();
    for (const StepPlan& step : plan.steps) json["steps"].push_back(stepPlanJson(step));
    json["outputs"] = Json::object();
    for (const auto& [check, patterns] : plan.outputs) json["outputs"][check] = patterns;
    json["conflicts"] = Json::array();
    for (const MergeConflict& conflict : plan.mergeConflicts)
        json["conflicts"].push_back({{"path", conflict.path}, {"detail", conflict.detail}});
    for (const Conflict& conflict : plan.conflicts)
        json["conflicts"].push_back({{"path", conflict.path}, {"detail", describe(conflict)}});
    json["gates"] = decisionJson(plan.gates);
    return json;
}

Result dryRun(Service& service, Context& context, const Change& change, const std::string& to) {
    Result result;
    result.data = {{"change", {{"id", changeHandle(change.id)}}}, {"plan", Json::array()}};
    for (const StagePlan& plan : service.engine(context.host.directory()).plan(change.id, to)) {
        result.data["plan"].push_back(planJson(plan));
        result.text += planText(plan, context);
        const bool fits = plan.already || (plan.mergeConflicts.empty() && plan.conflicts.empty());
        if (fits || result.problem) continue;
        result.exit = Exit::kFailed;
        result.problem = Problem{.code = "conflict",
                                 .message = fmt::format("{} does not fit {}", changeHandle(change.id), plan.stage),
                                 .hint = "nothing was done; the paths and reasons are above"};
    }
    return result;
}

/// What would be submitted first. Nothing is recorded, so there is nothing yet that a stage could be asked about.
Result drySubmission(Service& service, Context& context, const ChangeSource& source, const std::string& to) {
    const SubmitReport report = service.submit(context.host.directory(), {.source = source, .dryRun = true});
    if (!report.faults.empty() || report.changes.empty())
        throw Error(ErrorCode::kNotFound, "there is nothing to promote: {}",
                    report.faults.empty() ? "nothing was changed" : report.faults.front())
            .hint("`gradus ls` lists the changes that there are");
    Result result{.data = {{"change", nullptr}, {"plan", Json::array()}, {"asked", false}, {"paths", Json::array()}}};
    for (const PathChange& change : report.changes.changes())
        result.data["paths"].push_back({{"path", change.path}, {"kind", nameOf(kChangeKinds, kindOf(change))}});
    result.text = fmt::format(
        "would submit {} as \"{}\" and promote it as far as {}; nothing was recorded, and no stage "
        "was asked whether it fits\n",
        counted(report.changes.changes().size(), "path"), printable(report.title), printable(to));
    const std::string submit = source.sandbox ? "--from-sandbox " + *source.sandbox : "--worktree";
    result.next = {"gradus submit " + submit, "gradus plan"};
    return result;
}

constexpr Milliseconds kPatience = std::chrono::hours(1);

/// What was said about waiting and about gates; only `promote` has words for it.
PromoteWish wishOf(const Context& context) {
    PromoteWish wish;
    const Arguments& arguments = context.arguments;
    if (arguments.verb().words != "promote") return wish;
    const std::string reason = arguments.value("reason").value_or("");
    for (const std::string& name : arguments.values("override"))
        wish.overrides.push_back({*fromName(kGates, name), reason});
    if (!wish.overrides.empty() && reason.empty())
        throw usageError("promote", "--override needs a --reason: it is on record", "");
    if (wish.overrides.empty() && !reason.empty()) throw usageError("promote", "--reason is for --override", "");
    if (const auto why = arguments.value("irreversible")) wish.overrides.push_back({Gate::kSteps, *why});
    if (arguments.flag("wait")) wish.patience = kPatience;
    wish.recheck = arguments.flag("recheck");
    if (const auto text = arguments.value("for")) {
        const auto parsed = parseDuration(*text);
        if (!parsed || !wish.patience)
            throw usageError("promote", parsed ? "--for is for --wait"
                                               : fmt::format("--for '{}' {}", printable(*text), parsed.problem));
        wish.patience = *parsed.value;
    }
    return wish;
}

Result climb(Service& service, Context& context, const Change& change, const std::string& to,
             const Interrupt& interrupt) {
    ClimbView view(context, stagesUpTo(service.engine(context.host.directory()), to));
    Engine& engine = service.tended(context.host.directory(), view.progress(), interrupt.token());
    Climb done = engine.promote(change.id, to, view.progress(), interrupt.token(), wishOf(context));
    view.clear();
    tellAsItStands(engine, done);
    return interruptedOr(climbResult(done, to, engine, context), interrupt);
}

/// Onto what the project is now; a problem: it conflicts with that.
std::optional<Problem> rebased(Service& service, Context& context, Change& change) {
    if (context.arguments.verb().words != "promote" || !context.arguments.flag("rebase")) return std::nullopt;
    const bool dry = context.arguments.flag("dry-run");
    const RebaseReport report = service.rebase(context.host.directory(), changeHandle(change.id), dry);
    change = report.change;
    if (report.merge.conflicts.empty()) return std::nullopt;
    std::string paths;
    for (const MergeConflict& conflict : report.merge.conflicts) paths += (paths.empty() ? "" : ", ") + conflict.path;
    return Problem{
        .code = "conflict",
        .message = fmt::format("{} cannot be put onto what the project is now: {}", changeHandle(change.id), paths),
        .hint = "gradus rebase " + changeHandle(change.id)};
}

/// Without `to`: as far as the caller asked for himself, whatever others want.
Result bring(Service& service, Context& context, const std::optional<std::string>& what,
             const std::optional<std::string>& to) {
    const Interrupt interrupt(kLeftInTheMiddle);
    wishOf(context);
    const auto& options = context.arguments.verb().options;
    const bool canDryRun = std::ranges::find(options, kDryRun.name, &Option::name) != options.end();
    const bool dry = canDryRun && context.arguments.flag("dry-run");
    if (dry && !(what && namesChange(*what))) {
        const std::string last = to ? *to : lastStage(service.engine(context.host.directory()));
        return drySubmission(service, context, what ? ChangeSource{.sandbox = *what} : ChangeSource{.worktree = true},
                             last);
    }
    const bool canTitle = std::ranges::find(options, "title", &Option::name) != options.end();
    Change change = service.changeToPromote(context.host.directory(), what,
                                            canTitle ? context.arguments.value("title") : std::nullopt);
    if (auto problem = rebased(service, context, change))
        return {.exit = Exit::kFailed,
                .data = {{"change", {{"id", changeHandle(change.id)}}}},
                .problem = std::move(problem)};
    const Goal goal = to ? Goal{.stage = *to} : service.engine(context.host.directory()).goalFor(change.id);
    Result result =
        dry ? dryRun(service, context, change, goal.stage) : climb(service, context, change, goal.stage, interrupt);
    result.text = goalText(goal, service.caller()) + result.text;
    return result;
}

Result promote(Service& service, Context& context) {
    return bring(service, context, context.arguments.positional("CHANGE"), context.arguments.value("to"));
}

/// What would happen on the way up. Submits nothing: without a name it is about the newest change.
Result plan(Service& service, Context& context) {
    const Engine& engine = service.engine(context.host.directory());
    const std::string to = context.arguments.value("to").value_or(lastStage(engine));
    const std::string words = context.arguments.positional("CHANGE").value_or("@");
    return dryRun(service, context, service.viewChange(context.host.directory(), words).change, to);
}

Result apply(Service& service, Context& context) {
    const std::string to = workTreeStage(service.engine(context.host.directory()));
    return bring(service, context, context.arguments.positional("CHANGE"), to);
}

// By its handle: `@` is the latest sandbox here, where a change is meant elsewhere.
Result applySandbox(Service& service, Context& context) {
    return applyNamed(service, context, sandboxHandle(namedSandbox(service, context).id));
}

Result retry(Service& service, Context& context) {
    const Interrupt interrupt(kLeftInTheMiddle);
    const Promotion promotion =
        service.promotionNamed(context.host.directory(), context.arguments.positional("PROMOTION"));
    if (promotion.state == PromotionState::kPromoted)
        throw Error(ErrorCode::kNotAllowed, "{} was promoted: there is nothing to try again",
                    promotionHandle(promotion.id));
    const Change change = service.changeToPromote(context.host.directory(), changeHandle(promotion.change));
    // What waits is no attempt that ended: it goes on as far as whoever calls asked for.
    const bool waits = promotion.state == PromotionState::kWaiting;
    const Goal goal = waits ? service.engine(context.host.directory()).goalFor(change.id) : Goal{promotion.stage};
    if (context.arguments.flag("dry-run")) return dryRun(service, context, change, goal.stage);
    Result result = climb(service, context, change, goal.stage, interrupt);
    result.text = goalText(goal, service.caller()) + result.text;
    return result;
}

}  // namespace

Result applyNamed(Service& service, Context& context, const std::string& what) {
    return bring(service, context, what, workTreeStage(service.engine(context.host.directory())));
}

Result promoteNamed(Service& service, Context& context, const std::string& what, const std::optional<std::string>& to) {
    return bring(service, context, what, to);
}

void requireStage(Service& service, const Context& context, const std::optional<std::string>& to) {
    const Engine& engine = service.engine(context.host.directory());
    if (to)
        stageNamed(engine.project(), *to);
    else
        workTreeStage(engine);
}

std::vector<Verb> promoteVerbs(const OpenService& open) {
    const Positional change{"CHANGE", "a change (c2, @), a sandbox (s1), or nothing for the work tree", false};
    const Positional promotion{"PROMOTION", "a promotion (p3), a change (c2) or a stage; the newest otherwise", false};
    return {
        {.words = "promote",
         .group = Group::kPromote,
         .summary = "bring a change up, stage by stage, each proven first",
         .examples = {{"gradus promote", "what is in the work tree, as far as the pipeline goes"},
                      {"gradus promote c2 --to staging", "one change, up to a stage"},
                      {"gradus promote s1 --to local --dry-run", "what would happen to a sandbox's changes"},
                      {"gradus promote c2 --wait --for 2h", "until the window opens, two hours at most"},
                      {"gradus promote c2 --override window --reason fire", "with the role `override`"}},
         .positionals = {change},
         .options = {{.name = "to",
                      .value = "STAGE",
                      .doc = "the last stage to enter",
                      .fallback = "as far as you asked before; of what waits for another, that stage; else the last"},
                     {.name = "title", .value = "TEXT", .doc = "of the change that is submitted on the way"},
                     {.name = "wait", .doc = "wait for what opens by itself: a window, others at the target"},
                     {.name = "for", .value = "DURATION", .doc = "with --wait: how long at most", .fallback = "1h"},
                     {.name = "rebase", .doc = "put it onto what the project is now, first"},
                     {.name = "recheck",
                      .doc = "run every check again, also in stages that have it; a no takes their yes back"},
                     {.name = "override",
                      .value = "GATE",
                      .doc = "open this gate once, on record",
                      .repeatable = true,
                      .choices = gateNames()},
                     {.name = "reason", .value = "TEXT", .doc = "with --override: why"},
                     {.name = "irreversible",
                      .value = "REASON",
                      .doc = "consent to steps that cannot be undone, on record"},
                     kDryRun},
         .onFrontPage = true,
         .handler = withService(open, promote)},
        {.words = "plan",
         .group = Group::kAnswer,
         .summary = "say what would happen to a change in every stage ahead",
         .examples = {{"gradus plan c2 --to production", "paths, conflicts, checks and closed gates"}},
         .positionals = {{"CHANGE", "a change (c2); the newest otherwise", false}},
         .options = {{.name = "to", .value = "STAGE", .doc = "the last stage", .fallback = "the last one"}},
         .handler = withService(open, plan)},
        {.words = "apply",
         .group = Group::kPromote,
         .summary = "write a change into the work tree, around your own edits",
         .examples = {{"gradus apply s1", "what a sandbox changed"}, {"gradus apply c2 --dry-run", "look first"}},
         .positionals = {change},
         .options = {kDryRun},
         .handler = withService(open, apply)},
        {.words = "sandbox apply",
         .group = Group::kTry,
         .summary = "write what a sandbox changed into the work tree",
         .examples = {{"gradus sandbox apply s1", "the same as gradus apply s1"},
                      {"gradus sandbox apply @", "the latest sandbox"}},
         .positionals = {sandboxPlace()},
         .options = {kDryRun},
         .handler = withService(open, applySandbox)},
        {.words = "retry",
         .group = Group::kPromote,
         .summary = "try a promotion again that did not get through",
         .examples = {{"gradus retry p3", "a new attempt; the old one stays on record"}},
         .positionals = {promotion},
         .options = {kDryRun},
         .handler = withService(open, retry)},
    };
}

}  // namespace gradus
