#include "store/records.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "store/audit_query.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kPromotionColumns =
    "select id, project, change, revision, stage, state, cause, rules, undoes, opened_at, moved_at, target, "
    "checkpoint, tree, previous, previous_tree, base, evidence, opened_boot, opened_uptime, steps, goal, "
    "place, paths from promotion ";

template <typename Enum, std::size_t kCount>
Enum enumFrom(const std::array<Name<Enum>, kCount>& table, std::string_view word) {
    if (const auto value = fromName(table, word)) return *value;
    throw Error(ErrorCode::kDamaged, "the database holds the unknown word '{}'", word)
        .hint("run `gradus audit verify`");
}

/// A text field of a payload, which is a JSON object we wrote.
std::optional<std::string> payloadText(const std::optional<std::string>& payload, const char* key) {
    if (!payload) return std::nullopt;
    const auto json = nlohmann::json::parse(*payload, nullptr, false);
    if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return std::nullopt;
    return json[key].get<std::string>();
}

std::vector<std::string> payloadList(const std::optional<std::string>& payload, const char* key) {
    const auto json = payload ? nlohmann::json::parse(*payload, nullptr, false) : nlohmann::json();
    std::vector<std::string> texts;
    if (!json.is_object() || !json.contains(key) || !json[key].is_array()) return texts;
    for (const auto& item : json[key])
        if (item.is_string()) texts.push_back(item.get<std::string>());
    return texts;
}

Promotion promotionFromRow(const Sql::Call& row) {
    Promotion promotion;
    promotion.id = row.number(0);
    promotion.project = row.number(1);
    promotion.change = row.number(2);
    promotion.revision = row.number(3);
    promotion.stage = row.text(4);
    promotion.state = enumFrom(kPromotionStates, row.view(5));
    promotion.cause = enumFrom(kCauses, row.view(6));
    promotion.rules = row.digest(7);
    promotion.undoes = row.optionalNumber(8);
    promotion.openedAt = fromMillis(row.number(9));
    promotion.movedAt = fromMillis(row.number(10));
    promotion.target = row.optionalText(11);
    promotion.checkpoint = row.optionalDigest(12);
    promotion.tree = row.optionalDigest(13);
    promotion.previous = row.optionalNumber(14);
    promotion.previousTree = row.optionalDigest(15);
    promotion.base = row.optionalDigest(16);
    promotion.evidence = row.optionalDigest(17);
    promotion.opened = {promotion.openedAt, row.optionalText(18).value_or(""),
                        Milliseconds(row.optionalNumber(19).value_or(0))};
    promotion.steps = row.optionalDigest(20);
    promotion.goal = row.optionalText(21);
    promotion.place = row.number(22);
    promotion.paths = row.optionalNumber(23);
    return promotion;
}

std::vector<Promotion> allPromotions(Sql::Call rows) {
    std::vector<Promotion> out;
    while (rows.step()) out.push_back(promotionFromRow(rows));
    return out;
}

constexpr std::string_view kCheckColumns =
    "select c.promotion, c.name, c.verdict, c.evidence, c.exit_code, c.wall_ms, c.log, c.phase, c.execution, p.text, "
    "c.asked, c.definition, c.reused, c.outputs, c.built_of ";

CheckResult checkFromRow(const Sql::Call& row) {
    CheckResult result;
    result.promotion = row.number(0);
    result.check = row.text(1);
    result.verdict = enumFrom(kCauses, row.view(2));
    result.evidence = row.digest(3);
    result.exitCode = row.optionalNumber(4);
    result.wallMs = row.number(5);
    result.log = row.optionalDigest(6);
    result.phase = enumFrom(kCheckPhases, row.view(7));
    result.execution = row.optionalNumber(8);
    result.reason = payloadText(row.optionalText(9), "reason").value_or("");
    result.asked = row.optionalDigest(10);
    result.definition = row.optionalDigest(11);
    result.reused = row.optionalNumber(12);
    result.outputs = row.optionalDigest(13);
    result.builtOf = row.optionalDigest(14);
    return result;
}

Change changeFromRow(const Sql::Call& row) {
    Change change;
    change.id = row.number(0);
    change.project = row.number(1);
    change.actor = row.number(2);
    change.sponsor = row.optionalNumber(3);
    change.revision = row.number(4);
    change.changeSet = row.digest(5);
    change.base = row.digest(6);
    change.patch = row.digest(7);
    change.submittedAt = fromMillis(row.number(8));
    change.title = payloadText(row.optionalText(9), "title");
    change.message = payloadText(row.optionalText(9), "message").value_or("");
    change.author = payloadText(row.optionalText(9), "author").value_or("");
    change.labels = payloadList(row.optionalText(9), "labels");
    return change;
}

// A path may hold any bytes; what JSON could not hold was replaced when it was recorded (see Writer::project).
std::string asRecorded(const std::string& bytes) {
    if (!firstInvalidUtf8(bytes)) return bytes;
    const std::string text = nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return nlohmann::json::parse(text).get<std::string>();
}

/// What lies where a project was, seen from where a directory with its key is now.
enum class There {
    kNothing,  ///< or something else: it was moved
    kSame,     ///< the same directory by another name
    kCopy,     ///< another one with the same key: all of its file system was copied
};

There whatIsAt(const std::filesystem::path& path, const ProjectIdentity& project) {
    try {
        const ProjectIdentity there = identify(path);
        if (there.device == project.device && there.inode == project.inode) return There::kSame;
        return !there.key.empty() && there.key == project.key ? There::kCopy : There::kNothing;
    } catch (const Error&) {
        return There::kNothing;
    }
}

std::optional<std::int64_t> projectOfKey(Sql& sql, const ProjectIdentity& project) {
    std::optional<std::int64_t> moved;
    auto rows =
        sql("select j.id, p.text from project j left join payload p on p.seq = coalesce(j.path_seq, j.seq) "
            "where j.key = ? order by j.id desc",
            project.key);
    while (rows.step()) {
        const std::string path = payloadText(rows.optionalText(1), "path").value_or("");
        if (path == asRecorded(project.path.native())) return rows.number(0);
        if (!moved && whatIsAt(path, project) != There::kCopy) moved = rows.number(0);
    }
    return moved;
}

}  // namespace

std::optional<ActorId> Records::findActor(const Actor& actor) const {
    return sql().number(
        "select a.id from actor a join payload p on p.seq = a.seq "
        "where a.kind = ? and json_extract(p.text, '$.name') = ?",
        nameOf(kActorKinds, actor.kind), actor.name);
}

std::optional<Actor> Records::actor(ActorId id) const {
    auto row = sql()("select a.kind, p.text from actor a join payload p on p.seq = a.seq where a.id = ?", id);
    if (!row.step()) return std::nullopt;
    return Actor{enumFrom(kActorKinds, row.view(0)), payloadText(row.text(1), "name").value_or("")};
}

std::optional<std::int64_t> Records::findProject(const ProjectIdentity& project) const {
    if (!project.key.empty())
        if (const auto known = projectOfKey(sql(), project)) return known;
    // What an older release recorded, or a file system that keeps no time of birth.
    return sql().number(
        "select j.id from project j join payload p on p.seq = coalesce(j.path_seq, j.seq) "
        "where j.inode = ? and j.key is null and json_extract(p.text, '$.path') = ? "
        "order by j.device = ? desc, j.id desc limit 1",
        project.inode, asRecorded(project.path.native()), project.device);
}

bool Records::hasMoved(std::int64_t id, const ProjectIdentity& project) const {
    const auto known = Records::project(id);
    if (!known || known->key != project.key) return true;
    // Of two names of one directory, by a bind mount, the first one stays.
    return known->path != asRecorded(project.path.native()) && whatIsAt(known->path, project) != There::kSame;
}

std::string Records::stateName(std::int64_t id, const ProjectIdentity& project) const {
    auto row = sql()(
        "select p.text, e.body like '%\"key\"%' and exists (select 1 from project o join payload q on q.seq = o.seq "
        "where o.id < j.id and json_extract(q.text, '$.path') = json_extract(p.text, '$.path')) "
        "from project j join event e on e.seq = j.seq join payload p on p.seq = j.seq where j.id = ?",
        id);
    const std::string now = project.path.native();
    if (!row.step()) return now;
    const std::string first = payloadText(row.optionalText(0), "path").value_or("");
    const std::string name = first.empty() || first == asRecorded(now) ? now : first;
    return row.number(1) == 0 ? name : fmt::format("{}\n{}", name, id);
}

std::optional<ProjectIdentity> Records::project(std::int64_t id) const {
    auto row = sql()(
        "select j.device, j.inode, p.text, j.key from project j "
        "left join payload p on p.seq = coalesce(j.path_seq, j.seq) where j.id = ?",
        id);
    if (!row.step()) return std::nullopt;
    return ProjectIdentity{payloadText(row.optionalText(2), "path").value_or(""), row.number(0), row.number(1),
                           row.optionalText(3).value_or("")};
}

std::optional<TrustedRules> Records::trustedRules(std::int64_t project) const {
    auto row = sql()(
        "select t.rules, t.files, t.actor, e.at from trusted_rules t join event e on e.seq = t.seq where t.project = ?",
        project);
    if (!row.step()) return std::nullopt;
    return TrustedRules{row.digest(0), row.digest(1), row.number(2), fromMillis(row.number(3))};
}

std::optional<Change> Records::change(std::int64_t id) const {
    auto row = sql()(
        "select c.id, c.project, c.actor, c.sponsor, c.revision, r.change_set, r.base, r.patch, e.at, p.text from "
        "change c "
        "join revision r on r.change = c.id and r.number = c.revision join event e on e.seq = c.seq "
        "left join payload p on p.seq = c.seq where c.id = ?",
        id);
    if (!row.step()) return std::nullopt;
    return changeFromRow(row);
}

std::optional<Change> Records::change(std::int64_t id, std::int64_t revision) const {
    auto row = sql()(
        "select c.id, c.project, c.actor, c.sponsor, r.number, r.change_set, r.base, r.patch, e.at, p.text from "
        "change c join revision r on r.change = c.id and r.number = ?2 join event e on e.seq = r.seq "
        "left join payload p on p.seq = r.seq where c.id = ?1",
        id, revision);
    if (!row.step()) return std::nullopt;
    return changeFromRow(row);
}

std::optional<std::int64_t> Records::latestChange(std::int64_t project) const {
    return sql().number("select max(id) from change where project = ?", project);
}

std::vector<Change> Records::changes(std::int64_t project, std::int64_t limit) const {
    auto rows = sql()(
        "select c.id, c.project, c.actor, c.sponsor, c.revision, r.change_set, r.base, r.patch, e.at, p.text from "
        "change c "
        "join revision r on r.change = c.id and r.number = c.revision join event e on e.seq = c.seq "
        "left join payload p on p.seq = c.seq where c.project = ? order by c.id desc limit ?",
        project, limit);
    std::vector<Change> out;
    while (rows.step()) out.push_back(changeFromRow(rows));
    return out;
}

std::optional<Promotion> Records::promotion(std::int64_t id) const {
    static const std::string kSql = std::string(kPromotionColumns) + "where id = ?";
    auto row = sql()(kSql, id);
    if (!row.step()) return std::nullopt;
    return promotionFromRow(row);
}

std::vector<Promotion> Records::promotionsOf(std::int64_t change) const {
    static const std::string kSql = std::string(kPromotionColumns) + "where change = ? order by id";
    return allPromotions(sql()(kSql, change));
}

std::vector<Promotion> Records::unfinished(std::int64_t project) const {
    // Of its own the planner takes the index of stages, and with it all that a project ever promoted.
    static const std::string kSql = std::string(kPromotionColumns) +
                                    "indexed by promotion_unfinished where project = ? and finished = 0 order by id";
    return allPromotions(sql()(kSql, project));
}

std::vector<Promotion> Records::unfinishedOf(std::int64_t change) const {
    static const std::string kSql =
        std::string(kPromotionColumns) + "indexed by promotion_by_change where change = ? and finished = 0 order by id";
    return allPromotions(sql()(kSql, change));
}

std::vector<Promotion> Records::atWork(std::int64_t project, const std::optional<std::string>& stage) const {
    static const std::string kOfStage = std::string(kPromotionColumns) +
                                        "indexed by promotion_active where project = ? and stage = ? and finished = 0 "
                                        "and state <> 'waiting' order by id";
    static const std::string kOfAll = std::string(kPromotionColumns) +
                                      "indexed by promotion_active where project = ? and finished = 0 and state <> "
                                      "'waiting' order by id";
    return stage ? allPromotions(sql()(kOfStage, project, *stage)) : allPromotions(sql()(kOfAll, project));
}

std::vector<Promotion> Records::waitingIn(std::int64_t project, const std::string& stage, std::int64_t from,
                                          std::int64_t limit) const {
    static const std::string kSql = std::string(kPromotionColumns) +
                                    "indexed by promotion_line where project = ? and stage = ? and place >= ? and "
                                    "finished = 0 and state = 'waiting' and undoes is null order by place, id limit ?";
    return allPromotions(sql()(kSql, project, stage, from, limit));
}

std::int64_t Records::lineLength(std::int64_t project, const std::string& stage) const {
    return *sql().number(
        "select count(*) from promotion indexed by promotion_line where project = ? and stage = ? and finished = 0 and "
        "undoes is null",
        project, stage);
}

std::vector<Promotion> Records::promotionsIn(std::int64_t project, const std::optional<std::string>& stage,
                                             std::int64_t limit) const {
    static const std::string kOfStage =
        std::string(kPromotionColumns) + "where project = ? and stage = ? order by id desc limit ?";
    static const std::string kOfAll = std::string(kPromotionColumns) + "where project = ? order by id desc limit ?";
    return stage ? allPromotions(sql()(kOfStage, project, *stage, limit))
                 : allPromotions(sql()(kOfAll, project, limit));
}

std::vector<Promotion> Records::leftBelow(std::int64_t project) const {
    static const std::string kSql =
        std::string(kPromotionColumns) +
        "where id in (select s.promotion from stage_state s join promotion b on b.id = s.promotion "
        "join promotion p on p.change = b.change and p.previous = b.id where s.project = ? and s.stuck is null "
        "and b.state = 'promoted' and b.checkpoint is not null and p.revision = b.revision and p.state = 'promoted' "
        "and p.undoes is null and coalesce(p.paths, 0) = 0 and exists (select 1 from promotion u where u.change = "
        "p.change and u.undoes = p.id "
        "and u.state = 'promoted')) order by id";
    return allPromotions(sql()(kSql, project));
}

std::vector<Time> Records::spentByMachines(std::int64_t project, const std::string& stage, Spent what, Time since,
                                           std::int64_t most) const {
    auto rows = sql()(
        "select m.moved_at from promotion m indexed by promotion_by_end join promotion o on o.id = coalesce(m.undoes, "
        "m.id) "
        "where m.project = ?1 and m.stage = ?2 and m.finished = 1 and m.moved_at > ?3 "
        "and (case when ?4 then (m.state = 'rejected' and m.cause = 'failed') or "
        "(m.state = 'promoted' and m.undoes is null) "
        "else m.state = 'rolled-back' or (m.state = 'promoted' and m.undoes is not null) end) "
        "and (exists (select 1 from maker k join actor a on a.id = k.actor "
        "where k.change = o.change and k.revision <= o.revision and a.kind <> 'person') "
        "or not exists (select 1 from event e join actor a on a.id = coalesce(json_extract(e.body, '$.for'), e.actor) "
        "where e.seq = o.seq and a.kind = 'person')) "
        "order by m.moved_at desc limit ?5",
        project, stage, toMillis(since), what == Spent::kPromotions ? 1 : 0, most);
    std::vector<Time> times;
    while (rows.step()) times.push_back(fromMillis(rows.number(0)));
    return times;
}

std::vector<Digest> Records::changeSetsOf(std::int64_t project, std::int64_t sandbox) const {
    auto rows = sql()(
        "select r.change_set from change c join event e on e.seq = c.seq join revision r on r.change = c.id and "
        "r.number = 1 where c.project = ? and json_extract(e.body, '$.sandbox') = ? order by c.id desc limit 20",
        project, sandbox);
    std::vector<Digest> sets;
    while (rows.step()) sets.push_back(rows.digest(0));
    return sets;
}

std::vector<Time> Records::failedTries(std::int64_t change, std::int64_t revision, const std::string& stage) const {
    auto rows = sql()(
        "select moved_at from promotion where change = ?1 and revision = ?2 and stage = ?3 and state = 'rejected' and "
        "cause = 'failed' and id > (select coalesce(max(id), 0) from promotion where change = ?1 and stage = ?3 and "
        "state = 'promoted') order by id desc limit 20",
        change, revision, stage);
    std::vector<Time> times;
    while (rows.step()) times.push_back(fromMillis(rows.number(0)));
    return times;
}

std::optional<std::string> Records::lastReason(std::int64_t promotion) const {
    auto row = sql()("select p.text from promotion m join payload p on p.seq = m.seq where m.id = ?", promotion);
    if (!row.step()) return std::nullopt;
    return payloadText(row.text(0), "reason");
}

std::optional<Actor> Records::movedBy(std::int64_t promotion) const {
    const auto id = sql().number(
        "select coalesce(json_extract(e.body, '$.for'), e.actor) from promotion m join event e "
        "on e.seq = m.seq where m.id = ?",
        promotion);
    return id ? actor(*id) : std::nullopt;
}

std::optional<std::int64_t> Records::promotionOfExecution(std::int64_t execution) const {
    // Who takes an answer from before names the same run.
    return sql().number(
        "select promotion from check_result where execution = ? order by reused is not null, seq limit 1", execution);
}

StageState Records::stageState(std::int64_t project, const std::string& stage) const {
    auto row = sql()("select promotion, tree, stuck, attention from stage_state where project = ? and stage = ?",
                     project, stage);
    if (!row.step()) return {};
    return {row.optionalNumber(0), row.optionalDigest(1), row.optionalNumber(2), row.optionalNumber(3)};
}

std::optional<std::int64_t> Records::atWorkOn(const std::string& target) const {
    return sql().number("select promotion from target where name = ?", target);
}

// What failed, or was taken back, leads nowhere any more: it takes no place from what can be taken back.
std::vector<Promotion> Records::takeable(std::int64_t project, const std::string& stage) const {
    static const std::string kSql =
        std::string(kPromotionColumns) +
        "where checkpoint is not null and id in (select id from promotion indexed by promotion_unfinished where "
        "project = ?1 and stage = ?2 and finished = 0 union all select stuck from stage_state where project = ?1 and "
        "stage = ?2 union all select id from (select id from promotion as done where project = ?1 and stage = ?2 and "
        "checkpoint is not null and state = 'promoted' and undoes is null and not exists (select 1 from promotion as "
        "back where back.change = done.change and back.undoes = done.id and back.state = 'promoted') order by id desc "
        "limit 20)) order by id";
    return allPromotions(sql()(kSql, project, stage));
}

std::vector<Digest> Records::checkpoints() const {
    auto rows = sql()(
        "select checkpoint from promotion where checkpoint is not null and (finished = 0 or state = 'stuck') union "
        "select checkpoint from (select checkpoint, row_number() over (partition by project, stage order by id desc) "
        "as age from promotion where checkpoint is not null and state = 'promoted' and undoes is null and id not in "
        "(select undoes from promotion where undoes is not null and state = 'promoted')) where age <= 20");
    std::vector<Digest> out;
    while (rows.step()) out.push_back(rows.digest(0));
    return out;
}

std::vector<CheckResult> Records::checkResults(std::int64_t promotion) const {
    static const std::string kSql = std::string(kCheckColumns) +
                                    "from check_result c left join payload p on p.seq = c.seq where c.promotion = ? "
                                    "order by c.seq";
    auto rows = sql()(kSql, promotion);
    std::vector<CheckResult> out;
    while (rows.step()) out.push_back(checkFromRow(rows));
    return out;
}

std::optional<EarlierProof> Records::earlierProof(std::int64_t project, const Digest& asked, Time since) const {
    static const std::string kSql = std::string(kCheckColumns) +
                                    ", e.at from check_result c join event e on e.seq = c.seq join promotion m on m.id "
                                    "= c.promotion left join payload p on p.seq = c.seq where c.asked = ? and "
                                    "c.verdict = 'passed' and c.reused is null and c.phase = 'before' and m.project = "
                                    "? and e.at >= ? order by c.seq desc limit 1";
    auto row = sql()(kSql, asked, project, toMillis(since));
    if (!row.step()) return std::nullopt;
    return EarlierProof{checkFromRow(row), fromMillis(row.number(15))};
}

std::optional<EarlierProof> Records::builtBefore(std::int64_t project, const Digest& builtOf) const {
    static const std::string kSql = std::string(kCheckColumns) +
                                    ", e.at from check_result c join event e on e.seq = c.seq join promotion m on m.id "
                                    "= c.promotion left join payload p on p.seq = c.seq where c.built_of = ? and "
                                    "c.verdict = 'passed' and c.reused is null and c.outputs is not null and "
                                    "m.project = ? order by c.seq desc limit 1";
    auto row = sql()(kSql, builtOf, project);
    if (!row.step()) return std::nullopt;
    return EarlierProof{checkFromRow(row), fromMillis(row.number(15))};
}

// What is older is built again, should anybody ask for it: releases have their own copy.
std::vector<Digest> Records::outputs() const {
    auto rows = sql()(
        "select distinct outputs from (select c.outputs, row_number() over (partition by m.project, c.name order by "
        "c.seq desc) as age from check_result c join promotion m on m.id = c.promotion where c.outputs is not null and "
        "c.reused is null) where age <= 20");
    std::vector<Digest> out;
    while (rows.step()) out.push_back(rows.digest(0));
    return out;
}

std::int64_t Records::newestEvent() const { return sql().number("select max(seq) from event").value_or(0); }

Time Records::latestSince(std::int64_t seq) const {
    // Between two steps of the clock, times only grow.
    const auto last = sql().number("select at from event where seq > ? order by seq desc limit 1", seq);
    const auto before = sql().number("select max(before) from clock_step where seq > ?", seq);
    Time latest = Time::min();
    if (last) latest = std::max(latest, fromMillis(*last));
    if (before) latest = std::max(latest, fromMillis(*before));
    return latest;
}

std::int64_t Records::openingEvent(std::int64_t promotion) const {
    return sql()
        .number(
            "select seq from event where promotion = ? and seq >= (select c.seq from promotion p join change c "
            "on c.id = p.change where p.id = ?) order by seq limit 1",
            promotion, promotion)
        .value_or(0);
}

StoreCounts Records::counts() const {
    // Every id is dense by construction, so the largest is the count; counting rows would read whole tables.
    const auto largest = [&](std::string_view statement) { return sql().number(statement).value_or(0); };
    StoreCounts counts;
    counts.events = newestEvent();
    counts.redactions = largest("select count(*) from redaction");
    counts.projects = largest("select max(id) from project");
    counts.changes = largest("select max(id) from change");
    counts.promotions = largest("select max(id) from promotion");
    counts.unfinished = largest("select count(*) from promotion where finished = 0");
    return counts;
}

std::vector<Digest> Records::changeSets() const {
    auto rows =
        sql()("select change_set from revision union select change_set from sandbox where change_set is not null");
    std::vector<Digest> out;
    while (rows.step()) out.push_back(rows.digest(0));
    return out;
}

std::vector<Digest> Records::referencedObjects() const {
    auto rows = sql()(
        "select change_set from revision union select base from revision union "
        "select log from check_result where log is not null union "
        "select checkpoint from promotion where checkpoint is not null union "
        "select steps from promotion where steps is not null union "
        "select log from step where log is not null union "
        "select change_set from sandbox where change_set is not null union "
        // Only the newest outputs are kept: every `try` makes some, and nobody would ever remove them.
        "select stdout from execution where stdout is not null and id > (select max(id) from execution) - 10000 union "
        "select stderr from execution where stderr is not null and id > (select max(id) from execution) - 10000 union "
        "select services from execution where services is not null and "
        "id > (select max(id) from execution) - 10000");
    std::vector<Digest> out;
    while (rows.step()) out.push_back(rows.digest(0));
    for (const Digest& digest : outputs()) out.push_back(digest);
    // Rules that are no longer in force are what older promotions were allowed by: the log must be able to show them.
    for (const Event& event : queryEvents(sql(), {.kind = EventKind::kRulesTrusted, .limit = kAll}))
        out.push_back(event.fields.digest("files"));
    return out;
}

}  // namespace gradus
