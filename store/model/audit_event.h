#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "store/model/actor.h"
#include "store/model/clock.h"
#include "store/model/digest.h"
#include "store/model/names.h"

namespace gradus {

/// What can happen. The word is what is stored, chained, queried and shown.
enum class EventKind {
    kLogStarted,
    kLogReanchored,
    kActorRegistered,
    kProjectRegistered,
    kRulesTrusted,
    kChangeSubmitted,
    kChangeRevised,
    kPromotionOpened,
    kPromotionMoved,
    kCheckFinished,
    kPayloadRedacted,
    kClockWentBack,
    kSandboxCreated,
    kSandboxKept,
    kSandboxSnapshotted,
    kSandboxRestored,
    kSandboxForked,
    kSandboxSquashed,
    kSandboxWritten,
    kSandboxEnded,
    kSnapshotRemoved,
    kExecutionStarted,
    kExecutionFinished,
    kExecutionLost,
    kStageAdopted,
    kChangeHeld,
    kChangeReleased,
    kStageHeld,
    kStageReleased,
    kApprovalGiven,
    kApprovalWithdrawn,
    kApprovalUsed,
    kChangeRejected,
    kStagePinned,
    kStageUnpinned,
    kChangeVetoed,
    kVetoLifted,
    kWorkHalted,
    kWorkResumed,
    kGateOverridden,
    kRaceStarted,
    kRaceEnded,
    kPromotionWatched,
    kStepMoved,
    kPromotionAimed,
    kProjectMoved,
};

inline constexpr std::array kEventKinds{
    Name<EventKind>{EventKind::kLogStarted, "log.started"},
    Name<EventKind>{EventKind::kLogReanchored, "log.reanchored"},
    Name<EventKind>{EventKind::kActorRegistered, "actor.registered"},
    Name<EventKind>{EventKind::kProjectRegistered, "project.registered"},
    Name<EventKind>{EventKind::kRulesTrusted, "rules.trusted"},
    Name<EventKind>{EventKind::kChangeSubmitted, "change.submitted"},
    Name<EventKind>{EventKind::kChangeRevised, "change.revised"},
    Name<EventKind>{EventKind::kPromotionOpened, "promotion.opened"},
    Name<EventKind>{EventKind::kPromotionMoved, "promotion.moved"},
    Name<EventKind>{EventKind::kCheckFinished, "check.finished"},
    Name<EventKind>{EventKind::kPayloadRedacted, "payload.redacted"},
    Name<EventKind>{EventKind::kClockWentBack, "clock.went-back"},
    Name<EventKind>{EventKind::kSandboxCreated, "sandbox.created"},
    Name<EventKind>{EventKind::kSandboxKept, "sandbox.kept"},
    Name<EventKind>{EventKind::kSandboxSnapshotted, "sandbox.snapshotted"},
    Name<EventKind>{EventKind::kSandboxRestored, "sandbox.restored"},
    Name<EventKind>{EventKind::kSandboxForked, "sandbox.forked"},
    Name<EventKind>{EventKind::kSandboxSquashed, "sandbox.squashed"},
    Name<EventKind>{EventKind::kSandboxWritten, "sandbox.written"},
    Name<EventKind>{EventKind::kSandboxEnded, "sandbox.ended"},
    Name<EventKind>{EventKind::kSnapshotRemoved, "snapshot.removed"},
    Name<EventKind>{EventKind::kExecutionStarted, "execution.started"},
    Name<EventKind>{EventKind::kExecutionFinished, "execution.finished"},
    Name<EventKind>{EventKind::kExecutionLost, "execution.lost"},
    Name<EventKind>{EventKind::kStageAdopted, "stage.adopted"},
    Name<EventKind>{EventKind::kChangeHeld, "change.held"},
    Name<EventKind>{EventKind::kChangeReleased, "change.released"},
    Name<EventKind>{EventKind::kStageHeld, "stage.held"},
    Name<EventKind>{EventKind::kStageReleased, "stage.released"},
    Name<EventKind>{EventKind::kApprovalGiven, "approval.given"},
    Name<EventKind>{EventKind::kApprovalWithdrawn, "approval.withdrawn"},
    Name<EventKind>{EventKind::kApprovalUsed, "approval.used"},
    Name<EventKind>{EventKind::kChangeRejected, "change.rejected"},
    Name<EventKind>{EventKind::kStagePinned, "stage.pinned"},
    Name<EventKind>{EventKind::kStageUnpinned, "stage.unpinned"},
    Name<EventKind>{EventKind::kChangeVetoed, "change.vetoed"},
    Name<EventKind>{EventKind::kVetoLifted, "veto.lifted"},
    Name<EventKind>{EventKind::kWorkHalted, "work.halted"},
    Name<EventKind>{EventKind::kWorkResumed, "work.resumed"},
    Name<EventKind>{EventKind::kGateOverridden, "gate.overridden"},
    Name<EventKind>{EventKind::kRaceStarted, "race.started"},
    Name<EventKind>{EventKind::kRaceEnded, "race.ended"},
    Name<EventKind>{EventKind::kPromotionWatched, "promotion.watched"},
    Name<EventKind>{EventKind::kStepMoved, "step.moved"},
    Name<EventKind>{EventKind::kPromotionAimed, "promotion.aimed"},
    Name<EventKind>{EventKind::kProjectMoved, "project.moved"},
};

/// The part of an event that only its own kind has: ids, digests, states, numbers and codes, never free text.
class EventFields {
  public:
    using Value = std::variant<std::int64_t, std::string>;

    EventFields& set(std::string_view key, std::int64_t value);
    EventFields& set(std::string_view key, std::string_view value);
    EventFields& set(std::string_view key, std::string&& value);
    EventFields& set(std::string_view key, const char* value) { return set(key, std::string_view(value)); }
    EventFields& set(std::string_view key, const std::string& value) { return set(key, std::string_view(value)); }
    EventFields& set(std::string_view key, const Digest& value) { return set(key, value.hex()); }
    template <typename T>
    EventFields& setIfPresent(std::string_view key, const std::optional<T>& value) {
        return value ? set(key, *value) : *this;
    }

    bool has(std::string_view key) const { return find(key) != nullptr; }
    /// Throw Error(kDamaged) when the field is missing or of another type; an event's own fields are never guessed.
    std::int64_t number(std::string_view key) const;
    const std::string& text(std::string_view key) const;
    Digest digest(std::string_view key) const;
    std::optional<std::int64_t> optionalNumber(std::string_view key) const;
    std::optional<std::string> optionalText(std::string_view key) const;
    std::optional<Digest> optionalDigest(std::string_view key) const;

    const std::vector<std::pair<std::string, Value>>& all() const { return values_; }
    /// A flat JSON object, in the order in which the fields were set. This text is what is chained.
    std::string json() const;
    /// Throws Error(kDamaged) unless `text` is exactly what json() gives for some fields.
    static EventFields fromJson(std::string_view text);

  private:
    void add(std::string_view key, Value value);
    const Value* find(std::string_view key) const;
    std::vector<std::pair<std::string, Value>> values_;
};

/// What is about to be recorded.
struct EventDraft {
    EventKind kind = EventKind::kLogStarted;
    std::optional<ActorId> actor;
    std::optional<std::int64_t> project;
    std::optional<std::int64_t> change;
    std::optional<std::int64_t> promotion;
    std::optional<std::string> stage;
    EventFields fields;
    /// Free text as JSON: titles, names, paths, command lines. Kept beside the chain, which holds only its salted
    /// hash, so that it can be taken away later.
    std::optional<std::string> payload;
};

/// An event with its place in the log.
struct Event : EventDraft {
    std::int64_t seq = 0;
    std::int64_t batch = 0;  ///< how many events of the same transaction came before it
    Time at{};
    bool redacted = false;  ///< it had a payload, which was taken away
};

}  // namespace gradus
