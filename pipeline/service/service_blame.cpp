#include <algorithm>

#include "pipeline/service/project.h"
#include "pipeline/service/service.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostChangeSet = std::uint64_t{256} << 20;

std::string nameOf(const Records& records, ActorId id) {
    const auto actor = records.actor(id);
    return actor ? fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name) : "somebody";
}

bool touches(const ChangeSet& changes, const std::string& path) {
    return std::any_of(changes.changes().begin(), changes.changes().end(), [&](const PathChange& change) {
        return change.path == path || change.path.starts_with(path + "/");
    });
}

/// A check built the path, and the promotion brought it in.
bool builds(const Records& records, const Objects& objects, std::int64_t promotion, const std::string& path) {
    for (const CheckResult& check : records.checkResults(promotion))
        if (check.outputs && check.verdict == Cause::kPassed && objects.contains(*check.outputs) &&
            touches(ChangeSet::decode(objects.readAll(*check.outputs, kMostChangeSet)), path))
            return true;
    return false;
}

Blame blameOf(const Records& records, const Promotion& promotion) {
    Blame blame{.promotion = promotion, .change = *records.change(promotion.change, promotion.revision)};
    for (const RevisionMaker& maker : records.words().makers(promotion.change))
        blame.makers.push_back(nameOf(records, maker.actor) +
                               (maker.sponsor ? " for " + nameOf(records, *maker.sponsor) : ""));
    const auto mover = records.movedBy(promotion.id);
    if (mover) blame.promotedBy = fmt::format("{}:{}", nameOf(kActorKinds, mover->kind), mover->name);
    for (const CheckResult& check : records.checkResults(promotion.id))
        if (check.verdict == Cause::kPassed) blame.proofs.push_back(check);
    for (const Approval& approval : records.words().approvals(promotion.change, promotion.stage))
        if (approval.usedBy == promotion.id) blame.approvals.emplace_back(nameOf(records, approval.by), approval);
    for (const GateOverride& word : records.words().overrides(promotion.id))
        blame.overrides.emplace_back(nameOf(records, word.by), word);
    return blame;
}

}  // namespace

// From what the stage holds back through what it held before, until a change touched the path.
Blame Service::blame(const fs::path& directory, const std::string& stage, const std::optional<std::string>& path) {
    const Records& records = existing().records();
    const auto project = records.findProject(identify(projectRoot(directory)));
    auto holder = project ? records.stageState(*project, stage).promotion : std::nullopt;
    if (!holder)
        throw Error(ErrorCode::kNotFound, "'{}' is no stage that holds a change", printable(stage))
            .hint("`gradus status` shows what every stage holds");
    const Objects all = objects();
    for (; holder; holder = records.promotion(*holder)->previous) {
        const Promotion promotion = *records.promotion(*holder);
        if (!path) return blameOf(records, promotion);
        if (builds(records, all, promotion.id, *path)) return blameOf(records, promotion);
        const auto change = records.change(promotion.change, promotion.revision);
        if (touches(ChangeSet::decode(all.readAll(change->changeSet, kMostChangeSet)), *path))
            return blameOf(records, promotion);
    }
    throw Error(ErrorCode::kNotFound, "no change that was promoted into {} touched '{}'", printable(stage),
                printable(*path))
        .hint("it is from before the first promotion, or not there");
}

}  // namespace gradus
