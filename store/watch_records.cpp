#include "store/watch_records.h"

#include "store/model/error.h"
#include "store/store.h"

namespace gradus {

namespace {

constexpr std::string_view kColumns =
    "select w.promotion, w.phase, w.began_at, w.began_boot, w.began_uptime, w.counted_ms, w.gap_ms, w.looked_at, "
    "w.looked_boot, w.looked_uptime, w.ended from watch w ";

Moment momentFrom(const Sql::Call& row, int column) {
    return {fromMillis(row.number(column)), row.text(column + 1), Milliseconds(row.number(column + 2))};
}

Watch fromRow(const Sql::Call& row) {
    Watch watch;
    watch.promotion = row.number(0);
    const auto phase = fromName(kWatchPhases, row.view(1));
    if (!phase)
        throw Error(ErrorCode::kDamaged, "the database holds the unknown word '{}'", row.view(1))
            .hint("run `gradus audit verify`");
    watch.phase = *phase;
    watch.began = momentFrom(row, 2);
    watch.counted = Milliseconds(row.number(5));
    watch.gap = Milliseconds(row.number(6));
    watch.looked = momentFrom(row, 7);
    watch.ended = row.number(10) != 0;
    return watch;
}

}  // namespace

std::optional<Watch> WatchRecords::watch(std::int64_t promotion) const {
    static const std::string kSql = std::string(kColumns) + "where w.promotion = ?";
    auto row = (*sql_)(kSql, promotion);
    if (!row.step()) return std::nullopt;
    return fromRow(row);
}

std::vector<Watch> WatchRecords::monitors(std::int64_t project) const {
    static const std::string kSql = std::string(kColumns) +
                                    "join promotion p on p.id = w.promotion where w.phase = 'monitor' and w.ended = 0 "
                                    "and p.project = ? order by w.promotion";
    std::vector<Watch> all;
    auto row = (*sql_)(kSql, project);
    while (row.step()) all.push_back(fromRow(row));
    return all;
}

void recordWatch(Writer& writer, const Watch& watch, ActorId by) {
    const auto known = writer.promotion(watch.promotion);
    if (!known) throw Error(ErrorCode::kNotFound, "there is no promotion p{}", watch.promotion);
    EventDraft draft;
    draft.kind = EventKind::kPromotionWatched;
    draft.actor = by;
    draft.project = known->project;
    draft.change = known->change;
    draft.promotion = known->id;
    draft.stage = known->stage;
    draft.fields.set("phase", nameOf(kWatchPhases, watch.phase))
        .set("counted-ms", watch.counted.count())
        .set("gap-ms", watch.gap.count())
        .set("looked-at", toMillis(watch.looked.at))
        .set("boot", watch.looked.boot)
        .set("uptime-ms", watch.looked.uptime.count());
    if (watch.ended) draft.fields.set("ended", 1);
    writer.record(std::move(draft));
}

void projectPromotionWatched(Sql& sql, const Event& event) {
    sql.run(
        "insert into watch (promotion, phase, began_at, began_boot, began_uptime, counted_ms, gap_ms, looked_at, "
        "looked_boot, looked_uptime, ended, seq) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?3, ?4, ?5, ?8, ?9) "
        "on conflict (promotion) do update set "
        "began_at = iif(phase = excluded.phase, began_at, excluded.began_at), "
        "began_boot = iif(phase = excluded.phase, began_boot, excluded.began_boot), "
        "began_uptime = iif(phase = excluded.phase, began_uptime, excluded.began_uptime), "
        "phase = excluded.phase, counted_ms = excluded.counted_ms, gap_ms = excluded.gap_ms, "
        "looked_at = excluded.looked_at, looked_boot = excluded.looked_boot, looked_uptime = excluded.looked_uptime, "
        "ended = excluded.ended, seq = excluded.seq",
        event.promotion, event.fields.text("phase"), event.fields.number("looked-at"), event.fields.text("boot"),
        event.fields.number("uptime-ms"), event.fields.number("counted-ms"), event.fields.number("gap-ms"),
        event.fields.optionalNumber("ended").value_or(0), event.seq);
}

}  // namespace gradus
