#include "store/audit_log.h"

#include "store/model/error.h"

namespace gradus {

namespace {

void optionalNumber(Canonical& out, const std::optional<std::int64_t>& value) {
    value ? out.number(*value) : out.absent();
}

}  // namespace

Digest ChainHasher::link(const Digest& previous, const ChainedFields& fields) {
    return hasher_.update(bytes(previous, fields)).finish();
}

const std::string& ChainHasher::bytes(const Digest& previous, const ChainedFields& fields) {
    canonical_.restart("gradus.event.1");
    canonical_.digest(previous).number(fields.seq).number(fields.at).number(fields.batch).text(fields.kind);
    optionalNumber(canonical_, fields.actor);
    optionalNumber(canonical_, fields.project);
    optionalNumber(canonical_, fields.change);
    optionalNumber(canonical_, fields.promotion);
    fields.stage ? canonical_.text(*fields.stage) : canonical_.absent();
    canonical_.text(fields.body);
    fields.payloadDigest ? canonical_.text(*fields.payloadDigest) : canonical_.absent();
    return canonical_.bytes();
}

Digest payloadDigest(std::string_view salt, std::string_view text) {
    thread_local Canonical canonical("gradus.payload.1");
    canonical.restart("gradus.payload.1");
    return canonical.text(salt).text(text).hash();
}

ChainedFields chainedFields(const Sql::Call& row) {
    ChainedFields fields;
    fields.seq = row.number(0);
    fields.at = row.number(1);
    fields.batch = row.number(2);
    fields.kind = row.view(3);
    fields.actor = row.optionalNumber(4);
    fields.project = row.optionalNumber(5);
    fields.change = row.optionalNumber(6);
    fields.promotion = row.optionalNumber(7);
    if (!row.isNull(8)) fields.stage = row.view(8);
    fields.body = row.view(9);
    if (!row.isNull(10)) fields.payloadDigest = row.view(10);
    return fields;
}

ChainHead chainHead(Sql& sql) {
    auto row = sql("select seq, hash, batch, at from event order by seq desc limit 1");
    if (!row.step()) return {};
    return {{row.number(0), row.digest(1)}, row.number(2), fromMillis(row.number(3))};
}

Event AuditLog::append(EventDraft draft, Time at, std::int64_t batch, std::string_view salt, ChainHead& head) {
    const std::string body = draft.fields.json();
    std::optional<Digest> payload;
    if (draft.payload) payload = payloadDigest(salt, *draft.payload);

    ChainedFields fields{.seq = head.point.seq + 1,
                         .at = toMillis(at),
                         .batch = batch,
                         .kind = nameOf(kEventKinds, draft.kind),
                         .actor = draft.actor,
                         .project = draft.project,
                         .change = draft.change,
                         .promotion = draft.promotion,
                         .stage = draft.stage,
                         .body = body,
                         .payloadDigest = {}};
    if (payload) fields.payloadDigest = payload->view();
    const Digest hash = hasher_.link(head.point.hash, fields);

    sql_.run(
        "insert into event (seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, "
        "hash) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        fields.seq, fields.at, fields.batch, fields.kind, fields.actor, fields.project, fields.change, fields.promotion,
        fields.stage, fields.body, payload, hash);
    if (draft.payload) {
        auto insert = sql_("insert into payload (seq, salt, text) values (?, ?, ?)", fields.seq);
        insert.bindBlob(salt).bind(*draft.payload).run();
    }
    indexer_.add(fields, head.point.seq == 0 ? std::nullopt : std::optional(toMillis(head.at)));
    head = {{fields.seq, hash}, batch, at};

    Event event;
    static_cast<EventDraft&>(event) = std::move(draft);
    event.seq = fields.seq;
    event.batch = batch;
    event.at = at;
    return event;
}

Event eventFrom(const ChainedFields& fields, std::optional<std::string> payload) {
    const auto kind = fromName(kEventKinds, fields.kind);
    if (!kind)
        throw Error(ErrorCode::kDamaged, "event {} is of a kind this gradus does not know: '{}'", fields.seq,
                    fields.kind)
            .hint("run `gradus audit verify`");
    Event event;
    event.seq = fields.seq;
    event.batch = fields.batch;
    event.at = fromMillis(fields.at);
    event.kind = *kind;
    event.actor = fields.actor;
    event.project = fields.project;
    event.change = fields.change;
    event.promotion = fields.promotion;
    if (fields.stage) event.stage = std::string(*fields.stage);
    event.fields = EventFields::fromJson(fields.body);
    event.redacted = fields.payloadDigest.has_value() && !payload;
    event.payload = std::move(payload);
    return event;
}

}  // namespace gradus
