#include "pipeline/engine/verified.h"

#include <algorithm>

#include "pipeline/engine/check_answer.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

using State = PromotionState;

struct Revocation {
    Time at{};
    std::string because;
};

/// Everything that was ever tried with one change, and what of it still stands.
class History {
  public:
    History(const EngineProject& project, const Records& records, const Change& change)
        : project_(project),
          records_(records),
          change_(change),
          all_(records.promotionsOf(change.id)),
          vetoes_(records.words().vetoes(project.id)) {}

    const std::vector<Promotion>& all() const { return all_; }

    bool isYes(const Promotion& promotion) const {
        return promotion.state == State::kPromoted && !promotion.undoes && isSamePatch(promotion);
    }

    std::optional<Revocation> revoked(const Promotion& promotion) const {
        for (const Promotion& later : all_) {
            if (later.undoes == promotion.id && later.state == State::kPromoted)
                return Revocation{later.movedAt, "it was taken back"};
            if (isNoSince(later, promotion))
                return Revocation{later.movedAt, fmt::format("{} failed there since", promotionHandle(later.id))};
        }
        if (const Veto* veto = vetoOf(promotion.stage)) return Revocation{veto->at, "it was vetoed there"};
        return outgrown(promotion);
    }

  private:
    // Merging a change onto a stage gives it a new revision with the same patch: what was proven of the patch counts.
    bool isSamePatch(const Promotion& promotion) const {
        if (promotion.revision == change_.revision) return true;
        const auto other = records_.change(promotion.change, promotion.revision);
        return other && other->patch == change_.patch;
    }

    // Only a no counts: who could not judge has taken nothing back.
    bool isNoSince(const Promotion& later, const Promotion& yes) const {
        const bool ended = later.state == State::kRejected || later.state == State::kRolledBack;
        const bool isNo = later.cause == Cause::kFailed || later.cause == Cause::kTimedOut;
        return later.id > yes.id && later.stage == yes.stage && !later.undoes && ended && isNo && isSamePatch(later);
    }

    const Veto* vetoOf(const std::string& stage) const {
        const auto found = std::find_if(vetoes_.begin(), vetoes_.end(), [&](const Veto& veto) {
            const bool same = veto.changeSet == change_.changeSet || veto.patch == change_.patch;
            return same && (!veto.stage || *veto.stage == stage);
        });
        return found == vetoes_.end() ? nullptr : &*found;
    }

    // Under the same rules nothing more can be demanded; fewer or looser demands take nothing back either.
    std::optional<Revocation> outgrown(const Promotion& promotion) const {
        const Stage* stage = project_.pipeline.findStage(promotion.stage);
        if (stage == nullptr || promotion.rules == project_.rules) return std::nullopt;
        const auto results = records_.checkResults(promotion.id);
        for (const std::string& name : stage->checks) {
            const Digest definition = checkDefinition(*stage, project_.pipeline.checks.at(name));
            const bool isProven = std::any_of(results.begin(), results.end(), [&](const CheckResult& result) {
                return result.check == name && result.verdict == Cause::kPassed && result.definition == definition;
            });
            if (isProven) continue;
            const auto trusted = records_.trustedRules(project_.id);
            return Revocation{trusted ? trusted->at : promotion.movedAt,
                              fmt::format("the rules changed since: '{}' was not asked like that", name)};
        }
        return std::nullopt;
    }

    const EngineProject& project_;
    const Records& records_;
    const Change& change_;
    std::vector<Promotion> all_;
    std::vector<Veto> vetoes_;
};

}  // namespace

std::vector<VerifiedFact> verifiedFacts(const EngineProject& project, const Records& records, const Change& change) {
    const History history(project, records, change);
    std::vector<VerifiedFact> facts;
    for (const Promotion& promotion : history.all()) {
        if (!history.isYes(promotion)) continue;
        VerifiedFact fact{promotion.stage, change.revision, promotion.movedAt, std::nullopt, {}, promotion.id};
        if (auto revocation = history.revoked(promotion)) {
            fact.revokedAt = revocation->at;
            fact.revokedBecause = std::move(revocation->because);
        }
        facts.push_back(std::move(fact));
    }
    return facts;
}

std::optional<Promotion> standingIn(const EngineProject& project, const Records& records, std::int64_t change,
                                    const std::string& stage) {
    const auto latest = records.change(change);
    if (!latest) return std::nullopt;
    const History history(project, records, *latest);
    const auto& all = history.all();
    const auto newest = std::find_if(all.rbegin(), all.rend(), [&](const Promotion& promotion) {
        return promotion.stage == stage && history.isYes(promotion);
    });
    if (newest == all.rend() || history.revoked(*newest)) return std::nullopt;
    return *newest;
}

}  // namespace gradus
