#include "store/word_projection.h"

#include "store/model/error.h"

namespace gradus {

namespace {

// Scopes are compared with "is": what is not named is a scope of its own.
void insertHold(Sql& sql, const Event& event, const std::optional<std::int64_t>& promotion, bool onlyMachines) {
    sql.run("delete from hold where project = ? and stage is ? and change is ? and only_machines = ?", event.project,
            event.stage, event.change, onlyMachines ? 1 : 0);
    // Of the promotion's own revision, or of the newest that there was; of a stage, nobody's.
    sql.run(
        "insert into hold (seq, project, stage, change, patch, only_machines, promotion, actor, held_at, ends_at) "
        "values (?1, ?2, ?3, ?4, iif(?4 is null, null, coalesce((select r.patch from revision r join promotion p on "
        "p.change = r.change and "
        "p.revision = r.number where p.id = ?5), (select r.patch from revision r where r.change = ?4 and r.seq < ?1 "
        "order by r.number desc limit 1))), ?6, ?5, ?7, ?8, ?9)",
        event.seq, event.project, event.stage, event.change, promotion, onlyMachines ? 1 : 0, event.actor,
        toMillis(event.at), event.fields.optionalNumber("until"));
}

}  // namespace

void projectApprovalGiven(Sql& sql, const Event& event) {
    sql.run(
        "insert into approval (id, project, change, revision, stage, actor, rules, base, evidence, roles, given_at, "
        "withdrawn, seq) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
        event.fields.number("approval"), event.project, event.change, event.fields.number("revision"), event.stage,
        event.actor, event.fields.digest("rules"), event.fields.digest("base"), event.fields.optionalDigest("evidence"),
        event.fields.text("roles"), toMillis(event.at), event.seq);
}

void projectApprovalWithdrawn(Sql& sql, const Event& event) {
    const std::int64_t id = event.fields.number("approval");
    const std::int64_t changed =
        sql.run("update approval set withdrawn = 1 where id = ? and withdrawn = 0 and used_by is null", id);
    if (changed != 1) throw Error(ErrorCode::kNotAllowed, "approval {} was used or withdrawn before", id);
}

void projectApprovalUsed(Sql& sql, const Event& event) {
    const std::int64_t id = event.fields.number("approval");
    const std::int64_t changed =
        sql.run("update approval set used_by = ? where id = ? and withdrawn = 0 and used_by is null and change = ?",
                event.promotion, id, event.change);
    if (changed != 1)
        throw Error(ErrorCode::kNotAllowed, "approval {} cannot be used: it was used or withdrawn meanwhile", id);
}

void projectChangeRejected(Sql& sql, const Event& event) {
    sql.run("update approval set withdrawn = 1 where change = ? and stage = ? and used_by is null", event.change,
            event.stage);
    insertHold(sql, event, std::nullopt, true);
}

void projectHeld(Sql& sql, const Event& event) { insertHold(sql, event, event.promotion, event.promotion.has_value()); }

void projectReleased(Sql& sql, const Event& event) {
    const std::int64_t gone = sql.run("delete from hold where project = ? and stage is ? and change is ?",
                                      event.project, event.stage, event.change);
    if (gone == 0)
        throw Error(ErrorCode::kNotFound, "{}{}{} is not held",
                    event.change ? fmt::format("change c{}", *event.change) : "",
                    event.change && event.stage ? " at " : "", event.stage ? "stage " + *event.stage : "");
}

void projectStagePinned(Sql& sql, const Event& event) {
    sql.run(
        "insert into stage_pin (project, stage, change, revision, actor, pinned_at, seq) values (?, ?, ?, ?, ?, ?, ?) "
        "on conflict (project, stage) do update set change = excluded.change, revision = excluded.revision, "
        "actor = excluded.actor, pinned_at = excluded.pinned_at, seq = excluded.seq",
        event.project, event.stage, event.change, event.fields.optionalNumber("revision"), event.actor,
        toMillis(event.at), event.seq);
}

void projectStageUnpinned(Sql& sql, const Event& event) {
    if (sql.run("delete from stage_pin where project = ? and stage = ?", event.project, event.stage) != 1)
        throw Error(ErrorCode::kNotFound, "stage {} is not pinned", event.stage.value_or(""));
}

void projectChangeVetoed(Sql& sql, const Event& event) {
    sql.run(
        "insert into veto (seq, project, change, change_set, patch, stage, actor, vetoed_at) values "
        "(?, ?, ?, ?, ?, ?, ?, ?)",
        event.seq, event.project, event.change, event.fields.digest("change-set"), event.fields.digest("patch"),
        event.stage, event.actor, toMillis(event.at));
}

void projectVetoLifted(Sql& sql, const Event& event) {
    if (sql.run("delete from veto where seq = ?", event.fields.number("veto")) != 1)
        throw Error(ErrorCode::kNotFound, "there is no such veto any more");
}

void projectHalted(Sql& sql, const Event& event) {
    sql.run("delete from halt where project is ?", event.project);
    sql.run("insert into halt (seq, project, actor, halted_at) values (?, ?, ?, ?)", event.seq, event.project,
            event.actor, toMillis(event.at));
}

void projectResumed(Sql& sql, const Event& event) {
    if (sql.run("delete from halt where project is ?", event.project) != 1)
        throw Error(ErrorCode::kNotFound, "{}", event.project ? "this project is not halted" : "nobody halted it all");
}

void projectGateOverridden(Sql& sql, const Event& event) {
    sql.run("insert into gate_override (seq, promotion, gate, actor, roles, given_at) values (?, ?, ?, ?, ?, ?)",
            event.seq, event.promotion, event.fields.text("gate"), event.actor, event.fields.text("roles"),
            toMillis(event.at));
}

}  // namespace gradus
