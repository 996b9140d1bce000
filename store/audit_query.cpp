#include "store/audit_query.h"

#include <algorithm>
#include <limits>

#include "store/audit_log.h"
#include "store/event_index.h"
#include "store/sql.h"

namespace gradus {

namespace {

std::int64_t sinceOf(const AuditQuery& query) {
    return query.since ? toMillis(*query.since) : std::numeric_limits<std::int64_t>::min();
}
std::int64_t untilOf(const AuditQuery& query) {
    return query.until ? toMillis(*query.until) : std::numeric_limits<std::int64_t>::max();
}

/// The restrictions that the index answers, the narrowest first: a change has dozens of events, a project millions.
std::vector<IndexTerm> termsOf(const AuditQuery& query) {
    std::vector<IndexTerm> terms;
    if (query.change) terms.push_back({IndexWord::kChange, {*query.change}});
    if (!query.actors.empty()) terms.push_back({IndexWord::kActor, {query.actors.begin(), query.actors.end()}});
    if (query.stage) terms.push_back({IndexWord::kStage, {*query.stage}});
    if (query.kind) terms.push_back({IndexWord::kKind, {std::string(nameOf(kEventKinds, *query.kind))}});
    if (query.project) terms.push_back({IndexWord::kProject, {*query.project}});
    return terms;
}

/// Asked of every event that is given out: an edited log shows what stands in it, whatever the index says.
bool isWanted(const ChainedFields& fields, const AuditQuery& query) {
    const auto isAny = [&](ActorId actor) { return fields.actor == actor; };
    return fields.at >= sinceOf(query) && fields.at < untilOf(query) &&
           (!query.change || fields.change == query.change) && (!query.project || fields.project == query.project) &&
           (!query.stage || fields.stage == *query.stage) &&
           (!query.kind || fields.kind == nameOf(kEventKinds, *query.kind)) &&
           (query.actors.empty() || std::any_of(query.actors.begin(), query.actors.end(), isAny));
}

// Not by a join: few events have one, and looking for it costs as much as finding the event.
std::optional<std::string> payloadOf(Sql& sql, const ChainedFields& fields) {
    if (!fields.payloadDigest) return std::nullopt;
    auto row = sql("select text from payload where seq = ?", fields.seq);
    return row.step() ? row.optionalText(0) : std::nullopt;
}

/// Takes rows until there are `limit` events or none are left.
void take(Sql& sql, Sql::Call rows, const AuditQuery& query, std::size_t limit, std::vector<Event>& events) {
    while (events.size() < limit && rows.step()) {
        const ChainedFields fields = chainedFields(rows);
        if (isWanted(fields, query)) events.push_back(eventFrom(fields, payloadOf(sql, fields)));
    }
}

/// What came after an event, the oldest first. Walks: whoever follows the log is close to its end.
void takeAfter(Sql& sql, const AuditQuery& query, std::size_t limit, std::vector<Event>& events) {
    static const std::string kSql = std::string(kEventSelect) + "where seq > ? order by seq";
    take(sql, sql(kSql, *query.afterSeq), query, limit, events);
}

void takeRange(Sql& sql, SeqRange range, const AuditQuery& query, std::size_t limit, std::vector<Event>& events) {
    static const std::string kSql = std::string(kEventSelect) + "where seq between ? and ? order by seq desc";
    take(sql, sql(kSql, range.first, range.last), query, limit, events);
}

/// Page by page, so that a limit of a few does not gather the numbers of millions.
void takeIndexed(Sql& sql, const std::vector<IndexTerm>& terms, SeqRange range, const AuditQuery& query,
                 std::size_t limit, std::vector<Event>& events) {
    constexpr std::size_t kPage = 1000;
    std::vector<std::int64_t> found;
    while (events.size() < limit && range.first <= range.last) {
        found.clear();
        findIndexed(sql, terms, range, std::min(kPage, limit - events.size()), found);
        if (found.empty()) return;
        for (const std::int64_t seq : found) takeRange(sql, {seq, seq}, query, limit, events);
        range.last = found.back() - 1;
    }
}

}  // namespace

std::vector<Event> queryEvents(Sql& sql, const AuditQuery& query) {
    const ReadTransaction oneMoment(sql);
    std::vector<Event> events;
    const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(0, query.limit));
    if (query.afterSeq) {
        takeAfter(sql, query, limit, events);
        return events;
    }
    const std::vector<IndexTerm> terms = termsOf(query);
    visitSpan(sql, sinceOf(query), untilOf(query), [&](SeqRange range) {
        if (terms.empty()) {
            takeRange(sql, range, query, limit, events);
        } else {
            takeIndexed(sql, terms, range, query, limit, events);
        }
        return events.size() < limit;
    });
    std::reverse(events.begin(), events.end());
    return events;
}

std::vector<ActorId> actorsNamed(Sql& sql, const std::string& name) {
    auto rows =
        sql("select a.id from actor a join payload p on p.seq = a.seq "
            "where ?1 in (json_extract(p.text, '$.name'), a.kind || ':' || json_extract(p.text, '$.name'))",
            name);
    std::vector<ActorId> ids;
    while (rows.step()) ids.push_back(rows.number(0));
    return ids;
}

}  // namespace gradus
