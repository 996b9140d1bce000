#include <algorithm>

#include "pipeline/engine/ground.h"
#include "pipeline/engine/stage_monitor.h"

namespace gradus {

namespace {

constexpr Milliseconds kLookForMore{5000};

using Monitors = std::vector<std::unique_ptr<StageMonitor>>;

/// Those that are not taken yet.
void takeMonitors(const EngineProject& project, EngineParts& parts, const std::optional<std::string>& stage,
                  Monitors& monitors) {
    const Records& records = parts.store.records();
    for (const Watch& watch : records.watches().monitors(project.id)) {
        if (stage && records.promotion(watch.promotion)->stage != *stage) continue;
        if (auto monitor = StageMonitor::take(project, parts, watch)) monitors.push_back(std::move(monitor));
    }
}

/// One round: what is due is looked at, what is over is put down.
void lookAtAll(Monitors& monitors, MonitorReport& report, const EngineProgress& progress,
               const std::stop_token& cancel) {
    for (const auto& monitor : monitors) {
        if (monitor->untilNext() > Milliseconds(0) || cancel.stop_requested()) continue;
        if (auto back = monitor->look(progress, cancel)) report.takenBack.push_back(std::move(*back));
        if (monitor->isOver()) report.stages.push_back(monitor->state());
    }
    std::erase_if(monitors, [](const auto& monitor) { return monitor->isOver(); });
}

void putDown(const Monitors& monitors, MonitorReport& report) {
    for (const auto& monitor : monitors) {
        monitor->record(false);
        report.stages.push_back(monitor->state());
    }
}

/// Until something is due, or somebody might have promoted something else.
Milliseconds pauseOf(const Monitors& monitors, const std::optional<Milliseconds>& left) {
    Milliseconds pause = std::min(left.value_or(kLookForMore), kLookForMore);
    for (const auto& monitor : monitors)
        if (monitor->untilNext() > Milliseconds(0)) pause = std::min(pause, monitor->untilNext());
    return pause;
}

}  // namespace

MonitorReport Engine::lookWhereDue(const EngineProgress& progress, const std::stop_token& cancel) {
    MonitorReport report;
    Monitors monitors;
    takeMonitors(project_, parts_, std::nullopt, monitors);
    lookAtAll(monitors, report, progress, cancel);
    putDown(monitors, report);
    return report;
}

MonitorReport Engine::monitor(const MonitorWish& wish, const EngineProgress& progress, const std::stop_token& cancel) {
    if (wish.stage) stageNamed(project_, *wish.stage);
    MonitorReport report;
    const Moment began = parts_.clock.moment();
    Monitors monitors;
    while (!cancel.stop_requested()) {
        takeMonitors(project_, parts_, wish.stage, monitors);
        lookAtAll(monitors, report, progress, cancel);
        std::optional<Milliseconds> left;
        if (wish.most) left = *wish.most - elapsed(began, parts_.clock.moment());
        if (monitors.empty() || (left && *left <= Milliseconds(0))) break;
        parts_.sleep(pauseOf(monitors, left), cancel);
    }
    putDown(monitors, report);
    return report;
}

}  // namespace gradus
