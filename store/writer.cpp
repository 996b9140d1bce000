#include <nlohmann/json.hpp>

#include "store/model/error.h"
#include "store/projection.h"
#include "store/store.h"

namespace gradus {

namespace {

constexpr std::size_t kSaltSize = 16;
// Below this a step back is a clock being disciplined, not a jump.
constexpr Milliseconds kClockTolerance{1000};

// Any bytes may be in a name, a path or a title; JSON holds only UTF-8, so what is not is replaced.
std::string payload(const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::int64_t nextId(Sql& sql, std::string_view statement) { return sql.number(statement).value_or(0) + 1; }

EventFields submissionFields(const Submission& submission) {
    EventFields fields;
    fields.set("change-set", submission.changeSet).set("base", submission.base).set("patch", submission.patch);
    if (submission.fromWorkTree) fields.set("from", "worktree");
    fields.setIfPresent("sponsor", submission.sponsor).setIfPresent("sandbox", submission.sandbox);
    return fields;
}

std::string submissionPayload(const Submission& submission) {
    nlohmann::json words{{"title", submission.title}, {"labels", submission.labels}};
    if (!submission.message.empty()) words["message"] = submission.message;
    if (!submission.author.empty()) words["author"] = submission.author;
    return payload(words);
}

}  // namespace

Event Writer::record(EventDraft draft) {
    if (spoiled_) throw Error(ErrorCode::kNotAllowed, "an earlier step of this transaction was refused");
    if (batch_ == 0) warnIfClockWentBack();
    const std::string salt = draft.payload ? random_.bytes(kSaltSize) : std::string();
    // An event whose effect was refused must never be committed, even if the caller swallows the error.
    spoiled_ = true;
    Event event = log_.append(std::move(draft), now_, batch_++, salt, head_);
    gradus::project(sql(), event);
    spoiled_ = false;
    return event;
}

void Writer::warnIfClockWentBack() {
    if (head_.point.seq == 0 || now_ + kClockTolerance >= head_.at) return;
    EventDraft draft;
    draft.kind = EventKind::kClockWentBack;
    draft.fields.set("by-ms", (head_.at - now_).count());
    log_.append(std::move(draft), now_, batch_++, {}, head_);
}

ActorId Writer::actor(const Actor& actor) {
    if (const auto known = findActor(actor)) return *known;
    const ActorId id = nextId(sql(), "select max(id) from actor");
    EventDraft draft;
    draft.kind = EventKind::kActorRegistered;
    draft.fields.set("id", id).set("kind", nameOf(kActorKinds, actor.kind));
    draft.payload = payload({{"name", actor.name}});
    record(std::move(draft));
    return id;
}

std::int64_t Writer::project(const ProjectIdentity& project, ActorId by) {
    const auto known = findProject(project);
    if (known && !hasMoved(*known, project)) return *known;
    EventDraft draft;
    draft.kind = known ? EventKind::kProjectMoved : EventKind::kProjectRegistered;
    draft.actor = by;
    draft.project = known ? *known : nextId(sql(), "select max(id) from project");
    draft.fields.set("device", project.device).set("inode", project.inode);
    if (!project.key.empty()) draft.fields.set("key", project.key);
    draft.payload = payload({{"path", project.path.native()}});
    return *record(std::move(draft)).project;
}

void Writer::trustRules(std::int64_t project, ActorId by, const Digest& rules, const Digest& files) {
    EventDraft draft;
    draft.kind = EventKind::kRulesTrusted;
    draft.actor = by;
    draft.project = project;
    draft.fields.set("rules", rules).set("files", files);
    record(std::move(draft));
}

std::int64_t Writer::submit(std::int64_t project, ActorId by, const Submission& submission) {
    EventDraft draft;
    draft.kind = EventKind::kChangeSubmitted;
    draft.actor = by;
    draft.project = project;
    draft.change = nextId(sql(), "select max(id) from change");
    draft.fields = submissionFields(submission);
    draft.payload = submissionPayload(submission);
    return *record(std::move(draft)).change;
}

std::int64_t Writer::revise(std::int64_t change, ActorId by, const Submission& submission) {
    const auto known = Records::change(change);
    if (!known) throw Error(ErrorCode::kNotFound, "there is no change c{}", change);
    EventDraft draft;
    draft.kind = EventKind::kChangeRevised;
    draft.actor = by;
    draft.project = known->project;
    draft.change = change;
    draft.fields = submissionFields(submission);
    draft.fields.set("revision", known->revision + 1);
    draft.payload = submissionPayload(submission);
    record(std::move(draft));
    return known->revision + 1;
}

std::int64_t Writer::openPromotion(const PromotionDraft& wanted, ActorId by) {
    EventDraft draft;
    draft.kind = EventKind::kPromotionOpened;
    draft.actor = by;
    draft.project = wanted.project;
    draft.change = wanted.change;
    draft.promotion = nextId(sql(), "select max(id) from promotion");
    draft.stage = wanted.stage;
    draft.fields.set("revision", wanted.revision).set("rules", wanted.rules).setIfPresent("undoes", wanted.undoes);
    draft.fields.setIfPresent("goal", wanted.goal).setIfPresent("place", wanted.place);
    if (!wanted.opened.boot.empty())
        draft.fields.set("boot", wanted.opened.boot).set("uptime-ms", wanted.opened.uptime.count());
    return *record(std::move(draft)).promotion;
}

EventDraft Writer::aboutPromotion(EventKind kind, std::int64_t promotion, ActorId by) {
    if (promotion_.promotion != promotion) {
        auto row = sql()("select project, change, stage from promotion where id = ?", promotion);
        if (!row.step()) throw Error(ErrorCode::kNotFound, "there is no promotion p{}", promotion);
        promotion_.project = row.number(0);
        promotion_.change = row.number(1);
        promotion_.stage = row.text(2);
        promotion_.promotion = promotion;
    }
    EventDraft draft = promotion_;
    draft.kind = kind;
    draft.actor = by;
    return draft;
}

void Writer::movePromotion(const PromotionStep& step, ActorId by) {
    if (!isLegal(step.from, step.to))
        throw Error(ErrorCode::kNotAllowed, "a promotion never goes from {} to {}", nameOf(kPromotionStates, step.from),
                    nameOf(kPromotionStates, step.to));
    EventDraft draft = aboutPromotion(EventKind::kPromotionMoved, step.promotion, by);
    draft.fields.set("from", nameOf(kPromotionStates, step.from))
        .set("to", nameOf(kPromotionStates, step.to))
        .set("cause", nameOf(kCauses, step.cause));
    if (step.intent)
        draft.fields.set("target", step.intent->target)
            .set("checkpoint", step.intent->checkpoint)
            .set("tree", step.intent->tree)
            .setIfPresent("previous-tree", step.intent->previousTree)
            .setIfPresent("steps", step.intent->steps)
            .setIfPresent("paths", step.intent->paths);
    draft.fields.setIfPresent("holds", step.tree);
    if (step.back) draft.fields.set("back", 1);
    if (step.attention) draft.fields.set("attention", 1);
    if (step.kept > 0) draft.fields.set("kept", step.kept);
    draft.fields.setIfPresent("base", step.base).setIfPresent("evidence", step.evidence);
    draft.fields.setIfPresent("for", step.promoter).setIfPresent("by", step.replacedBy);
    nlohmann::json words;
    if (!step.reason.empty()) words["reason"] = step.reason;
    if (!step.rules.empty()) words["rules"] = step.rules;
    if (!words.empty()) draft.payload = payload(words);
    record(std::move(draft));
}

void Writer::aimPromotion(std::int64_t promotion, const std::string& goal, ActorId by) {
    EventDraft draft = aboutPromotion(EventKind::kPromotionAimed, promotion, by);
    draft.fields.set("goal", goal);
    record(std::move(draft));
}

void Writer::recordCheck(const CheckResult& result, ActorId by) {
    EventDraft draft = aboutPromotion(EventKind::kCheckFinished, result.promotion, by);
    draft.fields.set("check", result.check)
        .set("verdict", nameOf(kCauses, result.verdict))
        .set("evidence", result.evidence);
    draft.fields.setIfPresent("exit", result.exitCode).set("wall-ms", result.wallMs).setIfPresent("log", result.log);
    if (result.phase == CheckPhase::kAfter) draft.fields.set("phase", nameOf(kCheckPhases, result.phase));
    draft.fields.setIfPresent("execution", result.execution);
    draft.fields.setIfPresent("asked", result.asked).setIfPresent("definition", result.definition);
    draft.fields.setIfPresent("reused", result.reused);
    draft.fields.setIfPresent("outputs", result.outputs).setIfPresent("built-of", result.builtOf);
    if (!result.reason.empty()) draft.payload = payload({{"reason", result.reason}});
    record(std::move(draft));
}

std::int64_t Writer::nextApproval() const { return nextId(sql(), "select max(id) from approval"); }

void Writer::redact(std::int64_t seq, ActorId by) {
    const auto exists = sql().number("select 1 from payload where seq = ?", seq);
    if (!exists) {
        const bool gone = sql().number("select 1 from redaction where seq = ?", seq).has_value();
        const bool known = sql().number("select 1 from event where seq = ?", seq).has_value();
        throw Error(ErrorCode::kNotFound, "{}",
                    gone    ? fmt::format("event {} lost its text to a redaction before", seq)
                    : known ? fmt::format("event {} has no text to take away", seq)
                            : fmt::format("there is no event {}", seq))
            .hint("`gradus audit query` lists the events");
    }
    EventDraft draft;
    draft.kind = EventKind::kPayloadRedacted;
    draft.actor = by;
    draft.fields.set("seq", seq);
    record(std::move(draft));
    sql().run("delete from payload where seq = ?", seq);
}

}  // namespace gradus
