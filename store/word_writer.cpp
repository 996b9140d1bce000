#include "store/word_writer.h"

#include <nlohmann/json.hpp>

#include "store/model/error.h"

namespace gradus {

namespace {

std::string withCommas(const std::vector<std::string>& roles) {
    std::string text;
    for (const std::string& role : roles) text += (text.empty() ? "" : ",") + role;
    return text;
}

}  // namespace

EventDraft WordWriter::about(EventKind kind, const std::optional<std::string>& reason) const {
    EventDraft draft;
    draft.kind = kind;
    draft.actor = by_;
    draft.fields.set("uid", uid_);
    if (reason && !reason->empty())
        draft.payload =
            nlohmann::json{{"reason", *reason}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return draft;
}

EventDraft WordWriter::aboutApproval(EventKind kind, const Approval& approval) const {
    EventDraft draft = about(kind, std::nullopt);
    draft.project = approval.project;
    draft.change = approval.change;
    draft.stage = approval.stage;
    draft.fields.set("approval", approval.id);
    return draft;
}

std::int64_t WordWriter::approve(const Approval& approval) {
    Approval numbered = approval;
    numbered.id = writer_.nextApproval();
    EventDraft draft = aboutApproval(EventKind::kApprovalGiven, numbered);
    draft.payload = about(EventKind::kApprovalGiven, approval.reason).payload;
    draft.fields.set("revision", approval.revision)
        .set("rules", approval.rules)
        .set("base", approval.base)
        .setIfPresent("evidence", approval.evidence)
        .set("roles", withCommas(approval.roles));
    if (!approval.given.boot.empty())
        draft.fields.set("boot", approval.given.boot).set("uptime-ms", approval.given.uptime.count());
    writer_.record(std::move(draft));
    return numbered.id;
}

void WordWriter::withdraw(const Approval& approval) {
    writer_.record(aboutApproval(EventKind::kApprovalWithdrawn, approval));
}

void WordWriter::use(const Approval& approval, std::int64_t promotion) {
    EventDraft draft = aboutApproval(EventKind::kApprovalUsed, approval);
    draft.promotion = promotion;
    writer_.record(std::move(draft));
}

void WordWriter::reject(const Rejection& rejection) {
    const auto change = writer_.change(rejection.change);
    if (!change) throw Error(ErrorCode::kNotFound, "there is no change c{}", rejection.change);
    EventDraft draft = about(EventKind::kChangeRejected, rejection.reason);
    draft.project = change->project;
    draft.change = rejection.change;
    draft.promotion = rejection.promotion;
    draft.stage = rejection.stage;
    draft.fields.set("revision", rejection.revision);
    writer_.record(std::move(draft));
}

void WordWriter::hold(const Hold& hold) {
    EventDraft draft = about(hold.change ? EventKind::kChangeHeld : EventKind::kStageHeld, hold.reason);
    draft.project = hold.project;
    draft.change = hold.change;
    draft.promotion = hold.promotion;
    draft.stage = hold.stage;
    if (hold.until) draft.fields.set("until", toMillis(*hold.until));
    writer_.record(std::move(draft));
}

void WordWriter::release(std::int64_t project, const std::optional<std::int64_t>& change,
                         const std::optional<std::string>& stage) {
    EventDraft draft = about(change ? EventKind::kChangeReleased : EventKind::kStageReleased, std::nullopt);
    draft.project = project;
    draft.change = change;
    draft.stage = stage;
    writer_.record(std::move(draft));
}

void WordWriter::pin(const Pin& pin) {
    EventDraft draft = about(EventKind::kStagePinned, pin.reason);
    draft.project = pin.project;
    draft.change = pin.change;
    draft.stage = pin.stage;
    draft.fields.setIfPresent("revision", pin.revision);
    writer_.record(std::move(draft));
}

void WordWriter::unpin(std::int64_t project, const std::string& stage) {
    EventDraft draft = about(EventKind::kStageUnpinned, std::nullopt);
    draft.project = project;
    draft.stage = stage;
    writer_.record(std::move(draft));
}

void WordWriter::veto(const Veto& veto) {
    EventDraft draft = about(EventKind::kChangeVetoed, veto.reason);
    draft.project = veto.project;
    draft.change = veto.change;
    draft.stage = veto.stage;
    draft.fields.set("change-set", veto.changeSet).set("patch", veto.patch);
    writer_.record(std::move(draft));
}

void WordWriter::unveto(const Veto& veto) {
    EventDraft draft = about(EventKind::kVetoLifted, std::nullopt);
    draft.project = veto.project;
    draft.change = veto.change;
    draft.stage = veto.stage;
    draft.fields.set("veto", veto.seq);
    writer_.record(std::move(draft));
}

void WordWriter::halt(const std::optional<std::int64_t>& project, const std::string& reason) {
    EventDraft draft = about(EventKind::kWorkHalted, reason);
    draft.project = project;
    writer_.record(std::move(draft));
}

void WordWriter::resume(const std::optional<std::int64_t>& project) {
    EventDraft draft = about(EventKind::kWorkResumed, std::nullopt);
    draft.project = project;
    writer_.record(std::move(draft));
}

void WordWriter::overrideGate(const GateOverride& word) {
    const auto promotion = writer_.promotion(word.promotion);
    if (!promotion) throw Error(ErrorCode::kNotFound, "there is no promotion p{}", word.promotion);
    EventDraft draft = about(EventKind::kGateOverridden, word.reason);
    draft.project = promotion->project;
    draft.change = promotion->change;
    draft.promotion = promotion->id;
    draft.stage = promotion->stage;
    draft.fields.set("gate", word.gate).set("roles", withCommas(word.roles));
    if (!word.about.empty()) draft.fields.set("about", word.about);
    writer_.record(std::move(draft));
}

}  // namespace gradus
