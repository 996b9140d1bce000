#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/service/words.h"
#include "store/model/audit_event.h"
#include "store/model/promotion.h"
#include "store/past_state.h"

namespace gradus {

/// Which moment is asked about: one of the two.
struct PastRequest {
    std::optional<Time> time;
    std::optional<std::int64_t> seq;
    std::optional<std::string> stage;  ///< only this one
};

/// What one stage held.
struct PastStage {
    std::string stage;
    StageState holds;
    std::optional<Promotion> promotion;  ///< that had brought it
    std::optional<std::string> title;    ///< of its change; nothing once redacted
    std::string by;                      ///< who had promoted it
};

struct PastPromotion {
    Promotion promotion;
    std::string reason;
};

/// The rules that were in force.
struct PastRules {
    Digest rules;
    std::string by;
    Time at{};
    bool isKept = false;  ///< their files can still be read
};

struct PastView {
    PastMoment moment;
    EventKind kind = EventKind::kLogStarted;  ///< of the last event
    std::string by;
    std::vector<PastStage> stages;
    std::vector<PastPromotion> unfinished;
    std::vector<WordInForce> words;  ///< approvals among them
    std::optional<PastRules> rules;
};

}  // namespace gradus
