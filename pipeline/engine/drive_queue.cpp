#include "pipeline/engine/drive.h"
#include "pipeline/engine/queue.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

// Going back is never refused: only what enters has a place.
void Drive::refuseIfFull(const Records& records) const {
    if (!takesTarget()) return;
    const Value& limit = *stage_.policy.settings.find("queue");
    const std::int64_t others = records.lineLength(project_.id, stage_.name) - (replaced_ ? 1 : 0);
    if (others < limit.number) return;
    throw Error(ErrorCode::kBusy,
                "the queue of {} is full: {} wait or are under way, and its policy lets no more (queue "
                "= {}, {})",
                stage_.name, others, limit.number, limit.origin.text())
        .hint(fmt::format("try again when one has landed, or end one that nobody needs: gradus cancel {}",
                          promotionHandle(lineOf(records, project_.id, stage_.name).back().id)));
}

// Of two processes that want the same, one was faster.
void Drive::refuseIfTwice(const Records& records, const Change& change) const {
    for (const Promotion& other : records.unfinishedOf(change.id)) {
        if (other.stage != stage_.name || other.undoes || other.revision != change.revision) continue;
        const std::string id = promotionHandle(other.id);
        throw Error(ErrorCode::kBusy, "{} is on its way into {} as {}", changeHandle(change.id), stage_.name, id)
            .hint(fmt::format("see how far it is: gradus why {}", id));
    }
}

void Drive::keepTurn(const Records& records) const {
    if (!takesTarget()) return;
    for (const Promotion& other : records.atWork(project_.id, stage_.name))
        if (other.id != report_.promotion.id && isUnderWay(other.state))
            throw Error(ErrorCode::kBusy, "{} came first", promotionHandle(other.id));
}

void Drive::supersede(Writer& writer, ActorId actor, const Footing& footing) const {
    writer.movePromotion({.promotion = replaced_->id,
                          .from = State::kWaiting,
                          .to = State::kSuperseded,
                          .reason = fmt::format("{}.{} took its place with {}", changeHandle(footing.change.id),
                                                footing.change.revision, promotionHandle(report_.promotion.id)),
                          .replacedBy = report_.promotion.id},
                         actor);
}

void Drive::tellReplaced() {
    const Records& records = parts_.store.records();
    progress_.moved(*records.promotion(replaced_->id), records.lastReason(replaced_->id).value_or(""));
    replacedLock_->removeFile();
    replacedLock_.reset();
    replaced_.reset();
}

void Drive::enterChecking(const Footing& footing) {
    report_.gates = decideNow(footing);
    const auto steps = [&] {
        std::vector<Step> all;
        if (!isOpen()) all.push_back({.to = State::kWaiting, .base = footing.base()});
        if (report_.gates->step == NextStep::kSupersede)
            all.push_back({.to = State::kSuperseded, .reason = report_.gates->at(Gate::kQueue).reason});
        else if (!isWaiting())
            all.push_back({.to = State::kChecking});
        else if (!all.empty())
            all.back() = waitingFor(closedGates(*report_.gates), footing.base());
        return all;
    };
    const auto move = [&] { isOpen() ? commit(steps()) : open(footing, std::nullopt, steps()); };
    try {
        move();
    } catch (const Error& e) {
        if (e.code() != ErrorCode::kBusy) throw;
        // Somebody was faster by an instant. Whatever else is busy still is.
        report_.gates = decideNow(footing);
        if (!isWaiting()) throw;
        move();
    }
    if (!isFinal(report_.promotion.state)) report_.reason = closedGates(*report_.gates).reason;
}

}  // namespace gradus
