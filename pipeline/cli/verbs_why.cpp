#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/context.h"
#include "pipeline/cli/interrupt.h"
#include "pipeline/cli/verbs.h"
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
    return json;
}

std::string resultText(const CheckResult& check, const Paint& paint) {
    const bool passed = check.verdict == Cause::kPassed;
    std::string line = fmt::format("  {} {:<7} {:<16}", paint(passed ? Style::kGreen : Style::kRed, passed ? "✓" : "✗"),
                                   nameOf(kCheckPhases, check.phase), printable(check.check));
    if (!passed) line += fmt::format(" {}: {}", nameOf(kCauses, check.verdict), printable(check.reason));
    return line + "\n";
}

std::string holdText(const ChangeHold& hold) {
    return fmt::format("  held: automation does not bring it into {} again ({})\n", printable(hold.stage),
                       printable(hold.reason.value_or("no reason is kept")));
}

/// Why it waits now, which need not be why it waited when it was last moved.
void addGates(Service& service, Context& context, const Promotion& promotion, Result& result) {
    if (promotion.state != PromotionState::kWaiting) return;
    for (const StagePlan& plan : service.engine(context.host.directory()).plan(promotion.change, promotion.stage)) {
        if (plan.stage != promotion.stage) continue;
        result.data["gates"] = decisionJson(plan.gates);
        for (const GateAnswer& gate : plan.gates.gates) {
            if (!isWaitedFor(gate)) continue;
            std::string who;
            for (const std::string& name : gate.unblock) who += (who.empty() ? "" : ", ") + name;
            result.text += fmt::format("  closed: {}: {}\n    rule  {}\n", nameOf(kGates, gate.gate),
                                       printable(gate.reason), printable(gate.rule));
            if (gate.since) result.text += fmt::format("    since {}\n", formatTime(*gate.since));
            if (gate.next) result.text += fmt::format("    next  {}\n", formatTime(*gate.next));
            if (!who.empty()) result.text += fmt::format("    opens {}\n", printable(who));
        }
    }
}

Result why(Service& service, Context& context) {
    const Promotion promotion = service.promotionNamed(context.host.directory(), context.arguments.positional("WHAT"));
    const PromotionStory story = service.story(promotion.id);
    Result result;
    result.data["promotion"] = promotionJson(promotion, story.reason);
    result.data["change"] = {{"id", changeHandle(story.change.id)},
                             {"revision", story.change.revision},
                             {"title", story.change.title ? Json(*story.change.title) : Json()},
                             {"by", story.by}};
    result.data["checks"] = Json::array();
    result.text = fmt::format(
        "{} is {}{}\n  {}.{} {} by {}, into {}, {}\n", promotionHandle(promotion.id),
        nameOf(kPromotionStates, promotion.state), story.reason.empty() ? "" : ": " + printable(story.reason),
        changeHandle(promotion.change), promotion.revision, printable(story.change.title.value_or("(no title)")),
        printable(story.by), printable(promotion.stage), formatTime(promotion.movedAt));
    for (const CheckResult& check : story.checks) {
        result.data["checks"].push_back(resultJson(check));
        result.text += resultText(check, context.paint);
    }
    if (story.hold) {
        result.data["hold"] = story.hold->reason.value_or("");
        result.text += holdText(*story.hold);
    }
    addGates(service, context, promotion, result);
    result.next = {"gradus logs " + promotionHandle(promotion.id), "gradus show " + changeHandle(promotion.change)};
    return result;
}

void showLog(Service& service, Context& context, const CheckResult& check) {
    if (context.json) return;
    context.lines.text(context.paint(
        Style::kBold,
        fmt::format("── {} ({}, {})", check.check, nameOf(kCheckPhases, check.phase), nameOf(kCauses, check.verdict))));
    if (const auto log = service.logOf(check)) {
        for (std::size_t at = 0; at < log->size();) {
            const std::size_t end = std::min(log->find('\n', at), log->size());
            context.lines.text(printable(std::string_view(*log).substr(at, end - at)));
            at = end + 1;
        }
    } else if (!check.reason.empty()) {
        context.lines.text(printable(check.reason));
    }
    context.lines.flush();
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
        if (over || !context.arguments.flag("follow") || interrupt.token().stop_requested()) return result;
        std::this_thread::sleep_for(kLookAgain);
    }
}

}  // namespace

std::vector<Verb> whyVerbs(const OpenService& open) {
    const Positional what{"WHAT", "a promotion (p3), a change (c2) or a stage; the newest promotion otherwise", false};
    return {
        {.words = "why",
         .group = Group::kAnswer,
         .summary = "say why a promotion stands where it stands",
         .examples = {{"gradus why", "the newest one"}, {"gradus why staging", "what the stage holds"}},
         .positionals = {what},
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
