#pragma once

#include <functional>

#include "pipeline/engine/gather_facts.h"

namespace gradus {

/// What was proven counts for the same revision on the same tree under the same rules.
std::optional<CheckedFact> provenFor(const Promotion& promotion, std::int64_t revision, const Digest& base,
                                     const Digest& rules);

/// At work, from its checks to its end: it has its turn.
bool isUnderWay(PromotionState state);

/// Promotions into the stage that are not at an end, without those that take something back: under way first, then in
/// the order of their places.
std::vector<Promotion> lineOf(const Records& records, std::int64_t project, const std::string& stage);

/// Shows those that wait for a stage, in the order of their places and few at a time: most of a long line is never
/// looked at. Ends when `visit` says that this is enough.
void walkLine(const Records& records, std::int64_t project, const std::string& stage,
              const std::function<bool(const Promotion&)>& visit);

/// Nothing but its turn is in the way: neither time nor a person.
bool isReady(const Decision& decision);
/// Its turn is what it waits for, or what comes before people are asked.
bool waitsForItsTurn(const Decision& decision);

/// Who is before it, as far as that is told, and what took its place. One that waits for something else than its turn
/// is before nobody.
void addQueue(const FactsRequest& request, const Zones& zones, Facts& facts);

/// How long it waited, whatever was done to the clock.
Milliseconds waited(const Promotion& promotion, const Moment& now);
/// When it has waited too long, by the clock as it is now.
Time expiresAt(const Promotion& promotion, Milliseconds limit, const Moment& now);
/// `wait-limit` of the stage's policy; of a stage that the rules do not have any more, the language's own.
Milliseconds waitLimit(const Pipeline& pipeline, const std::string& stage);

}  // namespace gradus
