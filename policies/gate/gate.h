#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/gate/facts.h"
#include "policies/language/pipeline.h"
#include "policies/language/time_zone.h"
#include "store/model/names.h"

namespace gradus {

/// Everything that can be between a change and a stage; docs/gates.md says what each asks.
enum class Gate {
    kHalt,
    kQuarantine,
    kVeto,
    kHold,
    kPin,
    kVerified,
    kWindow,
    kQueue,
    kFreshness,
    kEvidence,
    kCeiling,
    kRules,
    kProtectedPaths,
    kHazards,
    kTests,
    kRisk,
    kBudget,
    kAlone,
    kSteps,
    kApprovals,
};

inline constexpr std::array kGates{
    Name<Gate>{Gate::kHalt, "halt"},
    Name<Gate>{Gate::kQuarantine, "quarantine"},
    Name<Gate>{Gate::kVeto, "veto"},
    Name<Gate>{Gate::kHold, "hold"},
    Name<Gate>{Gate::kPin, "pin"},
    Name<Gate>{Gate::kVerified, "verified"},
    Name<Gate>{Gate::kWindow, "window"},
    Name<Gate>{Gate::kQueue, "queue"},
    Name<Gate>{Gate::kFreshness, "freshness"},
    Name<Gate>{Gate::kEvidence, "evidence"},
    Name<Gate>{Gate::kCeiling, "ceiling"},
    Name<Gate>{Gate::kRules, "rules"},
    Name<Gate>{Gate::kProtectedPaths, "protected-paths"},
    Name<Gate>{Gate::kHazards, "hazards"},
    Name<Gate>{Gate::kTests, "tests"},
    Name<Gate>{Gate::kRisk, "risk"},
    Name<Gate>{Gate::kBudget, "budget"},
    Name<Gate>{Gate::kAlone, "alone"},
    Name<Gate>{Gate::kSteps, "steps"},
    Name<Gate>{Gate::kApprovals, "approvals"},
};

enum class GateState { kOpen, kClosed, kNotApplicable };

inline constexpr std::array kGateStates{
    Name<GateState>{GateState::kOpen, "open"},
    Name<GateState>{GateState::kClosed, "closed"},
    Name<GateState>{GateState::kNotApplicable, "not-applicable"},
};

/// What can be done about a promotion now.
enum class NextStep {
    kApply,      ///< every gate is open and what would be applied was checked
    kCheck,      ///< the before checks have to run (again); people are asked afterwards
    kMerge,      ///< files that the change touches moved: merge into a new revision and check that
    kWait,       ///< a gate is closed that only time or a person opens
    kSupersede,  ///< ends: a later revision took its place
    kStale,      ///< ends: it no longer fits what the stage holds
};

inline constexpr std::array kNextSteps{
    Name<NextStep>{NextStep::kApply, "apply"},         Name<NextStep>{NextStep::kCheck, "check"},
    Name<NextStep>{NextStep::kMerge, "merge"},         Name<NextStep>{NextStep::kWait, "wait"},
    Name<NextStep>{NextStep::kSupersede, "supersede"}, Name<NextStep>{NextStep::kStale, "stale"},
};

/// How far an approval helps at one gate.
struct ApprovalUse {
    std::int64_t approval = 0;
    Time until{};         ///< when it counts no more there
    bool lapsed = false;  ///< that is over
};

/// What one gate says, and all that somebody who waits at it needs to know.
struct GateAnswer {
    Gate gate = Gate::kHalt;
    GateState state = GateState::kNotApplicable;
    std::string reason;                ///< one line
    std::string rule;                  ///< where it is written: "gradus.toml:12:9", "shipped policy staging"
    std::optional<Time> since;         ///< of a closed one
    std::optional<Time> lastWord;      ///< of one that people's words close: when the newest of them was said
    std::optional<Time> next;          ///< when `state` becomes another by itself
    std::vector<std::string> unblock;  ///< who can open a closed one: "any person but the author", "time"
    std::string overriddenBy;          ///< the person whose word opened it; empty: nobody's
    bool everywhere = false;           ///< a word about every project closes it
    bool needsPerson = false;          ///< closed, and one more consent is all that it wants
    bool ask = false;                  ///< needsPerson, and nothing else is in the way: people should be asked now
    /// Of a closed one that says what to do instead of waiting.
    std::optional<NextStep> instead;
    std::vector<ApprovalUse> uses;  ///< of the approvals that say yes to what it asks
};

/// What came of one approval.
struct ApprovalAnswer {
    std::int64_t id = 0;
    bool counts = false;
    std::string why;  ///< why it does not
    Actor by;
    Time at{};                    ///< when it was given
    std::optional<Time> expired;  ///< when it ended, if that is why
};

struct Decision {
    NextStep step = NextStep::kWait;
    std::vector<GateAnswer> gates;  ///< every gate, in the order of kGates
    std::vector<ApprovalAnswer> approvals;
    std::optional<Time> next;  ///< the earliest time at which a gate changes by itself

    const GateAnswer& at(Gate gate) const;
    bool asks() const;
};

/// May this promotion enter the stage, and if not, why not and what now? Pure: the same values give the same answer, in
/// whatever order the facts are. `stage` is one of `pipeline.stages` or the built-in one of a project without a file;
/// a window in a zone that is not among `zones` is closed.
Decision decide(const Facts& facts, const Stage& stage, const Pipeline& pipeline, const Zones& zones, Time now);

/// Going back is always allowed: no gate applies, nobody is asked, whatever the facts are.
Decision decideRollback(const Facts& facts);

/// The roles that a person holds: those whose section names the person or one of its system groups, and each group
/// that has no section of its name.
std::vector<std::string> rolesHeld(const Pipeline& pipeline, const std::string& person,
                                   const std::vector<std::string>& systemGroups);

}  // namespace gradus
