#include "store/state_compare.h"

#include <array>
#include <limits>

#include "store/projection.h"
#include "store/schema.h"

namespace gradus {

namespace {

struct TableQuery {
    std::string_view table;
    std::string_view sql;  ///< every column, by key; column 0 is the key people know, the last one the event
};
// One per state table; kept beside kStateTables by the assertion below.
constexpr std::array kTables{
    TableQuery{"redaction", "select seq, by_event, by_event from redaction order by seq"},
    TableQuery{"actor", "select id, kind, seq from actor order by id"},
    TableQuery{"project", "select id, device, inode, key, path_seq, seq from project order by id"},
    TableQuery{"trusted_rules", "select project, rules, files, actor, seq from trusted_rules order by project"},
    TableQuery{"change", "select id, project, actor, sponsor, revision, seq from change order by id"},
    TableQuery{"revision", "select change, number, change_set, base, patch, seq from revision order by change, number"},
    TableQuery{"maker", "select change, revision, actor, sponsor, seq from maker order by change, revision, actor"},
    TableQuery{
        "promotion",
        "select id, project, change, revision, stage, state, finished, cause, rules, undoes, opened_at, moved_at, "
        "target, checkpoint, tree, previous, previous_tree, base, evidence, opened_boot, opened_uptime, steps, "
        "goal, place, paths, seq from promotion order by id"},
    TableQuery{"check_result",
               "select seq, promotion, name, verdict, evidence, exit_code, wall_ms, log, phase, execution, asked, "
               "definition, reused, outputs, built_of, seq from check_result order by seq"},
    TableQuery{
        "stage_state",
        "select project, stage, promotion, tree, stuck, attention, seq from stage_state order by project, stage"},
    TableQuery{"target", "select fence, name, promotion, seq from target order by name"},
    TableQuery{"approval",
               "select id, project, change, revision, stage, actor, rules, base, evidence, roles, given_at, withdrawn, "
               "used_by, seq from approval order by id"},
    TableQuery{"hold",
               "select seq, project, stage, change, patch, only_machines, promotion, actor, held_at, ends_at, seq "
               "from hold order by seq"},
    TableQuery{"stage_pin",
               "select change, project, stage, revision, actor, pinned_at, seq from stage_pin order by project, stage"},
    TableQuery{"veto",
               "select seq, project, change, change_set, patch, stage, actor, vetoed_at, seq from veto order by seq"},
    TableQuery{"halt", "select seq, project, actor, halted_at, seq from halt order by seq"},
    TableQuery{"gate_override",
               "select seq, promotion, gate, actor, roles, given_at, seq from gate_override order by seq"},
    TableQuery{"race",
               "select id, project, actor, owner, outcome, change, started_at, ended_at, seq from race order by id"},
    TableQuery{"step",
               "select promotion, name, number, state, runs, exit_code, wall_ms, log, moved_at, seq from step "
               "order by promotion, name"},
    TableQuery{"watch",
               "select promotion, phase, began_at, began_boot, began_uptime, counted_ms, gap_ms, looked_at, "
               "looked_boot, looked_uptime, ended, seq from watch order by promotion"},
    TableQuery{"sandbox",
               "select id, project, actor, kind, ended, base, since_s, since_ns, layer, forked_from, owner, "
               "lifetime_ms, created_at, used_at, ended_at, change_set, name_seq, seq from sandbox order by id"},
    TableQuery{"layer", "select id, below, sandbox, frozen, used, seq from layer order by id"},
    TableQuery{"sandbox_worker",
               "select w.sandbox, w.actor, s.seq from sandbox_worker w join sandbox s on s.id = w.sandbox "
               "order by w.sandbox, w.actor"},
    TableQuery{"snapshot", "select id, sandbox, layer, taken_at, removed, seq from snapshot order by id"},
    TableQuery{"execution",
               "select id, sandbox, state, owner, backend, guarantees, without, verdict, exit_code, signal, stdout, "
               "stderr, stdout_bytes, stderr_bytes, truncated, started_at, wall_ms, cpu_ms, peak_memory, limits, "
               "services, network, side_effects, finished_seq, seq from execution order by id"},
    // With the type: 7 and '7' look alike, but only one of them is ever found.
    TableQuery{"event_index",
               "select block, word, typeof(value), value, bits, max(1, 64 * block) from event_index "
               "order by word, value, block"},
    TableQuery{"clock_step", "select seq, before, at, seq from clock_step order by seq"},
};
// Not made of events: what the program allows. A step that it lacks, or has too many, would be believed by the
// database.
constexpr TableQuery kEdges{"promotion_edge",
                            "select 1, from_state, to_state, 1 from promotion_edge order by from_state, to_state"};
static_assert(kTables.size() == kStateTables.size(), "every state table is compared");

bool sameRow(const Sql::Call& a, const Sql::Call& b) {
    for (int column = 0; column < a.columns(); ++column)
        if (a.isNull(column) != b.isNull(column) || a.view(column) != b.view(column)) return false;
    return true;
}

std::optional<StateMismatch> compareTable(const TableQuery& query, Sql& real, Sql& rebuilt) {
    auto is = real(query.sql);
    auto should = rebuilt(query.sql);
    while (true) {
        const bool haveIs = is.step();
        const bool haveShould = should.step();
        if (!haveIs && !haveShould) return std::nullopt;
        if (haveIs && haveShould && sameRow(is, should)) continue;
        const Sql::Call& shown = haveShould ? should : is;
        const std::string_view what = !haveIs       ? "is missing"
                                      : !haveShould ? "follows from no event"
                                                    : "is not what its events say";
        return StateMismatch{shown.number(shown.columns() - 1),
                             fmt::format("row {} of table {} {}", shown.number(0), query.table, what)};
    }
}

}  // namespace

std::optional<StateMismatch> compareState(Sql& sql, std::int64_t head) {
    Sql scratch;
    // Only the projection is rebuilt here: the events its rows point to stay in the real database.
    scratch.script("pragma foreign_keys = off; pragma synchronous = off");
    migrate(scratch);
    scratch.script("begin");
    std::optional<ReadTransaction> oneMoment;
    std::int64_t reached = 0;
    try {
        // The bulk before the read transaction, what was written meanwhile inside it: the comparison needs one moment,
        // but a long read would keep the write-ahead log from being reset.
        replay(sql, scratch, 1, head, &reached);
        oneMoment.emplace(sql);
        replay(sql, scratch, head + 1, std::numeric_limits<std::int64_t>::max(), &reached);
    } catch (const Error& e) {
        return StateMismatch{reached, fmt::format("the events cannot be projected: {}", e.what())};
    }
    for (const TableQuery& query : kTables)
        if (auto mismatch = compareTable(query, sql, scratch)) return mismatch;
    return compareTable(kEdges, sql, scratch);
}

}  // namespace gradus
