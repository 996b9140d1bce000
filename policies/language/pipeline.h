#pragma once

#include <map>
#include <string>
#include <vector>

#include "policies/language/value.h"
#include "store/model/digest.h"
#include "store/model/step.h"

namespace gradus {

/// What is demanded for one stage, with everything that was built upon, tightened and capped, and defaults filled in.
/// Keys are those of the section `policy`.
struct EffectivePolicy {
    std::string name;
    Settings settings;
};

enum class CheckWhen { kBefore, kAfter };

/// A check with its defaults. Keys are those of the section `check` and of its kind; `limits` and `env` include what
/// [sandbox] says.
struct Check {
    std::string name;
    std::string kind;
    CheckWhen when = CheckWhen::kBefore;
    Origin origin;
    Settings settings;
};

/// A stage with its defaults. Keys are those of the section `stage` and of its driver; `soak` and `monitor` are at
/// least the policy's.
struct Stage {
    std::string name;
    std::string driver;
    EffectivePolicy policy;
    std::vector<std::string> checks;         ///< names, in an order in which every check comes after the ones it needs
    std::vector<std::string> monitorChecks;  ///< names of the after checks that keep running
    std::vector<StepPlan> steps;             ///< around the switch, in order
    bool carriesOutputs = false;             ///< takes what its before checks build, beside the tree
    Origin origin;
    Settings settings;
};

/// When stages may be entered; keys of the section `window`.
struct Window {
    Origin origin;
    Settings settings;
};

/// A pipeline file and its policies, understood: a plain value that says what holds. Settings carry where each value
/// came from.
struct Pipeline {
    std::string name;
    std::vector<Stage> stages;
    std::map<std::string, Check> checks;
    Settings sandbox;
    std::vector<Window> windows;
    std::map<std::string, Settings> services;
    std::map<std::string, Settings> roles;

    const Stage* findStage(std::string_view stageName) const;
};

/// One rule as people read it: `policy.production.soak`, `"10m"`, `shipped policy production`.
struct EffectiveRule {
    std::string key;
    std::string value;
    std::string origin;
};

/// Every rule in force, by section and name.
std::vector<EffectiveRule> effectiveRules(const Pipeline& pipeline);

/// Changes exactly when a rule in force does: not with comments, the order of tables and keys, or the way a value is
/// written ("90s", "1m30s").
Digest rulesDigest(const Pipeline& pipeline);

}  // namespace gradus
