#include "store/step_records.h"

#include <nlohmann/json.hpp>

#include "store/model/error.h"
#include "store/store.h"

namespace gradus {

namespace {

constexpr std::string_view kColumns =
    "select s.promotion, s.name, s.number, s.state, s.runs, s.exit_code, s.wall_ms, s.log, s.moved_at, p.text from "
    "step "
    "s left join payload p on p.seq = s.seq ";

std::string reasonIn(const std::string& payload) {
    const auto json = nlohmann::json::parse(payload, nullptr, false);
    return json.is_object() ? json.value("reason", "") : "";
}

StepRecord fromRow(const Sql::Call& row) {
    StepRecord step;
    step.promotion = row.number(0);
    step.name = row.text(1);
    step.number = row.number(2);
    const auto state = fromName(kStepStates, row.view(3));
    if (!state)
        throw Error(ErrorCode::kDamaged, "the database holds the unknown word '{}'", row.view(3))
            .hint("run `gradus audit verify`");
    step.state = *state;
    step.runs = row.number(4);
    step.exitCode = row.optionalNumber(5);
    step.wallMs = row.optionalNumber(6);
    step.log = row.optionalDigest(7);
    step.at = fromMillis(row.number(8));
    step.reason = reasonIn(row.optionalText(9).value_or(""));
    return step;
}

void refuseIllegal(const StepMove& move, const std::optional<StepRecord>& known) {
    const bool isLegal = known ? isLegalStep(known->state, move.to) : move.to == StepState::kRunning;
    if (!isLegal)
        throw Error(ErrorCode::kNotAllowed, "step '{}' never goes from {} to {}", move.name,
                    known ? nameOf(kStepStates, known->state) : "nothing", nameOf(kStepStates, move.to));
}

}  // namespace

std::vector<StepRecord> StepRecords::of(std::int64_t promotion) const {
    static const std::string kSql = std::string(kColumns) + "where s.promotion = ? order by s.number";
    std::vector<StepRecord> all;
    auto row = (*sql_)(kSql, promotion);
    while (row.step()) all.push_back(fromRow(row));
    return all;
}

std::optional<StepRecord> StepRecords::find(std::int64_t promotion, const std::string& name) const {
    static const std::string kSql = std::string(kColumns) + "where s.promotion = ? and s.name = ?";
    auto row = (*sql_)(kSql, promotion, name);
    if (!row.step()) return std::nullopt;
    return fromRow(row);
}

void recordStep(Writer& writer, const StepMove& move, ActorId by) {
    const auto driven = writer.promotion(move.promotion);
    if (!driven) throw Error(ErrorCode::kNotFound, "there is no promotion p{}", move.promotion);
    refuseIllegal(move, writer.steps().find(move.of.value_or(move.promotion), move.name));
    EventDraft draft;
    draft.kind = EventKind::kStepMoved;
    draft.actor = by;
    draft.project = driven->project;
    draft.change = driven->change;
    draft.promotion = driven->id;
    draft.stage = driven->stage;
    draft.fields.set("step", move.name).set("number", move.number).set("to", nameOf(kStepStates, move.to));
    draft.fields.setIfPresent("of", move.of).setIfPresent("exit", move.exitCode).setIfPresent("wall-ms", move.wallMs);
    draft.fields.setIfPresent("log", move.log);
    if (!move.reason.empty())
        draft.payload =
            nlohmann::json{{"reason", move.reason}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    writer.record(std::move(draft));
}

void projectStepMoved(Sql& sql, const Event& event) {
    const std::string& to = event.fields.text("to");
    sql.run(
        "insert into step (promotion, name, number, state, runs, exit_code, wall_ms, log, moved_at, seq) "
        "values (?1, ?2, ?3, ?4, ?4 = 'running', ?5, ?6, ?7, ?8, ?9) on conflict (promotion, name) do update set "
        "state = excluded.state, runs = runs + excluded.runs, exit_code = excluded.exit_code, "
        "wall_ms = excluded.wall_ms, log = coalesce(excluded.log, log), moved_at = excluded.moved_at, "
        "seq = excluded.seq",
        event.fields.optionalNumber("of").value_or(event.promotion.value_or(0)), event.fields.text("step"),
        event.fields.number("number"), to, event.fields.optionalNumber("exit"), event.fields.optionalNumber("wall-ms"),
        event.fields.optionalDigest("log"), toMillis(event.at), event.seq);
}

}  // namespace gradus
