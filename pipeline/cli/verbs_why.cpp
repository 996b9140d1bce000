#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>
#include <thread>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/counted.h"
#include "pipeline/cli/event_view.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/cli/promote_words.h"
#include "pipeline/cli/verbs.h"
#include "pipeline/engine/check_answer.h"
#include "pipeline/engine/queue.h"
#include "pipeline/engine/step_words.h"
#include "pipeline/service/execution_story.h"
#include "policies/gate/explain.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr auto kLookAgain = std::chrono::milliseconds(200);

Json resultJson(const CheckResult& check) {
    Json json{{"check", check.check},
              {"phase", nameOf(kCheckPhases, check.phase)},
              {"verdict", nameOf(kCauses, check.verdict)},
              {"reason", check.reason},
              {"wall_ms", check.wallMs},
              {"evidence", check.evidence.hex()}};
    if (check.exitCode) json["exit_code"] = *check.exitCode;
    if (check.execution) json["execution"] = executionHandle(*check.execution);
    if (check.log) json["log"] = check.log->hex();
    if (check.reused) json["reused_from"] = promotionHandle(*check.reused);
    if (check.outputs) json["outputs"] = check.outputs->hex();
    return json;
}

std::string resultText(const CheckResult& check, const Paint& paint) {
    const bool passed = check.verdict == Cause::kPassed;
    std::string line = fmt::format("  {} {:<7} {:<16}", paint(passed ? Style::kGreen : Style::kRed, passed ? "✓" : "✗"),
                                   nameOf(kCheckPhases, check.phase), printable(check.check));
    if (!passed) line += fmt::format(" {}: {}", nameOf(kCauses, check.verdict), printable(check.reason));
    if (check.reused) line += fmt::format(" as {} proved", promotionHandle(*check.reused));
    return line + "\n";
}

Json wordJson(const WordInForce& word) {
    return {{"kind", word.kind},
            {"text", word.text},
            {"by", word.by},
            {"since", formatTime(word.at)},
            {"until", word.until ? Json(formatTime(*word.until)) : Json()}};
}

std::string wordText(const WordInForce& word) {
    return fmt::format("  {}, since {}{}\n", printable(word.text), formatTime(word.at),
                       word.until ? ", until " + formatTime(*word.until) : "");
}

Json approvalsJson(const Decision& decision) {
    Json all = Json::array();
    for (const ApprovalAnswer& approval : decision.approvals)
        all.push_back({{"id", approval.id},
                       {"by", approval.by.name},
                       {"given", formatTime(approval.at)},
                       {"counts", approval.counts},
                       {"why", approval.why.empty() ? Json() : Json(approval.why)},
                       {"expired", approval.expired ? Json(formatTime(*approval.expired)) : Json()}});
    return all;
}

/// The stage is closed: what opens it again, and the commands for it.
void addWayOut(const Engine& engine, std::int64_t stuck, Result& result) {
    // The story of what got stuck has told it, and the gates of the same change are told after it.
    if (result.data.contains("way_out")) return;
    const Promotion promotion = *engine.find(stuck);
    const std::string way = wayOutOf(engine, stuck);
    result.data["way_out"] = way;
    result.text += fmt::format("  way out {}\n", way);
    result.next.insert(result.next.begin(), "gradus adopt " + promotion.stage);
    if (const auto command = wayBackOf(engine, promotion).command) result.next.insert(result.next.begin(), *command);
}

/// Every gate between the change and the stage as it is now, which need not be as it was when it was last moved.
void addGates(Service& service, Context& context, std::int64_t change, const std::string& stage, Result& result) {
    const Standing standing = service.engine(context.host.directory()).standing(change, stage);
    result.data["gates"] = decisionJson(standing.gates);
    result.data["stage"] = stage;
    result.data["asks"] = standing.gates.asks();
    result.data["approvals"] = approvalsJson(standing.gates);
    result.text += fmt::format("into {}: ", printable(stage));
    for (const std::string& line : explainLines(standing.gates, context.host.clock().now(), true))
        result.text += printable(line) + "\n";
    for (const MergeConflict& conflict : standing.mergeConflicts)
        result.text += fmt::format("  conflict  {}: {}\n", printable(conflict.path), printable(conflict.detail));
    if (standing.facts.stuck)
        addWayOut(service.engine(context.host.directory()), standing.facts.stuck->promotion, result);
    if (standing.gates.asks())
        result.next.push_back(fmt::format("gradus approve {} --to {}", changeHandle(change), stage));
}

/// The first stage that the change has not entered; nothing: it is in all of them.
std::optional<std::string> nextStage(Service& service, Context& context, std::int64_t change) {
    for (const StagePlan& plan :
         service.engine(context.host.directory())
             .plan(change, service.engine(context.host.directory()).project().pipeline.stages.back().name))
        if (!plan.already) return plan.stage;
    return std::nullopt;
}

void addWords(Service& service, Context& context, const std::optional<std::string>& stage, Result& result) {
    for (const WordInForce& word : service.wordsInForce(context.host.directory())) {
        if (stage && word.stage && word.stage != stage) continue;
        result.data["words"].push_back(wordJson(word));
        result.text += wordText(word);
    }
}

/// What became of it: "is waiting", "was stuck".
std::string stateText(const PromotionStory& story) {
    const Promotion& promotion = story.promotion;
    if (promotion.undoes && promotion.state == PromotionState::kPromoted)
        return fmt::format("is through: {} is taken back", promotionHandle(*promotion.undoes));
    const bool isOver = !story.settled.empty() || story.takenBack;
    return fmt::format("{} {}", isOver ? "was" : "is", nameOf(kPromotionStates, promotion.state));
}

/// What became of it since, as a line; nothing: it is as it is told.
std::string sinceText(const PromotionStory& story) {
    if (!story.settled.empty()) return "  settled " + printable(story.settled) + "\n";
    if (!story.takenBack) return {};
    return fmt::format("  taken back on {} by {}\n", formatTime(story.takenBack->movedAt),
                       promotionHandle(story.takenBack->id));
}

Json takenBackJson(const PromotionStory& story) {
    if (!story.takenBack) return {};
    return {{"by", promotionHandle(story.takenBack->id)}, {"at", formatTime(story.takenBack->movedAt)}};
}

/// Of one that waits: that it has waited too long, which is on record only once somebody drives.
void addOverdue(const Engine& engine, const Promotion& promotion, const Context& context, Result& result) {
    const Moment now = context.host.clock().moment();
    const Time expires = expiresAt(promotion, waitLimit(engine.project().pipeline, promotion.stage), now);
    result.data["expires_at"] = formatTime(expires);
    if (now.at < expires) return;
    result.text += fmt::format("  {}\n", kWaitIsOver);
    result.next.insert(result.next.begin(), "gradus recover");
}

/// On whose word the stage holds what it holds.
void addAdoption(Service& service, Context& context, const std::string& stage, Result& result) {
    const auto told = service.adoptionIn(context.host.directory(), stage);
    if (!told) return;
    result.data["adopted"] = adoptionJson(*told);
    result.text += fmt::format("on {} {}\n", formatTime(told->adoption.at), printable(told->text));
}

void addStory(Service& service, Context& context, const Promotion& promotion, Result& result) {
    PromotionStory story = service.story(promotion.id);
    story.reason = service.reasonNow(context.host.directory(), promotion);
    result.data["promotion"] = promotionJson(promotion, story.reason);
    result.data["settled"] = story.settled.empty() ? Json() : Json(story.settled);
    result.data["taken_back"] = takenBackJson(story);
    result.data["change"] = {{"id", changeHandle(story.change.id)},
                             {"revision", story.change.revision},
                             {"title", story.change.title ? Json(*story.change.title) : Json()},
                             {"by", story.by}};
    result.data["checks"] = Json::array();
    result.text += fmt::format(
        "{} {}{}\n{}  {}.{} {} by {}, {} {}, {}\n", promotionHandle(promotion.id), stateText(story),
        story.reason.empty() ? "" : ": " + printable(story.reason), sinceText(story), changeHandle(promotion.change),
        promotion.revision, printable(story.change.title.value_or("(no title)")), printable(story.by),
        promotion.undoes ? fmt::format("taking {} back out of", promotionHandle(*promotion.undoes)) : "into",
        printable(promotion.stage), formatTime(promotion.movedAt));
    for (const CheckResult& check : story.checks) {
        result.data["checks"].push_back(resultJson(check));
        result.text += resultText(check, context.paint);
    }
    for (const CheckResult& check : story.checks)
        if (const auto built = service.builtBy(check); !built.empty() && !result.data["built"].contains(check.check)) {
            result.data["built"][check.check] = built;
            result.text += fmt::format("  built   {}: {}\n", printable(check.check), counted(built.size(), "file"));
        }
    result.data["steps"] = Json::array();
    for (const StepRecord& step : story.steps) {
        result.data["steps"].push_back(stepJson(step));
        result.text += stepText(step, context.paint);
    }
    result.data["holds"] = Json::array();
    for (const WordInForce& hold : story.holds) {
        result.data["holds"].push_back(wordJson(hold));
        result.text += wordText(hold);
    }
    result.next = {"gradus logs " + promotionHandle(promotion.id), "gradus show " + changeHandle(promotion.change)};
    const bool closes = promotion.state == PromotionState::kStuck && story.settled.empty() && story.stage.stuck;
    if (closes) addWayOut(service.engine(context.host.directory()), *story.stage.stuck, result);
    if (promotion.state != PromotionState::kWaiting) return;
    const Engine& engine = service.engine(context.host.directory());
    addOverdue(engine, promotion, context, result);
    if (promotion.goal && *promotion.goal != promotion.stage)
        result.text += fmt::format("  on its way to {}, as {} asked{}\n", printable(*promotion.goal),
                                   promoterText(engine, promotion.id),
                                   engine.project().pipeline.findStage(*promotion.goal) == nullptr
                                       ? ": the rules do not have that stage any more"
                                       : "");
    addGates(service, context, promotion.change, promotion.stage, result);
}

/// A change: its newest promotion, and what is between it and the next stage.
Result whyChange(Service& service, Context& context, const std::string& words) {
    const Change change = service.viewChange(context.host.directory(), words).change;
    Result result;
    result.data["change"] = {{"id", changeHandle(change.id)},
                             {"revision", change.revision},
                             {"title", change.title ? Json(*change.title) : Json()}};
    const auto newest = service.newestPromotion(change.id);
    if (newest) addStory(service, context, *newest, result);
    if (!newest)
        result.text = fmt::format("{} {}: nobody promoted it yet\n", changeHandle(change.id),
                                  printable(change.title.value_or("(no title)")));
    const bool shown = newest && newest->state == PromotionState::kWaiting;
    const auto stage = shown ? std::nullopt : nextStage(service, context, change.id);
    if (stage) addGates(service, context, change.id, *stage, result);
    if (!newest) result.next = {"gradus promote " + changeHandle(change.id)};
    return result;
}

Json executionJson(const ExecutionStory& story) {
    const Execution& execution = story.execution;
    Json json{{"id", executionHandle(execution.id)},
              {"sandbox", sandboxHandle(execution.sandbox)},
              {"state", nameOf(kExecutionStates, execution.state)},
              {"verdict", execution.verdict ? Json(verdictName(*execution.verdict)) : Json()},
              {"exit_code", execution.exitCode ? Json(*execution.exitCode) : Json()},
              {"signal", execution.signal ? Json(*execution.signal) : Json()},
              {"ended", endingOf(execution)},
              {"started_at", formatTime(execution.startedAt)},
              {"wall_ms", execution.wallMillis},
              {"command", execution.arguments}};
    json["during"] = Json::array();
    for (const std::int64_t promotion : story.during) json["during"].push_back(promotionHandle(promotion));
    return json;
}

/// What it was: an answer that counts, or none.
std::string purposeText(const ExecutionStory& story) {
    const std::string id = executionHandle(story.execution.id);
    if (story.check)
        return fmt::format("{} was the check {} of {}: {}{}\n", id, printable(story.check->check),
                           promotionHandle(story.check->promotion), nameOf(kCauses, story.check->verdict),
                           story.check->reason.empty() ? "" : ", " + printable(story.check->reason));
    if (story.during.empty())
        return fmt::format("{} was a command in {}\n", id, sandboxHandle(story.execution.sandbox));
    std::vector<std::string> names;
    for (const std::int64_t promotion : story.during) names.push_back(promotionHandle(promotion));
    return fmt::format(
        "{} gave no answer that a promotion rests on; it began while {} {} at {} checks: one that was tried again, or "
        "was cut off, or a command beside them\n",
        id, fmt::join(names, ", "), names.size() == 1 ? "was" : "were", names.size() == 1 ? "its" : "their");
}

Result whyExecution(Service& service, Context& context, std::int64_t id) {
    const ExecutionStory story = service.executionStory(id);
    Result result;
    result.data["execution"] = executionHandle(id);
    result.data["run"] = executionJson(story);
    result.text =
        purposeText(story) + fmt::format("  it began {}, in {}: {}\n", formatTime(story.execution.startedAt),
                                         sandboxHandle(story.execution.sandbox), printable(endingOf(story.execution)));
    if (!story.execution.arguments.empty())
        result.text +=
            fmt::format("  it ran {}\n", printable(fmt::format("{}", fmt::join(story.execution.arguments, " "))));
    if (story.check) addStory(service, context, service.story(story.check->promotion).promotion, result);
    for (const std::int64_t promotion : story.during) result.next.push_back("gradus why " + promotionHandle(promotion));
    return result;
}

bool isStageName(Service& service, Context& context, const std::string& words) {
    const StatusReport report = service.status(context.host.directory());
    return std::any_of(report.stages.begin(), report.stages.end(),
                       [&](const StageStatus& stage) { return stage.stage == words; });
}

/// "57" or "#57", the number of an event; a stage may be called so, and a digest may begin so.
std::optional<std::int64_t> eventNumber(Service& service, Context& context, const std::string& words) {
    const bool isMarked = words.starts_with('#');
    const std::string_view digits = std::string_view(words).substr(isMarked ? 1 : 0);
    std::int64_t seq = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seq);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    if (isMarked) return seq;
    if (isStageName(service, context, words) || (parseHandle(words) && !service.hasEvent(seq))) return std::nullopt;
    return seq;
}

Result why(Service& service, Context& context) {
    const auto words = context.arguments.positional("WHAT");
    if (const auto seq = words ? eventNumber(service, context, *words) : std::nullopt)
        return eventResult(service.eventStory(context.host.directory(), *seq), context);
    const auto handle = words ? parseHandle(*words) : std::nullopt;
    if (handle && handle->kind == HandleKind::kExecution) return whyExecution(service, context, handle->number);
    // A stage may be called like the beginning of a digest.
    const bool isStage = words && (!handle || isStageName(service, context, *words));
    if (!isStage && handle &&
        (handle->kind == HandleKind::kChange || handle->kind == HandleKind::kDigestPrefix ||
         handle->kind == HandleKind::kLatest))
        return whyChange(service, context, *words);
    Result result;
    if (isStage) addAdoption(service, context, *words, result);
    if (isStage) addWords(service, context, *words, result);
    try {
        addStory(service, context, service.promotionNamed(context.host.directory(), words), result);
    } catch (const Error& e) {
        const auto& stages = service.engine(context.host.directory()).project().pipeline;
        if (e.code() != ErrorCode::kNotFound || !isStage || stages.findStage(*words) == nullptr) throw;
        result.text += fmt::format("{} holds nothing, and nothing was promoted into it\n", printable(*words));
    }
    return result;
}

void showText(Context& context, const std::string& title, const std::optional<std::string>& log,
              const std::string& reason) {
    if (context.json) return;
    context.lines.text(context.paint(Style::kBold, "── " + title));
    if (log) {
        for (std::size_t at = 0; at < log->size();) {
            const std::size_t end = std::min(log->find('\n', at), log->size());
            context.lines.text(printable(std::string_view(*log).substr(at, end - at)));
            at = end + 1;
        }
    } else if (!reason.empty()) {
        context.lines.text(printable(reason));
    }
    context.lines.flush();
}

void showLog(Service& service, Context& context, const CheckResult& check) {
    showText(context,
             fmt::format("{} ({}, {})", check.check, nameOf(kCheckPhases, check.phase), nameOf(kCauses, check.verdict)),
             service.logOf(check), check.reason);
}

/// What steps printed comes last: the log of one is what it said last, and it may say more.
void showSteps(Service& service, Context& context, const PromotionStory& story, Result& result) {
    result.data["steps"] = Json::array();
    for (const StepRecord& step : story.steps) {
        Json json = stepJson(step);
        json["text"] = service.logOf(step).value_or("");
        result.data["steps"].push_back(std::move(json));
        showText(context, fmt::format("step {} ({})", step.name, nameOf(kStepStates, step.state)), service.logOf(step),
                 step.reason);
    }
}

Result logs(Service& service, Context& context) {
    const Interrupt interrupt;
    const Promotion promotion = service.promotionNamed(context.host.directory(), context.arguments.positional("WHAT"));
    std::size_t shown = 0;
    Result result{.data = {{"promotion", promotionJson(promotion, "")}, {"checks", Json::array()}},
                  .streamed = !context.json};
    while (true) {
        const PromotionStory story = service.story(promotion.id);
        for (; shown < story.checks.size(); ++shown) {
            Json json = resultJson(story.checks[shown]);
            json["text"] = service.logOf(story.checks[shown]).value_or("");
            result.data["checks"].push_back(std::move(json));
            showLog(service, context, story.checks[shown]);
        }
        const bool over = isFinal(story.promotion.state) || story.promotion.state == PromotionState::kWaiting;
        if (over || !context.arguments.flag("follow") || interrupt.token().stop_requested()) {
            showSteps(service, context, story, result);
            if (shown == 0 && story.steps.empty())
                context.progress.text(
                    fmt::format("no check has said anything about {}", promotionHandle(promotion.id)));
            return result;
        }
        std::this_thread::sleep_for(kLookAgain);
    }
}

}  // namespace

std::vector<Verb> whyVerbs(const OpenService& open) {
    const Positional what{"WHAT", "a promotion (p3), a change (c2) or a stage; the newest promotion otherwise", false};
    const Positional any{
        "WHAT", "a promotion (p3), a change (c2), a stage, an execution (e9) or an event (57); the newest otherwise",
        false};
    return {
        {.words = "why",
         .group = Group::kAnswer,
         .summary = "say why something stands where it stands: every gate",
         .examples = {{"gradus why", "the newest promotion"},
                      {"gradus why c2", "what is between a change and its next stage"},
                      {"gradus why staging", "what the stage holds, and who holds it"},
                      {"gradus why 57", "an event of the audit log: what led to it, what came of it"}},
         .positionals = {any},
         .onFrontPage = true,
         .handler = withService(open, why)},
        {.words = "logs",
         .group = Group::kAnswer,
         .summary = "show what a promotion's checks printed",
         .examples = {{"gradus logs p3", "all of it"}, {"gradus logs -f", "as it comes, of the newest one"}},
         .positionals = {what},
         .options = {{.name = "follow", .doc = "go on until the promotion has ended", .letter = 'f'}},
         .handler = withService(open, logs)},
    };
}

}  // namespace gradus
