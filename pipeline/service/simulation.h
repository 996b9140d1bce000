#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policies/gate/gate.h"
#include "policies/language/loader.h"
#include "store/model/promotion.h"

namespace gradus {

/// What the gates let a promotion do.
enum class Passage {
    kWaited,   ///< a gate kept it
    kChecked,  ///< it came as far as its checks, which ended it
    kEntered,  ///< it was applied
    kUnknown,  ///< it depends on checks that never ran
};

inline constexpr std::array kPassages{
    Name<Passage>{Passage::kWaited, "waited"},
    Name<Passage>{Passage::kChecked, "checked"},
    Name<Passage>{Passage::kEntered, "entered"},
    Name<Passage>{Passage::kUnknown, "unknown"},
};

struct SimulationWish {
    Time since{};
    RuleFiles rules;  ///< not trusted, and not put in force
};

/// The last decision about one promotion, as it was and as it would have been.
struct SimulatedPromotion {
    Promotion promotion;
    Time at{};
    Passage was = Passage::kWaited;
    Passage would = Passage::kWaited;
    std::vector<GateAnswer> closed;         ///< under the simulated rules
    std::vector<GateAnswer> closedThen;     ///< under those of that time
    std::vector<std::string> neverRan;      ///< checks that the simulated rules demand
    std::vector<std::string> ranOtherwise;  ///< checks that are defined in another way by now
    std::string unclear;                    ///< why nothing can be said; empty: it can

    bool differs() const { return unclear.empty() && would != was; }
};

struct Simulation {
    LoadResult loaded;       ///< without a pipeline: the rules have errors, and nothing was simulated
    bool isInForce = false;  ///< the rules are those that are trusted already
    std::vector<SimulatedPromotion> promotions;  ///< in the order in which they were decided
    std::size_t takenBack = 0;                   ///< undos: no gate is asked for those
};

}  // namespace gradus
