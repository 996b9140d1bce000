#include "store/word_records.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gradus {

namespace {

constexpr std::string_view kApprovalColumns =
    "select a.id, a.project, a.change, a.revision, a.stage, a.actor, a.rules, a.base, a.evidence, a.roles, a.given_at, "
    "a.withdrawn, a.used_by, p.text, a.seq, json_extract(e.body, '$.boot'), json_extract(e.body, '$.\"uptime-ms\"') "
    "from approval a left join payload p on p.seq = a.seq left join event e on e.seq = a.seq ";

std::optional<std::string> reasonIn(const std::optional<std::string>& payload) {
    if (!payload) return std::nullopt;
    const auto json = nlohmann::json::parse(*payload, nullptr, false);
    if (!json.is_object() || !json.contains("reason") || !json["reason"].is_string()) return std::nullopt;
    return json["reason"].get<std::string>();
}

std::optional<Time> optionalTime(const Sql::Call& row, int column) {
    const auto millis = row.optionalNumber(column);
    return millis ? std::optional(fromMillis(*millis)) : std::nullopt;
}

std::vector<std::string> withoutCommas(const std::string& text) {
    std::vector<std::string> roles;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        roles.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return roles;
}

Approval approvalFromRow(const Sql::Call& row) {
    Approval approval;
    approval.id = row.number(0);
    approval.project = row.number(1);
    approval.change = row.number(2);
    approval.revision = row.number(3);
    approval.stage = row.text(4);
    approval.by = row.number(5);
    approval.rules = row.digest(6);
    approval.base = row.digest(7);
    approval.evidence = row.optionalDigest(8);
    approval.roles = withoutCommas(row.text(9));
    approval.at = fromMillis(row.number(10));
    approval.withdrawn = row.number(11) != 0;
    approval.usedBy = row.optionalNumber(12);
    approval.reason = reasonIn(row.optionalText(13));
    approval.seq = row.number(14);
    approval.given = {approval.at, row.optionalText(15).value_or(""), Milliseconds(row.optionalNumber(16).value_or(0))};
    return approval;
}

}  // namespace

std::optional<Approval> WordRecords::approval(std::int64_t id) const {
    static const std::string kSql = std::string(kApprovalColumns) + "where a.id = ?";
    auto row = (*sql_)(kSql, id);
    if (!row.step()) return std::nullopt;
    return approvalFromRow(row);
}

std::vector<Approval> WordRecords::approvals(std::int64_t change, const std::string& stage) const {
    static const std::string kSql =
        std::string(kApprovalColumns) + "where a.change = ? and a.stage = ? and a.withdrawn = 0 order by a.id";
    auto rows = (*sql_)(kSql, change, stage);
    std::vector<Approval> out;
    while (rows.step()) out.push_back(approvalFromRow(rows));
    return out;
}

std::vector<Hold> WordRecords::holds(std::int64_t project) const {
    auto rows = (*sql_)(
        "select h.stage, h.change, h.only_machines, h.promotion, h.ends_at, p.text, h.patch, h.actor, h.held_at, h.seq "
        "from hold h left join payload p on p.seq = h.seq where h.project = ? order by h.seq",
        project);
    std::vector<Hold> out;
    while (rows.step())
        out.push_back({project, rows.optionalText(0), rows.optionalNumber(1), rows.number(2) != 0,
                       rows.optionalNumber(3), optionalTime(rows, 4), reasonIn(rows.optionalText(5)),
                       rows.optionalDigest(6), rows.number(7), fromMillis(rows.number(8)), rows.number(9)});
    return out;
}

std::vector<Pin> WordRecords::pins(std::int64_t project) const {
    auto rows = (*sql_)(
        "select n.stage, n.change, n.revision, p.text, n.actor, n.pinned_at from stage_pin n "
        "left join payload p on p.seq = n.seq where n.project = ? order by n.stage",
        project);
    std::vector<Pin> out;
    while (rows.step())
        out.push_back({project, rows.text(0), rows.number(1), rows.optionalNumber(2), reasonIn(rows.optionalText(3)),
                       rows.number(4), fromMillis(rows.number(5))});
    return out;
}

std::vector<Veto> WordRecords::vetoes(std::int64_t project) const {
    auto rows = (*sql_)(
        "select v.seq, v.change, v.change_set, v.patch, v.stage, p.text, v.actor, v.vetoed_at from veto v "
        "left join payload p on p.seq = v.seq where v.project = ? order by v.seq",
        project);
    std::vector<Veto> out;
    while (rows.step())
        out.push_back({rows.number(0), project, rows.number(1), rows.digest(2), rows.digest(3), rows.optionalText(4),
                       reasonIn(rows.optionalText(5)), rows.number(6), fromMillis(rows.number(7))});
    return out;
}

std::optional<Halt> WordRecords::halt(std::int64_t project) const {
    auto row = (*sql_)(
        "select h.project, p.text, h.actor, h.halted_at from halt h left join payload p on p.seq = h.seq "
        "where h.project is null or h.project = ? order by h.seq limit 1",
        project);
    if (!row.step()) return std::nullopt;
    return Halt{row.optionalNumber(0), reasonIn(row.optionalText(1)), row.number(2), fromMillis(row.number(3))};
}

std::vector<GateOverride> WordRecords::overrides(std::int64_t promotion) const {
    auto rows = (*sql_)(
        "select o.gate, o.roles, p.text, o.actor, o.given_at, json_extract(e.body, '$.about') from gate_override o "
        "join event e on e.seq = o.seq left join payload p on p.seq = o.seq where o.promotion = ? order by o.seq",
        promotion);
    std::vector<GateOverride> out;
    while (rows.step())
        out.push_back({promotion, rows.text(0), withoutCommas(rows.text(1)), reasonIn(rows.optionalText(2)),
                       rows.number(3), fromMillis(rows.number(4)), rows.optionalText(5).value_or("")});
    return out;
}

std::vector<RevisionMaker> WordRecords::makers(std::int64_t change) const {
    auto rows = (*sql_)("select actor, sponsor from maker where change = ? order by revision, actor", change);
    std::vector<RevisionMaker> out;
    while (rows.step()) {
        const RevisionMaker maker{rows.number(0), rows.optionalNumber(1)};
        if (std::find(out.begin(), out.end(), maker) == out.end()) out.push_back(maker);
    }
    return out;
}

}  // namespace gradus
