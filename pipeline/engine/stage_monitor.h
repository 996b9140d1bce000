#pragma once

#include <memory>

#include "pipeline/engine/drive.h"
#include "pipeline/engine/watcher.h"

namespace gradus {

/// What keeps running over one promotion that is through, for as long as its stage says. Holds the promotion's lock:
/// one process at a time.
class StageMonitor {
  public:
    /// Nothing: another process does it, its stage is in the rules no more or has nothing to look at, or holds
    /// something else by now.
    static std::unique_ptr<StageMonitor> take(const EngineProject& project, EngineParts& parts, const Watch& watch);

    const std::string& stage() const { return stage_->name; }
    Milliseconds untilNext() const;
    /// Runs what is due. The promotion that took it back, if that had to be.
    std::optional<StageReport> look(const EngineProgress& progress, const std::stop_token& cancel);
    bool isOver() const { return state_.watch.ended; }
    Monitored state() const;

    /// Puts on record how far it came, if it came further.
    void record(bool ended);

  private:
    StageMonitor(const EngineProject& project, EngineParts& parts, const Stage& stage, const Promotion& promotion,
                 const Watch& watch, SandboxLock lock);
    Milliseconds left() const;
    bool isDisturbed() const;
    /// The stage holds something else by now.
    bool isReplaced();
    void closeGap(const std::vector<std::string>& overdue, const Moment& now);
    std::vector<CheckReport> run(const std::vector<std::string>& names, const EngineProgress& progress,
                                 const std::stop_token& cancel);
    std::optional<StageReport> judge(const std::vector<CheckReport>& reports, const EngineProgress& progress);
    std::string whatFailed(const std::vector<CheckReport>& reports) const;
    /// Why nobody but a person takes it back; empty: it may be.
    std::string whyNotTaken() const;
    std::optional<StageReport> leaveToAPerson(const std::string& reason, const std::string& why);

    const EngineProject* project_;
    EngineParts* parts_;
    const Stage* stage_;
    Monitored state_;
    SandboxLock lock_;
    Watcher watcher_;
    Moment recorded_;
};

}  // namespace gradus
