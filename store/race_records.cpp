#include "store/race_records.h"

#include "store/model/error.h"
#include "store/store.h"

namespace gradus {

namespace {

constexpr std::string_view kColumns =
    "select r.id, r.project, r.actor, r.owner, r.outcome, r.change, r.started_at, r.ended_at, p.text "
    "from race r left join payload p on p.seq = r.seq ";

RaceRecord fromRow(const Sql::Call& row) {
    RaceRecord record;
    record.id = row.number(0);
    record.project = row.number(1);
    record.actor = row.number(2);
    record.owner = parseOwner(row.view(3));
    if (!row.isNull(4)) {
        record.outcome = fromName(kRaceOutcomes, row.view(4));
        if (!record.outcome)
            throw Error(ErrorCode::kDamaged, "the database holds the unknown word '{}'", row.view(4))
                .hint("run `gradus audit verify`");
    }
    record.change = row.optionalNumber(5);
    record.startedAt = fromMillis(row.number(6));
    if (const auto ended = row.optionalNumber(7)) record.endedAt = fromMillis(*ended);
    record.candidates = row.optionalText(8);
    return record;
}

}  // namespace

std::optional<RaceRecord> RaceRecords::race(std::int64_t id) const {
    static const std::string kSql = std::string(kColumns) + "where r.id = ?";
    auto row = (*sql_)(kSql, id);
    if (!row.step()) return std::nullopt;
    return fromRow(row);
}

std::vector<RaceRecord> RaceRecords::races(std::int64_t project, std::int64_t limit) const {
    static const std::string kSql = std::string(kColumns) + "where r.project = ? order by r.id desc limit ?";
    std::vector<RaceRecord> all;
    auto row = (*sql_)(kSql, project, limit);
    while (row.step()) all.push_back(fromRow(row));
    return all;
}

std::int64_t RaceRecords::nextRace() const { return sql_->number("select max(id) from race").value_or(0) + 1; }

std::int64_t startRace(Writer& writer, const RaceStart& start, ActorId by) {
    const std::int64_t id = writer.races().nextRace();
    EventDraft draft;
    draft.kind = EventKind::kRaceStarted;
    draft.actor = by;
    draft.project = start.project;
    draft.fields.set("race", id).set("owner", formatOwner(start.owner));
    draft.payload = start.candidates;
    writer.record(std::move(draft));
    return id;
}

void endRace(Writer& writer, const RaceEnd& end, ActorId by) {
    const auto known = writer.races().race(end.race);
    if (!known) throw Error(ErrorCode::kNotFound, "there is no race r{}", end.race);
    EventDraft draft;
    draft.kind = EventKind::kRaceEnded;
    draft.actor = by;
    draft.project = known->project;
    draft.change = end.change;
    draft.fields.set("race", end.race).set("outcome", nameOf(kRaceOutcomes, end.outcome));
    draft.payload = end.candidates;
    writer.record(std::move(draft));
}

void projectRaceStarted(Sql& sql, const Event& event) {
    sql.run("insert into race (id, project, actor, owner, started_at, seq) values (?, ?, ?, ?, ?, ?)",
            event.fields.number("race"), event.project, event.actor, event.fields.text("owner"), toMillis(event.at),
            event.seq);
}

void projectRaceEnded(Sql& sql, const Event& event) {
    const std::int64_t ended =
        sql.run("update race set outcome = ?, change = ?, ended_at = ?, seq = ? where id = ? and outcome is null",
                event.fields.text("outcome"), event.change, toMillis(event.at), event.seq, event.fields.number("race"));
    if (ended != 1) throw Error(ErrorCode::kNotAllowed, "race r{} has ended before", event.fields.number("race"));
}

}  // namespace gradus
