#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/model/clock.h"
#include "store/model/digest.h"
#include "store/model/promotion.h"

namespace gradus {

/// What a verdict is bound to. A verdict counts only for exactly this: another tree, rule, command or environment has
/// another fingerprint.
struct Evidence {
    Digest tree;         ///< the resulting tree that was looked at
    Digest change;       ///< the change set
    Digest base;         ///< the base fingerprint
    Digest rules;        ///< the rules in force
    Digest check;        ///< command, environment and limits of the check
    Digest environment;  ///< kernel, backend and version, guarantees, image

    bool operator==(const Evidence&) const = default;
    Digest fingerprint() const;
};

/// Before the stage is touched, or after.
enum class CheckPhase { kBefore, kAfter };

inline constexpr std::array kCheckPhases{
    Name<CheckPhase>{CheckPhase::kBefore, "before"},
    Name<CheckPhase>{CheckPhase::kAfter, "after"},
};

/// One check's answer about one promotion.
struct CheckResult {
    std::int64_t promotion = 0;
    std::string check;
    Cause verdict = Cause::kErrored;  ///< passed, failed, errored, timed-out, cancelled or inconclusive
    Digest evidence;                  ///< Evidence::fingerprint()
    std::optional<std::int64_t> exitCode;
    std::int64_t wallMs = 0;
    std::optional<Digest> log;  ///< an object
    CheckPhase phase = CheckPhase::kBefore;
    std::optional<std::int64_t> execution;    ///< e90
    std::string reason;                       ///< a line for a person; free text
    std::optional<Digest> asked = {};         ///< all that can be known before it is run: the same question again
    std::optional<Digest> definition = {};    ///< the check and what is demanded of it, without values of the caller's
    std::optional<std::int64_t> reused = {};  ///< the promotion whose answer to the same question this is
    std::optional<Digest> outputs = {};       ///< an object: what it built
    std::optional<Digest> builtOf = {};       ///< the tree and the definition that it was built of
};

/// A yes from before, and when it was given.
struct EarlierProof {
    CheckResult result;
    Time at{};
};

}  // namespace gradus
