#include "pipeline/cli/climb_view.h"
#include "pipeline/cli/envelope.h"
#include "pipeline/service/adoption_teller.h"
#include "store/model/handle.h"

namespace gradus {

namespace {

Json checkJson(const CheckReport& report, std::string_view phase) {
    Json json{{"check", report.check},
              {"phase", phase},
              {"verdict", nameOf(kCauses, report.answer.verdict)},
              {"reason", report.answer.reason},
              {"wall_ms", report.answer.wallMs},
              {"evidence", report.fingerprint().hex()}};
    if (report.answer.exitCode) json["exit_code"] = *report.answer.exitCode;
    if (report.answer.execution) json["execution"] = executionHandle(*report.answer.execution);
    if (report.log) json["log"] = report.log->hex();
    if (report.reused) json["reused_from"] = promotionHandle(report.reused->result.promotion);
    if (const auto outputs = report.outputs()) json["outputs"] = outputs->hex();
    if (report.builtBy) json["outputs_from"] = promotionHandle(report.builtBy->result.promotion);
    return json;
}

// All that went out together, newest first.
void addTakenOut(const StageReport& report, Json& json) {
    const auto handle = [](const Promotion& promotion) {
        return promotionHandle(promotion.undoes.value_or(promotion.id));
    };
    if (!report.promotion.undoes && report.promotion.state != PromotionState::kRolledBack) return;
    json["taken_out"] = Json::array();
    if (report.isOut()) json["taken_out"].push_back(handle(report.promotion));
    for (const StageReport& more : report.also)
        if (more.isOut()) json["taken_out"].push_back(handle(more.promotion));
}

}  // namespace

Json stepJson(const StepRecord& step) {
    Json json{{"step", step.name}, {"number", step.number}, {"state", nameOf(kStepStates, step.state)},
              {"runs", step.runs}, {"reason", step.reason}, {"moved_at", formatTime(step.at)}};
    if (step.exitCode) json["exit_code"] = *step.exitCode;
    if (step.wallMs) json["wall_ms"] = *step.wallMs;
    if (step.log) json["log"] = step.log->hex();
    return json;
}

Json stepPlanJson(const StepPlan& step) {
    return {{"step", step.name},
            {"when", nameOf(kStepWhens, step.when)},
            {"run", step.run},
            {"undo", step.undo},
            {"irreversible", step.irreversible},
            {"idempotence", nameOf(kIdempotences, step.idempotence)}};
}

Json adoptionJson(const AdoptionTold& told) {
    const Adoption& adoption = told.adoption;
    return {{"by", told.by},
            {"at", formatTime(adoption.at)},
            {"tree", adoption.tree ? Json(adoption.tree->hex()) : Json()},
            {"vouched", adoption.vouched},
            {"promotion", adoption.brought ? Json(promotionHandle(*adoption.brought)) : Json()},
            {"settles", adoption.settles ? Json(promotionHandle(*adoption.settles)) : Json()},
            {"event", adoption.seq},
            {"text", told.text}};
}

Json promotionJson(const Promotion& promotion, const std::string& reason) {
    Json json{{"id", promotionHandle(promotion.id)},
              {"change", fmt::format("{}.{}", changeHandle(promotion.change), promotion.revision)},
              {"stage", promotion.stage},
              {"state", nameOf(kPromotionStates, promotion.state)},
              {"cause", nameOf(kCauses, promotion.cause)},
              {"reason", reason},
              {"opened_at", formatTime(promotion.openedAt)},
              {"moved_at", formatTime(promotion.movedAt)}};
    if (promotion.undoes) json["undoes"] = promotionHandle(*promotion.undoes);
    if (promotion.goal) json["goal"] = *promotion.goal;
    return json;
}

Json decisionJson(const Decision& decision) {
    Json gates = Json::array();
    for (const GateAnswer& answer : decision.gates) {
        if (answer.state == GateState::kNotApplicable) continue;
        Json gate{{"gate", nameOf(kGates, answer.gate)},
                  {"state", nameOf(kGateStates, answer.state)},
                  {"reason", answer.reason},
                  {"rule", answer.rule},
                  {"unblock", answer.unblock}};
        if (answer.since) gate["since"] = formatTime(*answer.since);
        if (answer.next) gate["next"] = formatTime(*answer.next);
        gates.push_back(std::move(gate));
    }
    return gates;
}

Json stageReportJson(const StageReport& report) {
    Json json{{"promotion", report.promotion.id == 0 ? Json() : promotionJson(report.promotion, report.reason)},
              {"stage", report.promotion.stage},
              {"already", report.already}};
    json["checks"] = Json::array();
    for (const CheckReport& check : report.before) json["checks"].push_back(checkJson(check, "before"));
    for (const CheckReport& check : report.after) json["checks"].push_back(checkJson(check, "after"));
    json["steps"] = Json::array();
    for (const StepRecord& step : report.steps) json["steps"].push_back(stepJson(step));
    json["outputs"] = report.outputs;
    json["conflicts"] = Json::array();
    for (const MergeConflict& conflict : report.mergeConflicts)
        json["conflicts"].push_back({{"path", conflict.path}, {"detail", conflict.detail}});
    for (const Conflict& conflict : report.conflicts)
        json["conflicts"].push_back({{"path", conflict.path}, {"detail", describe(conflict)}});
    if (report.rollback) {
        json["kept"] = Json::array();
        for (const Kept& kept : report.rollback->kept)
            json["kept"].push_back({{"path", kept.path}, {"reason", kept.reason}});
        json["problems"] = report.rollback->problems;
        json["wrote_nothing"] = report.rollback->wroteNothing;
    }
    if (report.gates) json["gates"] = decisionJson(*report.gates);
    json["missing"] = Json::array();
    for (const std::int64_t change : report.missing) json["missing"].push_back(changeHandle(change));
    json["apart"] = Json::array();
    for (const auto& path : report.apart) json["apart"].push_back(path.native());
    json["notes"] = report.notes;
    addTakenOut(report, json);
    if (report.fault) {
        const Problem problem = *problemOf(report);
        json["fault"] = {{"code", problem.code}, {"message", report.fault->what()}, {"hint", problem.hint}};
    }
    return json;
}

Json climbJson(const Climb& climb) {
    Json json{{"change", {{"id", changeHandle(climb.change)}}}, {"stages", Json::array()}};
    for (const StageReport& report : climb.stages) json["stages"].push_back(stageReportJson(report));
    json["others"] = Json::array();
    for (const StageReport& report : climb.others) json["others"].push_back(stageReportJson(report));
    if (!climb.stages.empty() && climb.stages.back().promotion.id != 0)
        json["promotion"] = promotionJson(climb.stages.back().promotion, climb.stages.back().reason);
    return json;
}

}  // namespace gradus
