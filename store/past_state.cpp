#include "store/past_state.h"

#include <algorithm>
#include <limits>

#include "store/audit_log.h"
#include "store/event_index.h"
#include "store/model/error.h"
#include "store/projection.h"
#include "store/schema.h"

namespace gradus {

namespace {

// In pieces: a long read would keep the write-ahead log from being reset.
constexpr std::int64_t kChunk = 50'000;

PastMoment commitWith(Sql& log, std::int64_t seq) {
    const std::int64_t head = chainHead(log).point.seq;
    const auto next = log.number("select seq from event where seq > ? and batch = 0 order by seq limit 1", seq);
    PastMoment moment;
    moment.seq = next ? *next - 1 : head;
    moment.isNewest = moment.seq == head;
    moment.at = fromMillis(log.number("select at from event where seq = ?", moment.seq).value_or(0));
    return moment;
}

}  // namespace

PastMoment momentOf(Sql& log, std::int64_t seq) {
    if (log.number("select 1 from event where seq = ?", seq)) return commitWith(log, seq);
    throw Error(ErrorCode::kNotFound, "there is no event {}: the log goes from 1 to {}", seq, chainHead(log).point.seq)
        .hint("`gradus audit query` shows the numbers");
}

PastMoment momentAt(Sql& log, Time time) {
    const ReadTransaction oneMoment(log);
    std::vector<SeqRange> runs;  // newest first
    visitSpan(log, std::numeric_limits<std::int64_t>::min(), toMillis(time) + 1, [&](SeqRange run) {
        runs.push_back(run);
        return true;
    });
    if (runs.empty()) {
        const std::int64_t first = log.number("select at from event order by seq limit 1").value_or(0);
        throw Error(ErrorCode::kNotFound, "nothing was recorded up to {}: the log begins on {}", formatTime(time),
                    formatTime(fromMillis(first)))
            .hint("ask for a later moment");
    }
    PastMoment moment = commitWith(log, runs.front().last);
    for (std::size_t i = 1; i < runs.size(); ++i)
        if (runs[i].last + 1 != runs[i - 1].first) moment.otherwise.push_back(commitWith(log, runs[i].last).seq);
    return moment;
}

PastState::PastState(Sql& log) : log_(log), state_(std::make_unique<Sql>()), records_(*state_) {
    // Only what the state's rows point to is carried over, so most references lead nowhere.
    state_->script("pragma foreign_keys = off; pragma synchronous = off");
    migrate(*state_);
    state_->script("begin");
}

void PastState::advance(std::int64_t seq) {
    while (seq_ < seq) {
        const std::int64_t to = std::min(seq, seq_ + kChunk);
        std::int64_t reached = seq_;
        try {
            replay(log_, *state_, seq_ + 1, to, &reached);
        } catch (const Error& e) {
            throw Error(ErrorCode::kDamaged, "event {} cannot be projected: {}", reached, e.what())
                .hint("run `gradus audit verify`");
        }
        carryOver(seq_ + 1, to);
        seq_ = to;
    }
}

// What Records reads beside the state tables: when, by whom and in which words.
void PastState::carryOver(std::int64_t from, std::int64_t to) {
    auto events = log_(
        "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash from event "
        "where seq between ? and ? and kind in ('rules.trusted', 'change.submitted', 'change.revised', "
        "'promotion.opened', 'promotion.moved', 'gate.overridden')",
        from, to);
    while (events.step()) {
        const ChainedFields fields = chainedFields(events);
        auto insert = (*state_)(
            "insert into event (seq, at, batch, kind, actor, project, change, promotion, stage, body, hash) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            fields.seq, fields.at, fields.batch, fields.kind, fields.actor, fields.project, fields.change,
            fields.promotion, fields.stage, fields.body);
        insert.bindBlob(events.view(kHashColumn)).run();
    }
    auto texts = log_(
        "select p.seq, p.salt, p.text from payload p join event e on e.seq = p.seq where p.seq between ? and ? "
        "and e.kind not like 'execution.%'",
        from, to);
    while (texts.step()) {
        auto insert = (*state_)("insert into payload (seq, salt, text) values (?, ?, ?)", texts.number(0));
        insert.bindBlob(texts.view(1)).bind(texts.view(2)).run();
    }
}

}  // namespace gradus
