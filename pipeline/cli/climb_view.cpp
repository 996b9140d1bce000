#include "pipeline/cli/climb_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "pipeline/cli/counted.h"
#include "pipeline/cli/envelope.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

using State = PromotionState;

struct StateFace {
    State state;
    Style style;
    std::string_view mark;
};
constexpr std::array kFaces{
    StateFace{State::kQueued, Style::kDim, "·"},         StateFace{State::kWaiting, Style::kYellow, "…"},
    StateFace{State::kChecking, Style::kCyan, "?"},      StateFace{State::kApplying, Style::kCyan, ">"},
    StateFace{State::kVerifying, Style::kCyan, "?"},     StateFace{State::kSoaking, Style::kCyan, "~"},
    StateFace{State::kPromoted, Style::kGreen, "✓"},     StateFace{State::kRejected, Style::kRed, "✗"},
    StateFace{State::kSuperseded, Style::kDim, "·"},     StateFace{State::kStale, Style::kRed, "✗"},
    StateFace{State::kExpired, Style::kRed, "✗"},        StateFace{State::kCancelled, Style::kYellow, "✗"},
    StateFace{State::kRollingBack, Style::kYellow, "<"}, StateFace{State::kRolledBack, Style::kYellow, "↩"},
    StateFace{State::kStuck, Style::kRed, "!"},
};

const StateFace& faceOf(State state) {
    return *std::find_if(kFaces.begin(), kFaces.end(), [&](const StateFace& face) { return face.state == state; });
}

std::string seconds(std::int64_t milliseconds) {
    return fmt::format("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100);
}

Style styleOf(Cause verdict) {
    if (verdict == Cause::kPassed) return Style::kGreen;
    return verdict == Cause::kFailed ? Style::kRed : Style::kYellow;
}

std::string_view markOf(Cause verdict) { return verdict == Cause::kPassed ? "✓" : "✗"; }

std::string checkLine(const CheckReport& report, const Paint& paint) {
    const CheckAnswer& answer = report.answer;
    std::string line = fmt::format("  {} {:<16} {:>7}", paint(styleOf(answer.verdict), markOf(answer.verdict)),
                                   printable(report.check), seconds(answer.wallMs));
    if (answer.verdict != Cause::kPassed)
        line += fmt::format("  {}: {}", nameOf(kCauses, answer.verdict), printable(answer.reason));
    if (report.reused) line += fmt::format("  as {} proved", promotionHandle(report.reused->result.promotion));
    return line + "\n";
}

/// "2 files built", "2 files, as p3 built them".
std::string outputsText(const StageReport& report) {
    if (report.outputs == 0) return {};
    const auto earlier = std::find_if(report.before.begin(), report.before.end(), [](const CheckReport& check) {
        return check.builder() && check.builder()->result.outputs;
    });
    if (earlier == report.before.end()) return fmt::format("    {} built\n", counted(report.outputs, "file"));
    return fmt::format("    {}, as {} built them\n", counted(report.outputs, "file"),
                       promotionHandle(earlier->builder()->result.promotion));
}

/// The end of what a failed check printed, where the reason is mostly found.
std::string logTail(const CheckReport& report) {
    constexpr std::size_t kLines = 12;
    if (report.answer.verdict == Cause::kPassed || report.answer.log.empty()) return {};
    std::string_view log = report.answer.log;
    while (!log.empty() && log.back() == '\n') log.remove_suffix(1);
    std::size_t begin = log.size();
    for (std::size_t lines = 0; lines < kLines && begin != 0 && begin != std::string_view::npos; ++lines)
        begin = log.rfind('\n', begin - 1) == std::string_view::npos ? 0 : log.rfind('\n', begin - 1);
    std::string text;
    for (std::size_t at = begin == 0 ? 0 : begin + 1; at < log.size();) {
        const std::size_t end = std::min(log.find('\n', at), log.size());
        text += "      | " + printable(log.substr(at, end - at)) + "\n";
        at = end + 1;
    }
    return text;
}

Style styleOf(StepState state) {
    if (state == StepState::kDone) return Style::kGreen;
    if (state == StepState::kUndone || state == StepState::kNotRun) return Style::kDim;
    return isInDoubt(state) ? Style::kYellow : Style::kRed;
}

std::string_view markOf(StepState state) {
    if (state == StepState::kDone) return "✓";
    if (state == StepState::kUndone) return "↩";
    if (state == StepState::kNotRun) return "·";
    return isInDoubt(state) ? "?" : "✗";
}

}  // namespace

std::string stepText(const StepRecord& step, const Paint& paint) {
    std::string line = fmt::format("  {} step {:<11} {:>7}", paint(styleOf(step.state), markOf(step.state)),
                                   printable(step.name), step.wallMs ? seconds(*step.wallMs) : "");
    if (step.state != StepState::kDone) line += fmt::format("  {}", nameOf(kStepStates, step.state));
    if (!step.reason.empty()) line += ": " + printable(step.reason);
    return line + "\n";
}

bool isWaitedFor(const GateAnswer& gate) { return gate.state == GateState::kClosed && !gate.instead; }

std::string gateText(const GateAnswer& gate) {
    return fmt::format("{:<12} {}{}", nameOf(kGates, gate.gate), printable(gate.reason),
                       gate.rule.empty() ? "" : " (" + printable(gate.rule) + ")");
}

std::string stageText(const StageReport& report, const Paint& paint) {
    const Promotion& promotion = report.promotion;
    const bool isUnopened = promotion.id == 0;
    const StateFace& face = faceOf(isUnopened ? State::kRejected : promotion.state);
    const std::string state = isUnopened       ? "not entered"
                              : report.already ? "already there"
                              : promotion.undoes && report.succeeded()
                                  ? "taken back"
                                  : std::string(nameOf(kPromotionStates, promotion.state));
    std::string text =
        isUnopened ? fmt::format("{} {:<12} {}\n", paint(face.style, face.mark), printable(promotion.stage), state)
                   : fmt::format("{} {:<12} {:<14} {}\n", paint(face.style, face.mark), printable(promotion.stage),
                                 state, promotionHandle(promotion.id));
    for (const CheckReport& check : report.before) text += checkLine(check, paint) + logTail(check);
    text += outputsText(report);
    for (const StepRecord& step : report.steps) text += stepText(step, paint);
    for (const CheckReport& check : report.after) text += checkLine(check, paint) + logTail(check);
    for (const MergeConflict& conflict : report.mergeConflicts)
        text += fmt::format("    {}: {}\n", printable(conflict.path), printable(conflict.detail));
    for (const Conflict& conflict : report.conflicts) text += fmt::format("    {}\n", describe(conflict));
    const bool said = !report.mergeConflicts.empty() || !report.conflicts.empty();
    const bool waits = report.gates && promotion.state == State::kWaiting;
    const bool closed = waits && std::any_of(report.gates->gates.begin(), report.gates->gates.end(), isWaitedFor);
    if (!report.reason.empty() && !said && !closed && !report.fault && promotion.state != State::kRejected)
        text += fmt::format("    {}\n", printable(report.reason));
    if (report.rollback && report.rollback->wroteNothing && promotion.undoes)
        text += fmt::format("    nothing to take back in {}: what {} changes was there before it came; it stays\n",
                            printable(promotion.stage), changeHandle(promotion.change));
    if (report.rollback)
        for (const Kept& kept : report.rollback->kept)
            text += fmt::format("    kept {}: {}\n", printable(kept.path), printable(kept.reason));
    if (waits)
        for (const GateAnswer& gate : report.gates->gates)
            if (isWaitedFor(gate)) text += "    " + gateText(gate) + "\n";
    for (const std::string& note : report.notes) text += fmt::format("    note: {}\n", printable(note));
    for (const StageReport& more : report.also) text += stageText(more, paint);
    return text;
}

bool wantsProgress(const Host& host) { return host.variable("GRADUS_PROGRESS").value_or("") != "none"; }

ClimbView::ClimbView(Context& context, std::vector<std::string> stages)
    : context_(context), stages_(std::move(stages)), inPlace_(!context.json && context.host.terminal().errIsTerminal) {}

ClimbView::~ClimbView() {
    try {
        clear();
    } catch (...) {  // whoever read us is gone: nothing is left to be wiped
        painted_ = 0;
    }
}

EngineProgress ClimbView::progress() {
    if (context_.json || !wantsProgress(context_.host)) return {};
    EngineProgress progress;
    progress.moved = [this](const Promotion& promotion, const std::string& reason) { moved(promotion, reason); };
    progress.waiting = [this](const StageReport& report, Time next) { waiting(report, next); };
    progress.driving = [this](const Promotion& promotion, std::size_t number, std::size_t of) {
        // A single one is seen by itself.
        if (of < 2) return;
        clear();
        context_.progress.text(fmt::format("{} of {}: {} ({}) into {}", number, of, promotionHandle(promotion.id),
                                           changeHandle(promotion.change), printable(promotion.stage)));
        context_.progress.flush();
    };
    progress.stepped = [this](const StepRecord& step) { stepped(step); };
    progress.checks.started = [this](const Check& check) { started(check.name); };
    progress.checks.finished = [this](const CheckReport& report) { finished(report); };
    progress.checks.output = [this](const Check&, Stream, std::string_view) { repaint(); };
    return progress;
}

void ClimbView::moved(const Promotion& promotion, const std::string& reason) {
    if (stage_ != promotion.stage) rows_.clear();
    stage_ = promotion.stage;
    states_[promotion.stage] = promotion.state;
    if (!inPlace_)
        context_.progress.text(fmt::format("{} {}: {}{}", promotionHandle(promotion.id), promotion.stage,
                                           promotion.undoes && promotion.state == State::kPromoted
                                               ? "taken back"
                                               : nameOf(kPromotionStates, promotion.state),
                                           reason.empty() ? "" : " (" + printable(reason) + ")"));
    repaint();
}

void ClimbView::waiting(const StageReport& report, Time next) {
    std::string what;
    for (const GateAnswer& gate : report.gates ? report.gates->gates : std::vector<GateAnswer>{})
        if (isWaitedFor(gate)) what += fmt::format("{}{}", what.empty() ? "" : ", ", nameOf(kGates, gate.gate));
    clear();
    context_.progress.text(fmt::format("{} {}: waits for {} until {}", promotionHandle(report.promotion.id),
                                       report.promotion.stage, what.empty() ? "the target" : what, formatTime(next)));
    context_.progress.flush();
}

void ClimbView::started(const std::string& check) {
    rows_.push_back({check, std::chrono::steady_clock::now(), std::nullopt, 0, {}});
    repaint();
}

void ClimbView::finished(const CheckReport& report) {
    for (Row& row : rows_) {
        if (row.name != report.check || row.verdict) continue;
        row.verdict = report.answer.verdict;
        row.wallMs = report.answer.wallMs;
        row.reason = report.answer.reason;
        break;
    }
    if (!inPlace_)
        context_.progress.text(fmt::format("  {} {} {}", printable(report.check),
                                           nameOf(kCauses, report.answer.verdict), seconds(report.answer.wallMs)));
    repaint();
}

void ClimbView::stepped(const StepRecord& step) {
    const std::string name = "step " + step.name;
    if (isInDoubt(step.state)) {
        rows_.push_back({name, std::chrono::steady_clock::now(), std::nullopt, 0, {}});
    } else if (const auto row =
                   std::find_if(rows_.rbegin(), rows_.rend(), [&](const Row& r) { return r.name == name; });
               row != rows_.rend()) {
        const bool isWell = step.state == StepState::kDone || step.state == StepState::kUndone;
        row->verdict = isWell ? Cause::kPassed : Cause::kFailed;
        row->wallMs = step.wallMs.value_or(0);
        row->reason = step.reason;
    }
    if (!inPlace_)
        context_.progress.text(fmt::format("  {} {}{}", printable(name), nameOf(kStepStates, step.state),
                                           step.reason.empty() ? "" : ": " + printable(step.reason)));
    repaint();
}

std::string ClimbView::header() const {
    const Paint& paint = context_.progress.paint();
    std::string line;
    for (const std::string& stage : stages_) {
        const auto state = states_.find(stage);
        const StateFace face =
            state == states_.end() ? StateFace{State::kQueued, Style::kDim, "·"} : faceOf(state->second);
        line += (line.empty() ? "" : " ── ") + paint(face.style, fmt::format("{} {}", face.mark, stage));
    }
    return line;
}

void ClimbView::clear() {
    if (!inPlace_ || painted_ == 0) return;
    context_.progress.raw(fmt::format("\x1b[{}F\x1b[J", painted_));
    context_.progress.flush();
    painted_ = 0;
}

void ClimbView::repaint() {
    if (!inPlace_) return;
    std::string text = painted_ == 0 ? "" : fmt::format("\x1b[{}F\x1b[J", painted_);
    const Paint& paint = context_.progress.paint();
    text += header() + "\n";
    for (const Row& row : rows_) {
        const auto running =
            std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - row.began);
        const Style style = row.verdict ? styleOf(*row.verdict) : Style::kCyan;
        text += fmt::format("  {} {:<16} {:>7}\n", paint(style, row.verdict ? markOf(*row.verdict) : "?"),
                            printable(row.name), seconds(row.verdict ? row.wallMs : running.count()));
    }
    painted_ = rows_.size() + 1;
    context_.progress.raw(text);
    context_.progress.flush();
}

}  // namespace gradus
