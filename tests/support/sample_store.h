#pragma once

#include "store/store.h"
#include "tests/support/scratch.h"

namespace gradus::test {

inline Digest someDigest(std::string_view what) { return sha256(what); }

inline Submission someSubmission(std::string title = "Fix the login") {
    return {someDigest("set " + title),
            someDigest("base"),
            someDigest("patch " + title),
            std::move(title),
            {"bug"},
            std::nullopt};
}

/// A store in a scratch directory, with time and chance held still.
struct SampleStore {
    ScratchDirectory directory;
    FakeClock clock;
    FakeRandom random;
    StateDirectory state{directory / "state"};

    Store open() {
        return Store::openForWriting(state, {.clock = clock, .random = random, .lockPatience = Milliseconds(2000)});
    }
    std::optional<Store> openForReading() { return Store::openForReading(state, {.clock = clock, .random = random}); }
};

/// What a change that climbs four stages leaves behind: 1 submission, then 8 events per stage, in the transactions in
/// which the engine commits them.
struct Climb {
    ActorId actor = 0;
    std::int64_t project = 0;

    static Climb begin(Store& store) {
        Climb climb;
        store.write([&](Writer& w) {
            climb.actor = w.actor({ActorKind::kAgent, "fixer"});
            climb.project = w.project({"/srv/shop", 2049, 4711}, climb.actor);
        });
        return climb;
    }

    void stage(Writer& w, std::int64_t change, const std::string& stage, PromotionState end) const {
        using S = PromotionState;
        const std::int64_t id = w.openPromotion({project, change, 1, stage, someDigest("rules"), std::nullopt}, actor);
        const auto move = [&](S from, S to, Cause cause = Cause::kProceeded) {
            w.movePromotion({id, from, to, cause}, actor);
        };
        move(S::kQueued, S::kWaiting);
        move(S::kWaiting, S::kChecking);
        const bool good = end != S::kRejected;
        w.recordCheck({id, "unit", good ? Cause::kPassed : Cause::kFailed, someDigest("evidence"), good ? 0 : 1, 1234,
                       someDigest("log")},
                      actor);
        if (!good) return move(S::kChecking, S::kRejected, Cause::kFailed);
        move(S::kChecking, S::kApplying, Cause::kPassed);
        move(S::kApplying, S::kVerifying);
        if (end == S::kRolledBack) {
            move(S::kVerifying, S::kRollingBack, Cause::kFailed);
            return move(S::kRollingBack, S::kRolledBack);
        }
        move(S::kVerifying, S::kSoaking, Cause::kPassed);
        move(S::kSoaking, S::kPromoted, Cause::kPassed);
    }

    std::int64_t whole(Writer& w, const std::string& title) const {
        const std::int64_t change = w.submit(project, actor, someSubmission(title));
        for (const char* name : {"sandbox", "local", "staging", "production"})
            stage(w, change, name, PromotionState::kPromoted);
        return change;
    }
};

}  // namespace gradus::test
