#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "pipeline/cli/context.h"
#include "pipeline/engine/engine.h"

namespace gradus {

struct AdoptionTold;

Json stepJson(const StepRecord& step);
std::string stepText(const StepRecord& step, const Paint& paint);
Json stepPlanJson(const StepPlan& step);
Json promotionJson(const Promotion& promotion, const std::string& reason);
Json adoptionJson(const AdoptionTold& told);
Json stageReportJson(const StageReport& report);
Json climbJson(const Climb& climb);
Json decisionJson(const Decision& decision);

/// Closed, and only time or a person opens it.
bool isWaitedFor(const GateAnswer& gate);
/// "hold         held by ada (rule)".
std::string gateText(const GateAnswer& gate);

/// A few lines per stage, for people.
std::string stageText(const StageReport& report, const Paint& paint);
/// What the shell sees of the way that ended there.
Exit exitOf(const StageReport& report);
/// The problem to tell, if it did not end well.
std::optional<Problem> problemOf(const StageReport& report);
/// Whole commands that make sense after it.
/// `isWorkTree`: the stage is the project itself, so a rebase would meet what it met. `goal`: the stage that somebody
/// wanted it in, where that is not the one it is about.
std::vector<std::string> nextAfter(const StageReport& report, bool isWorkTree = false, const std::string& goal = "");

class Service;
/// For verbs that end in a sandbox or a change: it goes into the work tree, or up to a stage, by default the last.
Result applyNamed(Service& service, Context& context, const std::string& what);
Result promoteNamed(Service& service, Context& context, const std::string& what,
                    const std::optional<std::string>& to = {});

/// Throws what they would for their stage; without `to` it is the work tree.
void requireStage(Service& service, const Context& context, const std::optional<std::string>& to);

/// False for a caller who set GRADUS_PROGRESS=none: what is shown while things go on would only be in the way.
bool wantsProgress(const Host& host);

/// What is seen while promotions are driven: on a terminal the stages from left to right and the checks of the one at
/// work, painted anew in place; elsewhere plain lines.
class ClimbView {
  public:
    ClimbView(Context& context, std::vector<std::string> stages);
    ~ClimbView();
    ClimbView(const ClimbView&) = delete;
    ClimbView& operator=(const ClimbView&) = delete;

    EngineProgress progress();
    /// Takes what is painted in place off the screen.
    void clear();

  private:
    struct Row {
        std::string name;
        std::chrono::steady_clock::time_point began;
        std::optional<Cause> verdict;
        std::int64_t wallMs = 0;
        std::string reason;
    };
    void moved(const Promotion& promotion, const std::string& reason);
    void waiting(const StageReport& report, Time next);
    void started(const std::string& check);
    void finished(const CheckReport& report);
    void stepped(const StepRecord& step);
    void repaint();
    std::string header() const;

    Context& context_;
    std::vector<std::string> stages_;
    std::map<std::string, PromotionState> states_;
    std::string stage_;
    std::vector<Row> rows_;
    bool inPlace_;
    std::size_t painted_ = 0;  ///< lines
};

}  // namespace gradus
