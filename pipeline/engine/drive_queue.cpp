#include "pipeline/engine/drive.h"
#include "pipeline/engine/queue.h"
#include "store/model/error.h"
#include "store/model/handle.h"

namespace gradus {

// Going back is never refused: only what enters has a place.
void Drive::refuseIfFull(const Records& records) const {
    if (!takesTarget()) return;
    const Value& limit = *stage_.policy.settings.find("queue");
    std::vector<Promotion> line = lineOf(records, project_.id, stage_.name);
    if (replaced_) std::erase_if(line, [&](const Promotion& other) { return other.id == replaced_->id; });
    if (std::cmp_less(line.size(), limit.number)) return;
    throw Error(ErrorCode::kBusy,
                "the queue of {} is full: {} wait or are under way, and its policy lets no more (queue "
                "= {}, {})",
                stage_.name, line.size(), limit.number, limit.origin.text())
        .hint(fmt::format("try again when one has landed, or end one that nobody needs: gradus cancel {}",
                          promotionHandle(line.back().id)));
}

void Drive::keepTurn(const Records& records) const {
    if (!takesTarget()) return;
    for (const Promotion& other : records.unfinished(project_.id))
        if (other.stage == stage_.name && other.id != report_.promotion.id && isUnderWay(other.state))
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
