#include "store/audit_query.h"

#include <algorithm>
#include <limits>

#include "store/audit_log.h"
#include "store/sql.h"

namespace gradus {

namespace {

constexpr std::string_view kSelect =
    "select e.seq, e.at, e.batch, e.kind, e.actor, e.project, e.change, e.promotion, e.stage, e.body, "
    "e.payload_digest, e.hash, p.text "
    "from event e ";

/// A restriction that an index answers. Tried in this order: a change has dozens of events, a project millions.
struct Path {
    std::string_view index;
    bool (*given)(const AuditQuery&);
};
constexpr std::array kPaths{
    Path{"event_by_change", [](const AuditQuery& q) { return q.change.has_value(); }},
    Path{"event_by_actor", [](const AuditQuery& q) { return q.actors.size() == 1; }},
    Path{"event_by_stage", [](const AuditQuery& q) { return q.stage.has_value(); }},
    Path{"event_by_kind", [](const AuditQuery& q) { return q.kind.has_value(); }},
    Path{"event_by_project", [](const AuditQuery& q) { return q.project.has_value(); }},
};

/// The statement's text is made of fixed pieces only; every value is bound.
std::string statementFor(const AuditQuery& query) {
    std::string sql(kSelect);
    const auto* path = std::find_if(kPaths.begin(), kPaths.end(), [&](const Path& p) { return p.given(query); });
    const bool follows = query.afterSeq.has_value();
    if (!follows) sql += "indexed by " + std::string(path == kPaths.end() ? "event_by_time" : path->index) + " ";
    sql += "left join payload p on p.seq = e.seq where e.at >= ? and e.at < ? ";
    if (query.change) sql += "and e.change = ? ";
    if (query.actors.size() == 1) sql += "and e.actor = ? ";
    if (query.stage) sql += "and e.stage = ? ";
    if (query.kind) sql += "and e.kind = ? ";
    if (query.project) sql += "and e.project = ? ";
    if (query.actors.size() > 1) {
        sql += "and e.actor in (?";
        for (std::size_t i = 1; i < query.actors.size(); ++i) sql += ", ?";
        sql += ") ";
    }
    if (follows) return sql + "and e.seq > ? order by e.seq limit ?";
    return sql + "order by e.at desc, e.seq desc limit ?";
}

void bindQuery(Sql::Call& call, const AuditQuery& query) {
    call.bind(query.since ? toMillis(*query.since) : std::numeric_limits<std::int64_t>::min());
    call.bind(query.until ? toMillis(*query.until) : std::numeric_limits<std::int64_t>::max());
    if (query.change) call.bind(*query.change);
    if (query.actors.size() == 1) call.bind(query.actors.front());
    if (query.stage) call.bind(*query.stage);
    if (query.kind) call.bind(nameOf(kEventKinds, *query.kind));
    if (query.project) call.bind(*query.project);
    if (query.actors.size() > 1)
        for (const ActorId actor : query.actors) call.bind(actor);
    if (query.afterSeq) call.bind(*query.afterSeq);
    call.bind(query.limit);
}

}  // namespace

std::vector<Event> queryEvents(Sql& sql, const AuditQuery& query) {
    // The cache of prepared statements keeps its key for as long as the connection; there are few shapes of query.
    static thread_local std::vector<std::unique_ptr<std::string>> shapes;
    std::string text = statementFor(query);
    auto known = std::find_if(shapes.begin(), shapes.end(), [&](const auto& shape) { return *shape == text; });
    if (known == shapes.end()) known = shapes.insert(shapes.end(), std::make_unique<std::string>(std::move(text)));

    auto rows = sql(**known);
    bindQuery(rows, query);
    std::vector<Event> events;
    while (rows.step()) events.push_back(eventFromRow(rows, rows.optionalText(12)));
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.seq < b.seq; });
    return events;
}

std::vector<ActorId> actorsNamed(Sql& sql, const std::string& name) {
    auto rows =
        sql("select a.id from actor a join payload p on p.seq = a.seq where json_extract(p.text, '$.name') = ?", name);
    std::vector<ActorId> ids;
    while (rows.step()) ids.push_back(rows.number(0));
    return ids;
}

}  // namespace gradus
