#include "store/sandbox_projection.h"

#include "store/model/error.h"

namespace gradus {

namespace {

std::int64_t sandboxOf(const Event& event) { return event.fields.number("sandbox"); }

// What an event changes must be there and in the state it expects: somebody else may have been faster.
void demandOne(std::int64_t changed, const Event& event, std::string_view what) {
    if (changed == 1) return;
    throw Error(ErrorCode::kNotAllowed, "sandbox s{} is {}: somebody changed it meanwhile", sandboxOf(event), what);
}

void insertLayer(Sql& sql, const Event& event, std::int64_t id, const std::optional<std::int64_t>& below) {
    sql.run("insert into layer (id, below, sandbox, frozen, used, seq) values (?, ?, ?, 0, 0, ?)", id, below,
            sandboxOf(event), event.seq);
}

void moveTo(Sql& sql, const Event& event, std::int64_t layer) {
    demandOne(sql.run("update sandbox set layer = ?, used_at = ? where id = ? and ended is null", layer,
                      toMillis(event.at), sandboxOf(event)),
              event, "gone");
}

// The sandbox's own layer takes no more changes; a new one on top of it does.
void freeze(Sql& sql, const Event& event) {
    const std::int64_t layer = event.fields.number("layer");
    const std::int64_t next = event.fields.number("next");
    demandOne(sql.run("update layer set frozen = 1 where id = ? and frozen = 0 and exists "
                      "(select 1 from sandbox where id = ? and sandbox.layer = layer.id)",
                      layer, sandboxOf(event)),
              event, "not where it was");
    insertLayer(sql, event, next, layer);
    moveTo(sql, event, next);
}

/// Of a transient one there is no need to remember it: most of them come and go.
void addWorker(Sql& sql, const Event& event) {
    if (event.actor)
        sql.run("insert or ignore into sandbox_worker select id, ? from sandbox where id = ? and kind = 'kept'",
                event.actor, sandboxOf(event));
}

}  // namespace

void projectSandboxCreated(Sql& sql, const Event& event) {
    const bool kept = event.fields.text("kind") == "kept";
    sql.run(
        "insert into sandbox (id, project, actor, kind, base, since_s, since_ns, layer, forked_from, owner, "
        "lifetime_ms, created_at, used_at, name_seq, seq, system) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        sandboxOf(event), event.project, event.actor, event.fields.text("kind"), event.fields.optionalText("commit"),
        event.fields.number("since-s"), event.fields.number("since-ns"), event.fields.number("layer"),
        event.fields.optionalNumber("forked-from"), event.fields.optionalText("owner"),
        event.fields.number("lifetime-ms"), toMillis(event.at), toMillis(event.at),
        kept ? std::optional(event.seq) : std::nullopt, event.seq,
        event.fields.optionalText("scope") == "system" ? 1 : 0);
    insertLayer(sql, event, event.fields.number("layer"), event.fields.optionalNumber("below"));
    if (const auto from = event.fields.optionalNumber("forked-from"))
        sql.run("insert into sandbox_worker select ?, actor from sandbox_worker where sandbox = ?", sandboxOf(event),
                *from);
}

void projectSandboxKept(Sql& sql, const Event& event) {
    demandOne(sql.run("update sandbox set kind = 'kept', owner = null, lifetime_ms = ?, used_at = ?, name_seq = ? "
                      "where id = ? and kind = 'transient' and ended is null",
                      event.fields.number("lifetime-ms"), toMillis(event.at), event.seq, sandboxOf(event)),
              event, "gone");
    // A transient one is used by whoever made it, and by nobody else.
    sql.run("insert or ignore into sandbox_worker select id, actor from sandbox where id = ?", sandboxOf(event));
}

void projectSandboxSnapshotted(Sql& sql, const Event& event) {
    freeze(sql, event);
    sql.run("insert into snapshot (id, sandbox, layer, taken_at, removed, seq) values (?, ?, ?, ?, 0, ?)",
            event.fields.number("snapshot"), sandboxOf(event), event.fields.number("layer"), toMillis(event.at),
            event.seq);
}

void projectSandboxRestored(Sql& sql, const Event& event) {
    insertLayer(sql, event, event.fields.number("next"), event.fields.number("layer"));
    moveTo(sql, event, event.fields.number("next"));
}

void projectSandboxForked(Sql& sql, const Event& event) { freeze(sql, event); }

void projectSandboxSquashed(Sql& sql, const Event& event) {
    sql.run("insert into layer (id, sandbox, frozen, used, seq) values (?, ?, 1, 1, ?)", event.fields.number("layer"),
            sandboxOf(event), event.seq);
    demandOne(sql.run("update layer set below = ? where id = ? and frozen = 0", event.fields.number("layer"),
                      event.fields.number("under")),
              event, "not where it was");
}

void projectSandboxWritten(Sql& sql, const Event& event) {
    addWorker(sql, event);
    sql.run("update layer set used = 1 where used = 0 and id = (select layer from sandbox where id = ?)",
            sandboxOf(event));
    demandOne(
        sql.run("update sandbox set used_at = ? where id = ? and ended is null", toMillis(event.at), sandboxOf(event)),
        event, "gone");
}

void projectSandboxEnded(Sql& sql, const Event& event) {
    demandOne(sql.run("update sandbox set ended = ?, ended_at = ?, change_set = ? where id = ? and ended is null",
                      event.fields.text("reason"), toMillis(event.at), event.fields.optionalDigest("change-set"),
                      sandboxOf(event)),
              event, "gone");
}

void projectSnapshotRemoved(Sql& sql, const Event& event) {
    demandOne(sql.run("update snapshot set removed = 1 where id = ? and removed = 0", event.fields.number("snapshot")),
              event, "without that snapshot");
}

void projectExecutionStarted(Sql& sql, const Event& event) {
    sql.run(
        "insert into execution (id, sandbox, state, owner, backend, guarantees, without, stdout_bytes, stderr_bytes, "
        "truncated, started_at, wall_ms, cpu_ms, limits, network, seq) "
        "values (?, ?, 'running', ?, ?, '', ?, 0, 0, 0, ?, 0, 0, '', ?, ?)",
        event.fields.number("execution"), sandboxOf(event), event.fields.text("owner"), event.fields.text("backend"),
        event.fields.text("without"), toMillis(event.at), event.fields.optionalText("network"), event.seq);
    if (!event.fields.optionalNumber("reads")) addWorker(sql, event);
    sql.run("update layer set used = 1 where used = 0 and id = (select layer from sandbox where id = ?)",
            sandboxOf(event));
    demandOne(
        sql.run("update sandbox set used_at = ? where id = ? and ended is null", toMillis(event.at), sandboxOf(event)),
        event, "gone");
}

void projectExecutionFinished(Sql& sql, const Event& event) {
    const EventFields& fields = event.fields;
    const std::int64_t changed = sql.run(
        "update execution set state = 'finished', guarantees = ?, verdict = ?, exit_code = ?, signal = ?, stdout = ?, "
        "stderr = ?, stdout_bytes = ?, stderr_bytes = ?, truncated = ?, started_at = ?, wall_ms = ?, cpu_ms = ?, "
        "peak_memory = ?, limits = ?, services = ?, side_effects = ?, finished_seq = ? where id = ? and state = "
        "'running'",
        fields.text("guarantees"), fields.text("verdict"), fields.optionalNumber("exit"),
        fields.optionalNumber("signal"), fields.optionalDigest("stdout"), fields.optionalDigest("stderr"),
        fields.number("stdout-bytes"), fields.number("stderr-bytes"), fields.number("truncated"),
        fields.number("started-at"), fields.number("wall-ms"), fields.number("cpu-ms"),
        fields.optionalNumber("peak-memory"), fields.text("limits"), fields.optionalDigest("services"),
        fields.optionalText("side-effects"), event.seq, fields.number("execution"));
    demandOne(changed, event, "without that execution");
    // A long command is use up to its end.
    sql.run("update sandbox set used_at = ? where id = ? and ended is null", toMillis(event.at), sandboxOf(event));
}

void projectExecutionLost(Sql& sql, const Event& event) {
    demandOne(sql.run("update execution set state = 'lost' where id = ? and state = 'running'",
                      event.fields.number("execution")),
              event, "without that execution");
}

}  // namespace gradus
