#include "store/stage_projection.h"

#include "store/model/error.h"

namespace gradus {

namespace {

// A target has one promotion at work at a time; the flock beside it is what keeps others out, this is what shows it.
void takeTarget(Sql& sql, const Event& event) {
    const std::int64_t taken = sql.run(
        "insert into target (name, fence, promotion, seq) values (?, 1, ?, ?) on conflict (name) do update set "
        "fence = fence + 1, promotion = excluded.promotion, seq = excluded.seq where promotion is null",
        event.fields.text("target"), event.promotion, event.seq);
    if (taken != 1)
        throw Error(ErrorCode::kBusy, "the target of stage {} is in use by promotion p{}", event.stage.value_or(""),
                    sql.number("select promotion from target where name = ?", event.fields.text("target")).value_or(0));
}

void rememberIntent(Sql& sql, const Event& event) {
    sql.run(
        "update promotion set target = ?, checkpoint = ?, tree = ?, previous_tree = ?, steps = ?, paths = ?, previous "
        "= "
        "(select s.promotion from stage_state s where s.project = promotion.project and s.stage = promotion.stage) "
        "where id = ?",
        event.fields.text("target"), event.fields.digest("checkpoint"), event.fields.digest("tree"),
        event.fields.optionalDigest("previous-tree"), event.fields.optionalDigest("steps"),
        event.fields.optionalNumber("paths"), event.promotion);
}

void holdNew(Sql& sql, const Event& event) {
    sql.run(
        "insert into stage_state (project, stage, promotion, tree, seq) values (?, ?, ?, ?, ?) on conflict "
        "(project, stage) do update set promotion = excluded.promotion, tree = excluded.tree, seq = excluded.seq",
        event.project, event.stage, event.promotion, event.fields.digest("holds"), event.seq);
}

// What the stage held before `promotion` touched it; `via` is the one that says so.
void holdPrevious(Sql& sql, const Event& event, std::int64_t promotion) {
    sql.run(
        "insert into stage_state (project, stage, promotion, tree, seq) select project, stage, previous, "
        "previous_tree, ? from promotion where id = ? on conflict (project, stage) do update set "
        "promotion = excluded.promotion, tree = excluded.tree, seq = excluded.seq",
        event.seq, promotion);
}

// The way back that had failed succeeded after all.
void freeStuck(Sql& sql, const Event& event, std::int64_t undone) {
    sql.run(
        "update stage_state set stuck = null where project = ?1 and stage = ?2 and (stuck = ?3 or stuck in "
        "(select id from promotion where undoes = ?3))",
        event.project, event.stage, undone);
}

void mark(Sql& sql, const Event& event, std::string_view statement) {
    sql.run("insert into stage_state (project, stage, seq) values (?, ?, ?) on conflict (project, stage) do nothing",
            event.project, event.stage, event.seq);
    sql.run(statement, event.promotion, event.seq, event.project, event.stage);
}

}  // namespace

void projectStageMove(Sql& sql, const Event& event, PromotionState to) {
    if (event.fields.has("target")) {
        takeTarget(sql, event);
        rememberIntent(sql, event);
    }
    if (event.fields.has("base"))
        sql.run("update promotion set base = ?, evidence = ? where id = ?", event.fields.digest("base"),
                event.fields.optionalDigest("evidence"), event.promotion);
    if (event.fields.has("holds")) holdNew(sql, event);
    if (event.fields.has("back")) {
        const auto undoes = sql.number("select undoes from promotion where id = ?", *event.promotion);
        holdPrevious(sql, event, undoes.value_or(*event.promotion));
        if (undoes) freeStuck(sql, event, *undoes);
    }
    if (event.fields.has("attention"))
        mark(sql, event, "update stage_state set attention = ?, seq = ? where project = ? and stage = ?");
    if (to == PromotionState::kStuck)
        mark(sql, event, "update stage_state set stuck = ?, seq = ? where project = ? and stage = ?");
    if (isFinal(to))
        sql.run(
            "update target set promotion = null, seq = ? where promotion = ? and name = (select target from promotion "
            "where id = ?)",
            event.seq, event.promotion, event.promotion);
}

void projectStageAdopted(Sql& sql, const Event& event) {
    sql.run(
        "insert into stage_state (project, stage, promotion, tree, seq) values (?, ?, null, ?, ?) on conflict "
        "(project, stage) do update set promotion = null, tree = excluded.tree, stuck = null, attention = null, "
        "seq = excluded.seq",
        event.project, event.stage, event.fields.optionalDigest("tree"), event.seq);
}

}  // namespace gradus
