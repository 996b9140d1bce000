#include "pipeline/service/timeline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "pipeline/service/adoption_teller.h"
#include "policies/language/duration.h"
#include "store/adoption_records.h"
#include "store/model/handle.h"
#include "store/model/promotion.h"
#include "store/model/step.h"

namespace gradus {

namespace {

constexpr const char* kGone = "[redacted]";

std::string nameOfActor(const Records& records, ActorId id) {
    const auto actor = records.actor(id);
    return actor ? fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name) : kGone;
}

/// A text of the event's payload: nothing where it had none, a mark where it was taken away.
std::optional<std::string> wordOf(const Event& event, const char* key) {
    if (event.redacted) return kGone;
    const auto json = event.payload ? nlohmann::json::parse(*event.payload, nullptr, false) : nlohmann::json();
    if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return std::nullopt;
    const auto text = json[key].get<std::string>();
    return text.empty() ? std::nullopt : std::optional(text);
}

std::string because(const Event& event) {
    const auto reason = wordOf(event, "reason");
    return reason ? ": " + *reason : "";
}

std::string took(std::int64_t millis) {
    if (millis < 1000) return fmt::format("{} ms", millis);
    if (millis < 60'000) return fmt::format("{:.1f} s", static_cast<double>(millis) / 1000);
    return formatDuration(std::chrono::floor<std::chrono::seconds>(Milliseconds(millis)));
}

std::string changeOf(const Event& event) { return event.change ? changeHandle(*event.change) : "it"; }
std::string stageOf(const Event& event) { return event.stage.value_or("every stage"); }

std::string revisionOf(const Event& event) {
    const auto revision = event.fields.optionalNumber("revision");
    return revision ? fmt::format("{}.{}", changeOf(event), *revision) : changeOf(event);
}

/// What a sentence is made of.
struct Telling {
    const Records& records;
    const Event& event;

    std::optional<Promotion> promotion() const {
        return event.promotion ? records.promotion(*event.promotion) : std::nullopt;
    }
    /// "c1.2", as it is promoted.
    std::string promoted() const {
        const auto found = promotion();
        return found ? fmt::format("{}.{}", changeHandle(found->change), found->revision) : changeOf(event);
    }
};

using Sentence = std::string (*)(const Telling&);

std::string logStarted(const Telling&) { return "the log began"; }
std::string reanchored(const Telling&) { return "started a new anchor of the log"; }
std::string projectRegistered(const Telling& t) {
    return "the project was seen for the first time, at " + wordOf(t.event, "path").value_or("an unknown path");
}
std::string projectMoved(const Telling& t) {
    return "the project was seen at " + wordOf(t.event, "path").value_or("an unknown path");
}
std::string rulesTrusted(const Telling& t) { return "trusted the rules " + t.event.fields.digest("rules").brief(); }

std::string submitted(const Telling& t) {
    const auto sponsor = t.event.fields.optionalNumber("sponsor");
    return fmt::format("submitted {}{}: {}", changeOf(t.event),
                       sponsor ? " for " + nameOfActor(t.records, *sponsor) : "",
                       wordOf(t.event, "title").value_or("(no title)"));
}
std::string revised(const Telling& t) {
    return fmt::format("made {}: {}", revisionOf(t.event), wordOf(t.event, "title").value_or("(no title)"));
}

std::string opened(const Telling& t) {
    if (const auto undoes = t.event.fields.optionalNumber("undoes"))
        return fmt::format("{} is to be taken back from {}", promotionHandle(*undoes), stageOf(t.event));
    const auto goal = t.event.fields.optionalText("goal");
    return fmt::format("{} is to enter {}{}", revisionOf(t.event), stageOf(t.event),
                       goal && goal != t.event.stage ? " on its way to " + *goal : "");
}
std::string aimed(const Telling& t) { return fmt::format("it is to go on to {}", t.event.fields.text("goal")); }

std::string arrived(const Telling& t) {
    const auto promotion = t.promotion();
    if (promotion && promotion->undoes)
        return fmt::format("{} was taken back: {} holds what it held before", promotionHandle(*promotion->undoes),
                           stageOf(t.event));
    return fmt::format("{} entered {}", t.promoted(), stageOf(t.event));
}

/// Which paths they are is in the reason.
std::string keptText(const Event& event) {
    const auto count = event.fields.optionalNumber("kept");
    if (!count) return "";
    return fmt::format(", but for {}: edited there after it came, not by gradus, and kept as {}",
                       *count == 1 ? "1 path" : fmt::format("{} paths", *count), *count == 1 ? "it is" : "they are");
}

std::string moved(const Telling& t) {
    struct Row {
        PromotionState to;
        std::string_view text;
    };
    static constexpr std::array kRows{
        Row{PromotionState::kWaiting, "it waits"},
        Row{PromotionState::kChecking, "its checks run"},
        Row{PromotionState::kApplying, "the checks passed, it is being applied"},
        Row{PromotionState::kVerifying, "it is applied, and looked at"},
        Row{PromotionState::kSoaking, "it is watched for a while"},
        Row{PromotionState::kRejected, "it was rejected, and nothing was touched"},
        Row{PromotionState::kSuperseded, "it ended: a later revision took its place"},
        Row{PromotionState::kStale, "it ended: it no longer fits what the stage holds"},
        Row{PromotionState::kExpired, "it ended: it waited too long"},
        Row{PromotionState::kCancelled, "it was cancelled"},
        Row{PromotionState::kRollingBack, "it is being taken back"},
        Row{PromotionState::kRolledBack, "it was rolled back: the stage is as it was before"},
        Row{PromotionState::kStuck, "it got stuck: the stage is closed"},
    };
    const std::string& to = t.event.fields.text("to");
    if (to == nameOf(kPromotionStates, PromotionState::kPromoted)) return arrived(t) + because(t.event);
    std::string text = "it is " + to;
    for (const Row& row : kRows)
        if (nameOf(kPromotionStates, row.to) == to) text = row.text;
    const bool isApplying = to == nameOf(kPromotionStates, PromotionState::kApplying);
    if (const auto promotion = isApplying ? t.promotion() : std::nullopt; promotion && promotion->undoes)
        text = "it is being taken back";
    if (t.event.fields.has("back") && to == nameOf(kPromotionStates, PromotionState::kVerifying))
        text = "the stage is as it was before, and looked at";
    const std::string& cause = t.event.fields.text("cause");
    if (cause != "proceeded" && cause != "passed") text += fmt::format(" ({})", cause);
    return text + keptText(t.event) + because(t.event);
}

std::string checked(const Telling& t) {
    const bool isAfter = t.event.fields.optionalText("phase") == "after";
    const std::string& verdict = t.event.fields.text("verdict");
    if (const auto earlier = t.event.fields.optionalNumber("reused"))
        return fmt::format("{} {}, as {} proved", t.event.fields.text("check"), verdict, promotionHandle(*earlier));
    return fmt::format("{}{} {} in {}{}", t.event.fields.text("check"),
                       isAfter ? ", asked of " + stageOf(t.event) + " itself," : "", verdict,
                       took(t.event.fields.number("wall-ms")), verdict == "passed" ? "" : because(t.event));
}

std::string redaction(const Telling& t) {
    return fmt::format("took the text of event {} away", t.event.fields.number("seq"));
}
std::string clockBack(const Telling& t) {
    return fmt::format("the clock went back by {}: times before this line are later than those after it",
                       took(t.event.fields.number("by-ms")));
}
std::string adopted(const Telling& t) { return adoptionSentence(t.records, adoptionOf(t.event)); }

std::string heldScope(const Event& event) {
    if (!event.change) return stageOf(event);
    return event.stage ? changeHandle(*event.change) + " in " + *event.stage : changeHandle(*event.change);
}
std::string held(const Telling& t) {
    if (t.event.promotion)
        return fmt::format("{} is held for machines from here on{}", heldScope(t.event), because(t.event));
    const auto until = t.event.fields.optionalNumber("until");
    return fmt::format("held {}{}{}", heldScope(t.event), until ? " until " + formatTime(fromMillis(*until)) : "",
                       because(t.event));
}
std::string released(const Telling& t) { return fmt::format("released {}", heldScope(t.event)); }

std::string approved(const Telling& t) {
    const std::string roles = t.event.fields.optionalText("roles").value_or("");
    return fmt::format("approved {} for {}{}{}", revisionOf(t.event), stageOf(t.event),
                       roles.empty() ? "" : " as " + roles, because(t.event));
}
std::string withdrawn(const Telling& t) {
    return fmt::format("took back the approval of {} for {}", changeOf(t.event), stageOf(t.event));
}
std::string used(const Telling& t) {
    const auto approval = t.records.words().approval(t.event.fields.number("approval"));
    return fmt::format("it goes ahead on the approval of {}", approval ? nameOfActor(t.records, approval->by) : kGone);
}
std::string rejected(const Telling& t) {
    return fmt::format("said no to {} in {}{}", revisionOf(t.event), stageOf(t.event), because(t.event));
}
std::string pinned(const Telling& t) {
    return fmt::format("pinned {} to {}{}", stageOf(t.event), revisionOf(t.event), because(t.event));
}
std::string unpinned(const Telling& t) { return fmt::format("unpinned {}", stageOf(t.event)); }
std::string vetoed(const Telling& t) {
    return fmt::format("vetoed {}{}{}", changeOf(t.event), t.event.stage ? " in " + *t.event.stage : "",
                       because(t.event));
}
std::string unvetoed(const Telling& t) {
    return fmt::format("lifted the veto of {}{}", changeOf(t.event), t.event.stage ? " in " + *t.event.stage : "");
}
std::string halted(const Telling& t) {
    return fmt::format("halted {}{}", t.event.project ? "this project" : "everything", because(t.event));
}
std::string resumed(const Telling& t) {
    return fmt::format("let {} go on", t.event.project ? "this project" : "everything");
}
std::string overridden(const Telling& t) {
    if (t.event.fields.text("gate") == "steps") return "consented to steps that cannot be undone" + because(t.event);
    return fmt::format("overrode the gate '{}'{}", t.event.fields.text("gate"), because(t.event));
}
std::string raceStarted(const Telling& t) {
    return fmt::format("started the race {}", raceHandle(t.event.fields.number("race")));
}
std::string raceEnded(const Telling& t) {
    return fmt::format("the race {} ended: {}{}", raceHandle(t.event.fields.number("race")),
                       t.event.fields.text("outcome"), t.event.change ? ", " + changeOf(t.event) : "");
}
std::string watched(const Telling& t) {
    const std::int64_t gap = t.event.fields.number("gap-ms");
    return fmt::format("its checks kept passing for {} of the {}{}{}", took(t.event.fields.number("counted-ms")),
                       t.event.fields.text("phase"), t.event.fields.has("ended") ? ", which is over" : "",
                       gap == 0 ? "" : fmt::format("; {} in which they did not run do not count", took(gap)));
}
std::string stepMoved(const Telling& t) {
    struct Line {
        StepState to;
        std::string_view text;
    };
    static constexpr std::array kLines{Line{StepState::kRunning, "begins"},
                                       Line{StepState::kDone, "is done"},
                                       Line{StepState::kFailed, "failed"},
                                       Line{StepState::kNotRun, "did not run"},
                                       Line{StepState::kUndoing, "is being undone"},
                                       Line{StepState::kUndone, "is undone"},
                                       Line{StepState::kUndoFailed, "could not be undone"}};
    const auto to = fromName(kStepStates, t.event.fields.text("to"));
    const auto* line = std::find_if(kLines.begin(), kLines.end(), [&](const Line& row) { return row.to == to; });
    const auto millis = t.event.fields.optionalNumber("wall-ms");
    return fmt::format("step {} {}{}{}", t.event.fields.text("step"), line == kLines.end() ? "moved" : line->text,
                       millis ? fmt::format(" ({})", took(*millis)) : "", because(t.event));
}

struct Row {
    EventKind kind;
    Sentence sentence;  ///< none: nothing that people ask for
    Tone tone = Tone::kPlain;
};
constexpr std::array kSentences{
    Row{EventKind::kLogStarted, logStarted},
    Row{EventKind::kLogReanchored, reanchored, Tone::kWord},
    Row{EventKind::kActorRegistered, nullptr},
    Row{EventKind::kProjectRegistered, projectRegistered},
    Row{EventKind::kRulesTrusted, rulesTrusted, Tone::kWord},
    Row{EventKind::kChangeSubmitted, submitted},
    Row{EventKind::kChangeRevised, revised},
    Row{EventKind::kPromotionOpened, opened},
    Row{EventKind::kPromotionMoved, moved},
    Row{EventKind::kCheckFinished, checked},
    Row{EventKind::kPayloadRedacted, redaction, Tone::kWord},
    Row{EventKind::kClockWentBack, clockBack, Tone::kWord},
    Row{EventKind::kSandboxCreated, nullptr},
    Row{EventKind::kSandboxKept, nullptr},
    Row{EventKind::kSandboxSnapshotted, nullptr},
    Row{EventKind::kSandboxRestored, nullptr},
    Row{EventKind::kSandboxForked, nullptr},
    Row{EventKind::kSandboxSquashed, nullptr},
    Row{EventKind::kSandboxWritten, nullptr},
    Row{EventKind::kSandboxEnded, nullptr},
    Row{EventKind::kSnapshotRemoved, nullptr},
    Row{EventKind::kExecutionStarted, nullptr},
    Row{EventKind::kExecutionFinished, nullptr},
    Row{EventKind::kExecutionLost, nullptr},
    Row{EventKind::kStageAdopted, adopted, Tone::kWord},
    Row{EventKind::kChangeHeld, held, Tone::kWord},
    Row{EventKind::kChangeReleased, released, Tone::kWord},
    Row{EventKind::kStageHeld, held, Tone::kWord},
    Row{EventKind::kStageReleased, released, Tone::kWord},
    Row{EventKind::kApprovalGiven, approved, Tone::kWord},
    Row{EventKind::kApprovalWithdrawn, withdrawn, Tone::kWord},
    Row{EventKind::kApprovalUsed, used},
    Row{EventKind::kChangeRejected, rejected, Tone::kWord},
    Row{EventKind::kStagePinned, pinned, Tone::kWord},
    Row{EventKind::kStageUnpinned, unpinned, Tone::kWord},
    Row{EventKind::kChangeVetoed, vetoed, Tone::kWord},
    Row{EventKind::kVetoLifted, unvetoed, Tone::kWord},
    Row{EventKind::kWorkHalted, halted, Tone::kWord},
    Row{EventKind::kWorkResumed, resumed, Tone::kWord},
    Row{EventKind::kGateOverridden, overridden, Tone::kWord},
    Row{EventKind::kRaceStarted, raceStarted},
    Row{EventKind::kRaceEnded, raceEnded},
    Row{EventKind::kPromotionWatched, watched},
    Row{EventKind::kStepMoved, stepMoved},
    Row{EventKind::kPromotionAimed, aimed},
    Row{EventKind::kProjectMoved, projectMoved},
};
static_assert(kSentences.size() == kEventKinds.size(), "every kind of event is told, or is said not to be");

const Row& rowOf(EventKind kind) {
    return *std::find_if(kSentences.begin(), kSentences.end(), [&](const Row& row) { return row.kind == kind; });
}

Tone toneOf(const Event& event) {
    const bool isMove = event.kind == EventKind::kPromotionMoved;
    if (!isMove && event.kind != EventKind::kCheckFinished) return rowOf(event.kind).tone;
    const std::string& cause = event.fields.text(isMove ? "cause" : "verdict");
    if (isMove && event.fields.text("to") == "promoted") return Tone::kGood;
    if (isMove && event.fields.text("to") == "stuck") return Tone::kBad;
    if (!isMove && cause == "passed") return Tone::kGood;
    return cause == "passed" || cause == "proceeded" ? Tone::kPlain : Tone::kBad;
}

/// Events of one commit have the same: the number of its first.
std::int64_t commitOf(const Event& event) { return event.seq - event.batch; }

/// A step that says no more than that the next one was taken.
bool isOnlyAStep(const Event& event) {
    if (event.kind != EventKind::kPromotionMoved || event.payload || event.redacted) return false;
    const std::string& cause = event.fields.text("cause");
    return cause == "proceeded" || cause == "passed";
}

/// The last step of every promotion in every commit: where it came to.
class LastSteps {
  public:
    explicit LastSteps(const std::vector<Event>& events) {
        for (const Event& event : events)
            if (event.kind == EventKind::kPromotionMoved && event.promotion)
                last_[{commitOf(event), *event.promotion}] = event.seq;
    }
    bool isLast(const Event& event) const {
        const auto found = last_.find({commitOf(event), event.promotion.value_or(0)});
        return found != last_.end() && found->second == event.seq;
    }

  private:
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> last_;
};

std::string aboutOf(const Event& event) {
    if (event.promotion) return promotionHandle(*event.promotion);
    if (event.change) return changeHandle(*event.change);
    return event.stage.value_or("");
}

TimelineEntry entryOf(const Telling& telling) {
    const Event& event = telling.event;
    TimelineEntry entry;
    entry.seq = event.seq;
    entry.kind = event.kind;
    entry.at = event.at;
    if (event.actor) entry.by = nameOfActor(telling.records, *event.actor);
    entry.about = aboutOf(event);
    entry.change = event.change;
    entry.promotion = event.promotion;
    entry.stage = event.stage;
    entry.text = rowOf(event.kind).sentence(telling);
    entry.tone = toneOf(event);
    entry.redacted = event.redacted;
    return entry;
}

}  // namespace

std::vector<TimelineEntry> tellStory(const Records& records, const std::vector<Event>& events) {
    const LastSteps steps(events);
    std::vector<TimelineEntry> entries;
    const Event* before = nullptr;
    for (const Event& event : events) {
        if (rowOf(event.kind).sentence == nullptr || (isOnlyAStep(event) && !steps.isLast(event))) continue;
        entries.push_back(entryOf({records, event}));
        entries.back().continues = before != nullptr && event.promotion && event.promotion == before->promotion &&
                                   event.actor == before->actor && commitOf(event) == commitOf(*before);
        before = &event;
    }
    return entries;
}

std::string tellEvent(const Records& records, const Event& event) {
    const Sentence sentence = rowOf(event.kind).sentence;
    return sentence == nullptr ? std::string() : sentence({records, event});
}

std::vector<EventKind> toldKinds() {
    std::vector<EventKind> kinds;
    for (const Row& row : kSentences)
        if (row.sentence != nullptr) kinds.push_back(row.kind);
    return kinds;
}

}  // namespace gradus
