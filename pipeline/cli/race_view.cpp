#include "pipeline/cli/race_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>

#include "pipeline/cli/climb_view.h"
#include "policies/language/duration.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::chrono::milliseconds kTick{200};
constexpr std::size_t kNarrow = 100;  // columns that a line takes where nobody knows how many there are

std::string seconds(std::int64_t milliseconds) {
    return fmt::format("{}.{}s", milliseconds / 1000, milliseconds % 1000 / 100);
}

std::string_view markOf(RaceStanding standing) {
    if (standing == RaceStanding::kPassed) return "✓";
    return standing == RaceStanding::kStopped ? "·" : "✗";
}

}  // namespace

std::string standingText(RaceStanding standing, std::optional<Verdict> ended) {
    if (standing == RaceStanding::kFailed && ended == Verdict::kTimeout) return "timed out";
    if (standing == RaceStanding::kFailed && ended == Verdict::kOom) return "out of memory";
    if (standing == RaceStanding::kFailed && ended == Verdict::kLimit) return "over a limit";
    if (standing == RaceStanding::kFailed && ended == Verdict::kKilled) return "crashed";
    return std::string(nameOf(kRaceStandings, standing));
}

std::string timeText(std::int64_t milliseconds) {
    if (milliseconds < 1000) return fmt::format("{}ms", milliseconds);
    if (milliseconds < 60'000) return seconds(milliseconds);
    return formatDuration(Milliseconds(milliseconds / 1000 * 1000));
}

Style styleOf(RaceStanding standing) {
    if (standing == RaceStanding::kPassed) return Style::kGreen;
    return standing == RaceStanding::kStopped ? Style::kDim : Style::kRed;
}

RaceProgress::RaceProgress(Context& context, const std::vector<std::string>& names)
    : context_(context),
      inPlace_(!context.json && context.host.terminal().errIsTerminal && wantsProgress(context.host)) {
    for (const std::string& name : names) {
        rows_.push_back({name});
        nameWidth_ = std::max(nameWidth_, name.size());
    }
    if (!inPlace_) return;
    ticker_ = std::jthread([this](const std::stop_token& done) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!wake.wait_for(lock, done, kTick, [&] { return done.stop_requested(); }) && !done.stop_requested()) {
            const std::lock_guard guard(mutex_);
            repaint();
        }
    });
}

RaceProgress::~RaceProgress() {
    try {
        end();
    } catch (...) {  // whoever read us is gone: nothing is left to be wiped
        painted_ = 0;
    }
}

void RaceProgress::end() {
    ticker_ = {};
    const std::lock_guard guard(mutex_);
    if (painted_ > 0) context_.progress.raw(fmt::format("\x1b[{}F\x1b[J", painted_));
    painted_ = 0;
    inPlace_ = false;
}

void RaceProgress::tell(const RaceEntry& entry, std::string_view what) {
    if (context_.json || !wantsProgress(context_.host)) return;
    const std::lock_guard guard(mutex_);
    const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& one) { return one.name == entry.name; });
    if (row != rows_.end()) note(*row, entry, what);
}

void RaceProgress::note(Row& row, const RaceEntry& entry, std::string_view what) {
    if (what == "started") row.began = std::chrono::steady_clock::now();
    row.phase = what == "started" ? Phase::kRunning : what == "made" ? Phase::kChecking : Phase::kEnded;
    if (row.phase == Phase::kEnded) row.entry = entry;
    if (inPlace_) return repaint();
    if (row.phase != Phase::kChecking) context_.progress.text(plainLine(row));
}

std::string RaceProgress::plainLine(const Row& row) const {
    if (row.phase == Phase::kRunning) return row.name + ": running";
    const RaceEntry& entry = row.entry;
    return fmt::format("{}: {}{}, {}", row.name, standingText(entry.standing, entry.ended),
                       entry.reason.empty() ? "" : " (" + printable(entry.reason) + ")", timeText(entry.wallMs));
}

std::string RaceProgress::lineOf(const Row& row) const {
    const Paint& paint = context_.progress.paint();
    const auto running = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - row.began).count();
    const std::string name = row.name + std::string(nameWidth_ - row.name.size(), ' ');
    if (row.phase == Phase::kWaiting) return paint(Style::kDim, "· " + name + "           waiting");
    if (row.phase != Phase::kEnded)
        return fmt::format("{} {} {:>8}  {}", paint(Style::kCyan, "?"), name, seconds(running),
                           row.phase == Phase::kRunning ? "running" : "checking");
    const RaceEntry& entry = row.entry;
    const std::string standing = standingText(entry.standing, entry.ended);
    std::string line = fmt::format("{} {} {:>8}  {}", paint(styleOf(entry.standing), markOf(entry.standing)), name,
                                   seconds(entry.wallMs), paint(styleOf(entry.standing), standing));
    const std::size_t width = context_.width > 0 ? context_.width : kNarrow;
    const std::size_t used = nameWidth_ + standing.size() + 15;
    if (!entry.reason.empty() && used + 10 < width)
        line += "  " + std::string(cutToWidth(printable(entry.reason), width - used));
    return line;
}

void RaceProgress::repaint() {
    if (!inPlace_) return;
    std::string text = painted_ == 0 ? "" : fmt::format("\x1b[{}F\x1b[J", painted_);
    for (const Row& row : rows_) text += lineOf(row) + "\n";
    painted_ = rows_.size();
    context_.progress.raw(text);
    context_.progress.flush();
}

}  // namespace gradus
