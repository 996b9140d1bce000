#include "store/projection.h"

#include "store/audit_log.h"
#include "store/event_index.h"
#include "store/model/error.h"
#include "store/model/promotion.h"
#include "store/race_records.h"
#include "store/sandbox_projection.h"
#include "store/stage_projection.h"
#include "store/step_records.h"
#include "store/watch_records.h"
#include "store/word_projection.h"

namespace gradus {

namespace {

using Projector = void (*)(Sql&, const Event&);

void nothing(Sql&, const Event&) {}

std::int64_t required(const std::optional<std::int64_t>& id, const Event& event, std::string_view what) {
    if (id) return *id;
    throw Error(ErrorCode::kDamaged, "event {} ({}) names no {}", event.seq, nameOf(kEventKinds, event.kind), what);
}

void actorRegistered(Sql& sql, const Event& event) {
    sql.run("insert into actor (id, kind, seq) values (?, ?, ?)", event.fields.number("id"), event.fields.text("kind"),
            event.seq);
}

void projectRegistered(Sql& sql, const Event& event) {
    sql.run("insert into project (id, device, inode, key, seq) values (?, ?, ?, ?, ?)",
            required(event.project, event, "project"), event.fields.number("device"), event.fields.number("inode"),
            event.fields.optionalText("key"), event.seq);
}

void projectMoved(Sql& sql, const Event& event) {
    sql.run("update project set device = ?, inode = ?, key = ?, path_seq = ? where id = ?",
            event.fields.number("device"), event.fields.number("inode"), event.fields.optionalText("key"), event.seq,
            required(event.project, event, "project"));
}

void rulesTrusted(Sql& sql, const Event& event) {
    sql.run(
        "insert into trusted_rules (project, rules, files, actor, seq) values (?, ?, ?, ?, ?) "
        "on conflict (project) do update set rules = excluded.rules, files = excluded.files, actor = excluded.actor, "
        "seq = excluded.seq",
        required(event.project, event, "project"), event.fields.digest("rules"), event.fields.digest("files"),
        required(event.actor, event, "actor"), event.seq);
}

/// What a machine made in a sandbox was made for whoever hands it in, or for whom that one acts.
std::int64_t insertWorkers(Sql& sql, const Event& event, std::int64_t number) {
    return sql.run(
        "insert into maker (change, revision, actor, sponsor, seq) "
        "select ?1, ?2, w.actor, case when w.actor = ?3 then ?4 when a.kind = 'person' then null "
        "when (select b.kind from actor b where b.id = ?3) = 'person' then ?3 else ?4 end, ?5 "
        "from sandbox_worker w join actor a on a.id = w.actor where w.sandbox = ?6",
        event.change, number, event.actor, event.fields.optionalNumber("sponsor"), event.seq,
        event.fields.number("sandbox"));
}

void insertMakers(Sql& sql, const Event& event, std::int64_t number) {
    const bool isSamePatch = sql.number("select 1 from revision where change = ? and number = ? and patch = ?",
                                        event.change, number - 1, event.fields.digest("patch"))
                                 .has_value();
    if (isSamePatch || (event.fields.optionalNumber("sandbox") && insertWorkers(sql, event, number) > 0)) return;
    sql.run("insert into maker (change, revision, actor, sponsor, seq) values (?, ?, ?, ?, ?)", event.change, number,
            required(event.actor, event, "actor"), event.fields.optionalNumber("sponsor"), event.seq);
}

void insertRevision(Sql& sql, const Event& event, std::int64_t number) {
    sql.run("insert into revision (change, number, change_set, base, patch, seq) values (?, ?, ?, ?, ?, ?)",
            required(event.change, event, "change"), number, event.fields.digest("change-set"),
            event.fields.digest("base"), event.fields.digest("patch"), event.seq);
    insertMakers(sql, event, number);
}

void changeSubmitted(Sql& sql, const Event& event) {
    sql.run("insert into change (id, project, actor, sponsor, revision, seq) values (?, ?, ?, ?, 1, ?)",
            required(event.change, event, "change"), required(event.project, event, "project"),
            required(event.actor, event, "actor"), event.fields.optionalNumber("sponsor"), event.seq);
    insertRevision(sql, event, 1);
}

void changeRevised(Sql& sql, const Event& event) {
    const std::int64_t number = event.fields.number("revision");
    insertRevision(sql, event, number);
    sql.run("update change set revision = ? where id = ?", number, required(event.change, event, "change"));
}

void promotionOpened(Sql& sql, const Event& event) {
    sql.run(
        "insert into promotion (id, project, change, revision, stage, state, finished, cause, rules, undoes, "
        "opened_at, moved_at, opened_boot, opened_uptime, goal, place, seq) "
        "values (?1, ?2, ?3, ?4, ?5, 'queued', 0, 'proceeded', ?6, ?7, ?8, ?9, ?10, ?11, ?12, coalesce(?13, ?1), ?14)",
        required(event.promotion, event, "promotion"), required(event.project, event, "project"),
        required(event.change, event, "change"), event.fields.number("revision"), event.stage,
        event.fields.digest("rules"), event.fields.optionalNumber("undoes"), toMillis(event.at), toMillis(event.at),
        event.fields.optionalText("boot"), event.fields.optionalNumber("uptime-ms"), event.fields.optionalText("goal"),
        event.fields.optionalNumber("place"), event.seq);
}

// Not a move: who moved it last stays.
void promotionAimed(Sql& sql, const Event& event) {
    sql.run("update promotion set goal = ? where id = ?", event.fields.text("goal"),
            required(event.promotion, event, "promotion"));
}

void promotionMoved(Sql& sql, const Event& event) {
    const std::int64_t id = required(event.promotion, event, "promotion");
    const std::string& to = event.fields.text("to");
    const auto state = fromName(kPromotionStates, to);
    if (!state) throw Error(ErrorCode::kDamaged, "event {} moves a promotion to the unknown state '{}'", event.seq, to);
    // `finished` is only named when it changes: naming it makes SQLite write the index of unfinished ones anew.
    const std::string_view statement =
        isFinal(*state) ? "update promotion set state = ?, cause = ?, moved_at = ?, seq = ?, finished = 1 where id = ? "
                          "and state = ?"
                        : "update promotion set state = ?, cause = ?, moved_at = ?, seq = ? where id = ? and state = ?";
    const std::int64_t changed = sql.run(statement, to, event.fields.text("cause"), toMillis(event.at), event.seq, id,
                                         event.fields.text("from"));
    if (changed != 1)
        throw Error(ErrorCode::kNotAllowed, "promotion p{} is no longer {}: somebody moved it meanwhile", id,
                    event.fields.text("from"));
    projectStageMove(sql, event, *state);
}

void checkFinished(Sql& sql, const Event& event) {
    sql.run(
        "insert into check_result (seq, promotion, name, verdict, evidence, exit_code, wall_ms, log, phase, execution, "
        "asked, definition, reused, outputs, built_of) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        event.seq, required(event.promotion, event, "promotion"), event.fields.text("check"),
        event.fields.text("verdict"), event.fields.digest("evidence"), event.fields.optionalNumber("exit"),
        event.fields.number("wall-ms"), event.fields.optionalDigest("log"),
        event.fields.optionalText("phase").value_or("before"), event.fields.optionalNumber("execution"),
        event.fields.optionalDigest("asked"), event.fields.optionalDigest("definition"),
        event.fields.optionalNumber("reused"), event.fields.optionalDigest("outputs"),
        event.fields.optionalDigest("built-of"));
}

void payloadRedacted(Sql& sql, const Event& event) {
    sql.run("insert into redaction (seq, by_event) values (?, ?)", event.fields.number("seq"), event.seq);
}

struct Row {
    EventKind kind;
    Projector projector;
};
constexpr std::array kProjectors{
    Row{EventKind::kLogStarted, nothing},
    Row{EventKind::kLogReanchored, nothing},
    Row{EventKind::kActorRegistered, actorRegistered},
    Row{EventKind::kProjectRegistered, projectRegistered},
    Row{EventKind::kRulesTrusted, rulesTrusted},
    Row{EventKind::kChangeSubmitted, changeSubmitted},
    Row{EventKind::kChangeRevised, changeRevised},
    Row{EventKind::kPromotionOpened, promotionOpened},
    Row{EventKind::kPromotionMoved, promotionMoved},
    Row{EventKind::kCheckFinished, checkFinished},
    Row{EventKind::kPayloadRedacted, payloadRedacted},
    Row{EventKind::kClockWentBack, nothing},
    Row{EventKind::kSandboxCreated, projectSandboxCreated},
    Row{EventKind::kSandboxKept, projectSandboxKept},
    Row{EventKind::kSandboxSnapshotted, projectSandboxSnapshotted},
    Row{EventKind::kSandboxRestored, projectSandboxRestored},
    Row{EventKind::kSandboxForked, projectSandboxForked},
    Row{EventKind::kSandboxSquashed, projectSandboxSquashed},
    Row{EventKind::kSandboxWritten, projectSandboxWritten},
    Row{EventKind::kSandboxEnded, projectSandboxEnded},
    Row{EventKind::kSnapshotRemoved, projectSnapshotRemoved},
    Row{EventKind::kExecutionStarted, projectExecutionStarted},
    Row{EventKind::kExecutionFinished, projectExecutionFinished},
    Row{EventKind::kExecutionLost, projectExecutionLost},
    Row{EventKind::kStageAdopted, projectStageAdopted},
    Row{EventKind::kChangeHeld, projectHeld},
    Row{EventKind::kChangeReleased, projectReleased},
    Row{EventKind::kStageHeld, projectHeld},
    Row{EventKind::kStageReleased, projectReleased},
    Row{EventKind::kApprovalGiven, projectApprovalGiven},
    Row{EventKind::kApprovalWithdrawn, projectApprovalWithdrawn},
    Row{EventKind::kApprovalUsed, projectApprovalUsed},
    Row{EventKind::kChangeRejected, projectChangeRejected},
    Row{EventKind::kStagePinned, projectStagePinned},
    Row{EventKind::kStageUnpinned, projectStageUnpinned},
    Row{EventKind::kChangeVetoed, projectChangeVetoed},
    Row{EventKind::kVetoLifted, projectVetoLifted},
    Row{EventKind::kWorkHalted, projectHalted},
    Row{EventKind::kWorkResumed, projectResumed},
    Row{EventKind::kGateOverridden, projectGateOverridden},
    Row{EventKind::kRaceStarted, projectRaceStarted},
    Row{EventKind::kRaceEnded, projectRaceEnded},
    Row{EventKind::kPromotionWatched, projectPromotionWatched},
    Row{EventKind::kStepMoved, projectStepMoved},
    Row{EventKind::kPromotionAimed, promotionAimed},
    Row{EventKind::kProjectMoved, projectMoved},
};
static_assert(kProjectors.size() == kEventKinds.size(), "every kind of event says what it does to the state");

}  // namespace

void project(Sql& sql, const Event& event) {
    for (const Row& row : kProjectors)
        if (row.kind == event.kind) return row.projector(sql, event);
}

void replay(Sql& log, Sql& state, std::int64_t from, std::int64_t to, std::int64_t* reached) {
    EventIndexer indexer(state);
    std::optional<std::int64_t> before =
        log.number("select at from event where seq < ? order by seq desc limit 1", from);
    auto rows = log(
        "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash from event "
        "where seq between ? and ? order by seq",
        from, to);
    while (rows.step()) {
        const ChainedFields fields = chainedFields(rows);
        if (reached != nullptr) *reached = fields.seq;
        project(state, eventFrom(fields, std::nullopt));
        indexer.add(fields, before);
        before = fields.at;
    }
    indexer.flush();
}

}  // namespace gradus
